package schemas

import (
	"fmt"
	"strconv"
	"strings"
)

// Lane keeps interactive calls and background jobs apart.
type Lane string

// The lanes.
const (
	Calls Lane = "calls"
	Jobs  Lane = "jobs"
)

// Invalid stands in subjects for a tenant or a tool whose name is not legal.
const Invalid = "_invalid"

var nameSet, runSet, tenantSet = setOf(nameBytes), setOf(runBytes), setOf(tenantBytes)

// ValidTenant reports whether s is a legal tenant name.
func ValidTenant(s string) bool { return segments(s, tenantSet, 0, 1, 32) }

// ValidTool reports whether s is a legal tool name: up to 8 segments, 160 characters.
func ValidTool(s string) bool { return len(s) <= 160 && segments(s, nameSet, '.', 8, 64) }

// Subjects builds and reads the subjects below one prefix.
type Subjects struct{ Prefix string }

// NewSubjects returns the subjects below prefix, "tollgate" when it is empty.
func NewSubjects(prefix string) (Subjects, error) {
	if prefix == "" {
		prefix = "tollgate"
	}
	if !segments(prefix, nameSet, '.', 4, 64) {
		return Subjects{}, fmt.Errorf("subject prefix %q: want up to 4 segments of [A-Za-z0-9_-] joined by dots", prefix)
	}
	return Subjects{prefix}, nil
}

func (s Subjects) join(parts ...string) string { return s.Prefix + "." + strings.Join(parts, ".") }

// Submit is the subject an agent publishes a call or job to.
func (s Subjects) Submit(lane Lane, tenant, tool string) string {
	return s.join(string(lane), tenant, tool)
}

// Do is the subject of the request/reply endpoint.
func (s Subjects) Do(tenant, tool string) string { return s.join("do", tenant, tool) }

// Cancel is the subject of the cancel endpoint.
func (s Subjects) Cancel(tenant string) string { return s.join("cancel", tenant) }

// Result is where the outcome of a call is published; root is the first segment
// of its run path.
func (s Subjects) Result(tenant, root, call string) string {
	return s.join("results", tenant, root, call)
}

// Refused is where the refusal of a message is published.
func (s Subjects) Refused(tenant, root, call string) string {
	return s.join("results", tenant, root, call, "refused")
}

// Letter is where a dead letter is stored.
func (s Subjects) Letter(tenant, reason, tool, call string, generation int) string {
	return s.join("dlq", tenant, reason, tool, call, strconv.Itoa(generation))
}

// Schedule is where an armed retry waits.
func (s Subjects) Schedule(lane Lane, tenant, call string) string {
	return s.join("sched", string(lane), tenant, call)
}

// Retry is where an armed retry is delivered when it is due.
func (s Subjects) Retry(lane Lane, tenant, call, tool string) string {
	return s.join("retry", string(lane), tenant, call, tool)
}

// Audit is where an operator's decision is recorded.
func (s Subjects) Audit(tenant, action string) string { return s.join("audit", tenant, action) }

// Control is the subject of one operator verb, such as "dlq.ls".
func (s Subjects) Control(verb string) string { return s.join("ctl", verb) }

// ParseSubmit splits a submit, do or fired-retry subject. Names that are not legal
// come back as they are, with a *[Malformed]; a subject of another kind is an error too.
func (s Subjects) ParseSubmit(subject string) (lane Lane, tenant, tool string, err error) {
	rest, ok := strings.CutPrefix(subject, s.Prefix+".")
	parts := strings.SplitN(rest, ".", 3)
	switch {
	case ok && parts[0] == "retry":
		parts = nil
		if retry := strings.SplitN(rest, ".", 5); len(retry) == 5 {
			parts = []string{retry[1], retry[2], retry[4]}
		}
	case ok && parts[0] == "do":
		parts[0] = string(Calls)
	}
	if !ok || len(parts) < 3 {
		return "", "", "", fieldError("subject", "%q is not a call subject", subject)
	}
	lane, tenant, tool = Lane(parts[0]), parts[1], parts[2]
	switch {
	case lane != Calls && lane != Jobs:
		return lane, tenant, tool, fieldError("subject", "%q is not a call subject", subject)
	case !ValidTenant(tenant):
		return lane, tenant, tool, fieldError("tenant", "%q: want 1 to 32 of [a-z0-9_-]", tenant)
	case !ValidTool(tool):
		return lane, tenant, tool, fieldError("tool", "%q: want up to 8 segments of [A-Za-z0-9_-]{1,64}, 160 characters in all", tool)
	}
	return lane, tenant, tool, nil
}

// LetterSubject is what a dead letter's subject says.
type LetterSubject struct {
	Tenant, Reason, Tool, Call string
	Generation                 int
}

// ParseLetter splits a dead-letter subject.
func (s Subjects) ParseLetter(subject string) (LetterSubject, error) {
	rest, ok := strings.CutPrefix(subject, s.Prefix+".dlq.")
	parts := strings.Split(rest, ".")
	if !ok || len(parts) < 5 {
		return LetterSubject{}, fmt.Errorf("%q is not a dead-letter subject", subject)
	}
	n := len(parts)
	g, err := strconv.Atoi(parts[n-1])
	if err != nil || g < 0 || strconv.Itoa(g) != parts[n-1] { // "+1" would be a second name of one letter
		return LetterSubject{}, fmt.Errorf("%q: generation is not a number", subject)
	}
	return LetterSubject{Tenant: parts[0], Reason: parts[1], Tool: strings.Join(parts[2:n-2], "."), Call: parts[n-2], Generation: g}, nil
}
