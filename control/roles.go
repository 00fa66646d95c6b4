package control

// Role is what somebody may do through the console. It says nothing about who may
// speak to the control subjects at all: that is for the server's permissions.
type Role string

// The roles, each of which may do what the ones before it may.
const (
	Viewer   Role = "viewer"   // looks
	Operator Role = "operator" // and decides about letters, calls and tools
	Admin    Role = "admin"    // and raises budgets, changes arguments and removes for good
)

// Roles are all of them, the least first.
var Roles = []Role{Viewer, Operator, Admin}

// VerbCancel stands for a request to tollgate.cancel, which is no verb of tollgate.ctl.
const VerbCancel = "cancel"

// needs is the least role for each verb that changes something or leaves the machine.
// What is not in it only looks.
var needs = map[string]Role{
	VerbCancel: Operator, VerbReplay: Operator, VerbResolve: Operator, VerbDiscard: Operator, VerbRestore: Operator, VerbNote: Operator,
	VerbToolPause: Operator, VerbToolResume: Operator,
	VerbReplaysCreate: Operator, VerbReplayPause: Operator, VerbReplayResume: Operator, VerbReplayCancel: Operator,
	VerbRunGrant: Admin, VerbEdit: Admin, VerbPurge: Admin, VerbImport: Admin, VerbExport: Admin, VerbBackup: Admin,
	VerbConsoleLink: Admin,
}

// Needs is the least role that may ask a verb.
func Needs(verb string) Role {
	if r, ok := needs[verb]; ok {
		return r
	}
	return Viewer
}

// May reports whether the role may ask a verb. An unknown role may nothing.
func (r Role) May(verb string) bool { return r.rank() >= Needs(verb).rank() && r.rank() >= 0 }

func (r Role) rank() int {
	for i, known := range Roles {
		if r == known {
			return i
		}
	}
	return -1
}
