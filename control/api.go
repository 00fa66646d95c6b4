// Package control is the micro services: tollgate.do, the request/reply endpoint
// for agents; tollgate.cancel; and tollgate.ctl, which the command line and the
// console stand on. This file is the operators' contract; Client speaks it.
//
// Nothing is decided here: requests are decoded, handed on, and answered.
package control

import (
	"time"

	"tollgate/budget"
	"tollgate/deadletter"
	"tollgate/dedupe"
	"tollgate/schemas"
)

// The operators' verbs: the last tokens of tollgate.ctl.<verb>. Requests and answers are
// JSON; a failure is an answer with the headers Nats-Service-Error and
// Nats-Service-Error-Code (400 bad request, 404 not found, 409 conflict, 500, 503)
// and a body of [Problem].
const (
	VerbStatus     = "status"       // Empty        → Status
	VerbVerify     = "verify"       // Empty        → VerifyReport
	VerbBackup     = "backup"       // BackupQuery  → BackupReport
	VerbCallsList  = "calls.ls"     // CallsQuery   → CallsPage
	VerbCallShow   = "calls.show"   // IDQuery      → CallDetail
	VerbRunsList   = "runs.ls"      // RunsQuery    → RunsPage
	VerbRunShow    = "runs.show"    // RunQuery     → RunDetail
	VerbRunGrant   = "runs.grant"   // GrantQuery   → RunDetail
	VerbLetterList = "dlq.ls"       // deadletter.Filter → deadletter.Page
	VerbLetterIDs  = "dlq.ids"      // deadletter.Filter → LetterIDs (the frozen set of a bulk operation)
	VerbStats      = "dlq.stats"    // deadletter.Filter → LetterStats
	VerbGroups     = "dlq.groups"   // GroupsQuery  → GroupsPage
	VerbLetterShow = "dlq.show"     // IDQuery      → schemas.Letter
	VerbReplay     = "dlq.replay"   // ReplayQuery  → Done
	VerbEdit       = "dlq.edit"     // EditQuery    → EditReport
	VerbResolve    = "dlq.resolve"  // ResolveQuery → Done
	VerbDiscard    = "dlq.discard"  // LetterQuery  → Done
	VerbRestore    = "dlq.restore"  // LetterQuery  → Done
	VerbPurge      = "dlq.purge"    // PurgeQuery   → Done
	VerbNote       = "dlq.note"     // NoteQuery    → Done
	VerbExport     = "dlq.export"   // IDQuery      → the letter as it is stored: its headers and body, and HeaderSubject
	VerbImport     = "dlq.import"   // a letter as dlq.export gives it, and HeaderWhy → Imported
	VerbAuditList  = "audit.ls"     // AuditQuery   → AuditPage
	VerbToolsList  = "tools.ls"     // ToolsQuery   → ToolsPage
	VerbToolShow   = "tools.show"   // ToolQuery    → ToolDetail
	VerbToolPause  = "tools.pause"  // ToolQuery    → ToolDetail
	VerbToolResume = "tools.resume" // ToolQuery    → ToolDetail
)

// The verbs of bulk replays.
const (
	VerbReplaysPlan   = "replays.plan"   // replays.Query → replays.Plan: what create would do
	VerbReplaysCreate = "replays.create" // replays.Query → dedupe.Replay
	VerbReplaysList   = "replays.ls"     // Empty         → ReplaysPage
	VerbReplayShow    = "replays.show"   // ReplayName    → dedupe.Replay
	VerbReplayItems   = "replays.items"  // ReplayName    → replays.Items
	VerbReplayPause   = "replays.pause"  // ReplayName    → dedupe.Replay
	VerbReplayResume  = "replays.resume" // ReplayName    → dedupe.Replay
	VerbReplayCancel  = "replays.cancel" // ReplayName    → dedupe.Replay
)

// Headers of control requests. The operator is named in every one; the others come
// with a letter that is carried as it is stored.
const (
	HeaderBy      = "Tollgate-By"
	HeaderRole    = "Tollgate-Role" // what whoever asks may do; absent: all that the server's permissions let through
	HeaderSubject = "Tollgate-Subject"
	HeaderWhy     = "Tollgate-Why"
)

// Empty is the request of a verb that takes nothing.
type Empty struct{}

// Done is the answer of an operation that has nothing else to say.
type Done struct {
	ID string `json:"id"`
}

// Problem is the body of a failed answer.
type Problem struct {
	Code int    `json:"code"`
	What string `json:"error"`
	Try  string `json:"try,omitempty"`
}

// IDQuery names a call or letter by its ID or an unambiguous beginning of it, at
// least four characters.
type IDQuery struct {
	ID string `json:"id"`
}

// Check is one thing verify looked at.
type Check struct {
	Name    string   `json:"name"` // the invariant it stands for
	What    string   `json:"what"`
	Checked int      `json:"checked"`
	Faults  []string `json:"faults,omitempty"`
}

// VerifyReport is what verify found.
type VerifyReport struct {
	OK     bool    `json:"ok"`
	Checks []Check `json:"checks"`
}

// BackupQuery names a new file on the dispatcher's machine.
type BackupQuery struct {
	Path string `json:"path"`
}

// BackupReport says what was written.
type BackupReport struct {
	Path  string `json:"path"`
	Bytes int64  `json:"bytes"`
}

// CallsQuery narrows a list of calls.
type CallsQuery struct {
	Tenant string `json:"tenant,omitempty"`
	Tool   string `json:"tool,omitempty"` // glob
	Run    string `json:"run,omitempty"`  // the path and everything below it
	Key    string `json:"key,omitempty"`
	State  string `json:"state,omitempty"`  // one of CallStates
	Status string `json:"status,omitempty"` // of the outcome, one of CallStatuses
	Limit  int    `json:"limit,omitempty"`  // 0: 50
	After  uint64 `json:"after,omitempty"`  // Next of the page before
	Scan   int    `json:"scan,omitempty"`   // most calls to look at, the others are for the next page; 0: all there are
}

// CallSummary is one line of a list of calls.
type CallSummary struct {
	Call       string         `json:"call"`
	Tenant     string         `json:"tenant"`
	Lane       schemas.Lane   `json:"lane"`
	Tool       string         `json:"tool"`
	Run        string         `json:"run"`
	Key        string         `json:"key"`
	State      string         `json:"state"`
	Status     schemas.Status `json:"status,omitempty"`
	Code       string         `json:"code,omitempty"`
	Generation int            `json:"generation"`
	Attempts   int            `json:"attempts"`
	Limit      int            `json:"attempts_limit"`
	Published  time.Time      `json:"published"`
	Deadline   time.Time      `json:"deadline"`
	Due        time.Time      `json:"due,omitzero"`
	Settled    time.Time      `json:"settled,omitzero"`
}

// CallsPage is one page of a list of calls, newest first.
type CallsPage struct {
	Calls []CallSummary `json:"items"`
	Next  uint64        `json:"next,omitempty"`
	Short bool          `json:"short,omitempty"` // it ends early, since as many were looked at as may be
}

// CallDetail is everything known of one call.
type CallDetail struct {
	CallSummary
	Fingerprint   string            `json:"fingerprint"`
	DownstreamKey string            `json:"downstream_key"`
	Terms         dedupe.Terms      `json:"terms"`
	Ambiguous     bool              `json:"ambiguous"`
	Recoveries    int               `json:"recoveries"`
	Origin        schemas.Origin    `json:"origin"`
	Timeline      []schemas.Attempt `json:"timeline"` // attempts, with why each decision was taken
	Outcome       *schemas.Outcome  `json:"outcome,omitempty"`
	Letter        string            `json:"letter,omitempty"` // its ID
	LetterState   string            `json:"letter_state,omitempty"`
	EditedTo      string            `json:"edited_to,omitempty"`   // the call that an operator has made of its letter
	EditedFrom    string            `json:"edited_from,omitempty"` // the letter that it was made of
	Note          string            `json:"note,omitempty"`
	Owes          string            `json:"owes,omitempty"` // what is not published yet
	ToolCallID    string            `json:"tool_call_id,omitempty"`
	Replay        string            `json:"replay,omitempty"` // the bulk replay that opened this generation
	ReplayBy      string            `json:"replay_by,omitempty"`
	Lease         time.Time         `json:"lease,omitzero"` // until when the running attempt holds it

	Arguments      string           `json:"arguments,omitempty"`
	ArgumentsBytes int              `json:"arguments_bytes,omitempty"` // their number; more than is shown when they are many
	ArgumentsFrom  string           `json:"arguments_from,omitempty"`  // ledger, letter or stream; "": they are not kept any more
	ArgumentsError string           `json:"arguments_error,omitempty"` // why they could not be read
	Header         schemas.Header   `json:"header,omitempty"`          // the agent's own
	ResultBytes    int              `json:"result_bytes,omitempty"`    // of a result of which only a part is shown
	Accounts       []budget.Account `json:"accounts,omitempty"`        // that pay for it, from the root down
}

// GrantQuery raises an account's limits.
type GrantQuery struct {
	Tenant      string        `json:"tenant,omitempty"`
	Run         string        `json:"run"` // the account's path
	Attempts    int           `json:"attempts,omitempty"`
	SideEffects int           `json:"side_effects,omitempty"`
	Elapsed     time.Duration `json:"elapsed,omitempty"`
	Why         string        `json:"why"`
}

// LetterIDs is a frozen set, or with a Limit a part of it.
type LetterIDs struct {
	IDs     []string       `json:"ids"`
	Skipped map[string]int `json:"skipped,omitempty"` // by why
	Next    uint64         `json:"next,omitempty"`    // Before of the next part
}

// GroupsQuery asks for groups; the filter's Limit is the most of them.
type GroupsQuery struct {
	deadletter.Filter
	By string `json:"by,omitempty"`
}

// GroupsPage is the groups, the largest first.
type GroupsPage struct {
	Groups []deadletter.Group `json:"items"`
	Count  int                `json:"groups"` // of which the page may have a part
	Total  int                `json:"total"`  // letters
}

// LetterStats is how many letters there are, of what, and how much room they take.
type LetterStats struct {
	deadletter.Stats
	Bytes    uint64 `json:"bytes"`
	MaxBytes int64  `json:"max_bytes"` // -1: as much as the server has
}

// ReplayQuery replays one letter.
type ReplayQuery struct {
	ID string `json:"id"`
	deadletter.ReplayOptions
}

// ResolveQuery resolves one letter.
type ResolveQuery struct {
	ID string `json:"id"`
	deadletter.ResolveOptions
}

// LetterQuery discards or restores one letter.
type LetterQuery struct {
	ID  string `json:"id"`
	Why string `json:"why,omitempty"`
}

// PurgeQuery removes one letter for good.
type PurgeQuery struct {
	ID string `json:"id"`
	deadletter.PurgeOptions
}

// NoteQuery notes something on a letter or a group; no text takes the note away.
type NoteQuery struct {
	ID   string `json:"id"`
	Text string `json:"text"`
}

// Imported says what became of a letter that was brought back.
type Imported struct {
	ID    string `json:"id"`
	Added bool   `json:"added"` // else it was there
}

// AuditQuery narrows the operators' decisions.
type AuditQuery struct {
	Tenant  string    `json:"tenant,omitempty"`
	Action  string    `json:"action,omitempty"` // several are joined by commas
	By      string    `json:"by,omitempty"`     // a part of the name
	Target  string    `json:"target,omitempty"` // a part of it
	Since   time.Time `json:"since,omitzero"`
	Until   time.Time `json:"until,omitzero"`
	Refused bool      `json:"refused,omitempty"` // only what was not allowed
	Limit   int       `json:"limit,omitempty"`   // 0: 50
	Before  uint64    `json:"before,omitempty"`  // Next of the page before
}

// AuditEntry is one decision and where it is recorded.
type AuditEntry struct {
	Sequence uint64 `json:"seq"`
	dedupe.Audit
}

// AuditPage is a list of decisions, the newest first.
type AuditPage struct {
	Entries []AuditEntry `json:"items"`
	Next    uint64       `json:"next,omitempty"`
}
