package classify

import (
	"fmt"
	"slices"
	"strconv"

	"tollgate/schemas"
)

// Codes the tables give. A tool's own codes stand beside them.
const (
	CodeRedirect = "REDIRECT" // the answer points somewhere else; it is not followed
	CodeToolSaid = "ERROR_IN_RESULT"
)

// row is one line of a table: what a status means when the tool says nothing better.
type row struct {
	class     Class
	phase     Phase
	who       For
	stop      schemas.StopReason
	throttled bool
}

var (
	lost      = row{class: Transient, phase: NoAnswer}
	busy      = row{class: Transient, phase: Answered}
	throttle  = row{class: Transient, phase: Answered, throttled: true}
	forModel  = row{class: Permanent, phase: Answered, who: ForModel}
	forPeople = row{class: Permanent, phase: Answered, who: ForOperator}
)

// httpTable is also the table of NATS service error codes, which have HTTP's shape.
// A 409 may mean "still working on this key" only if the tool declares so.
var httpTable = map[int]row{
	408: lost, 500: lost, 502: lost, 503: lost, 504: lost,
	425: busy, 429: throttle,
	401: {class: Permanent, phase: Answered, stop: schemas.AuthExpired},
	403: {class: Permanent, phase: Answered, stop: schemas.DownstreamRejected},
	400: forModel, 404: forModel, 405: forModel, 406: forModel, 409: forModel, 410: forModel,
	411: forModel, 413: forModel, 414: forModel, 415: forModel, 422: forModel, 451: forModel,
}

// exitTable follows sysexits.h: what the caller did wrong is for the model to read
// (usage, data), what the installation lacks is for people (permission, configuration).
var exitTable = map[int]row{
	75: busy, 69: busy,
	64: forModel, 65: forModel,
	77: forPeople, 78: forPeople,
}

// httpRow reads the table. A status that is not listed is a stop; a 5xx may come
// from something that had already passed the request on, so nobody knows what happened.
func httpRow(status int) row {
	if r, ok := httpTable[status]; ok {
		return r
	}
	if status >= 500 {
		return row{class: Unclassified, phase: NoAnswer}
	}
	return row{class: Unclassified, phase: Answered}
}

func exitRow(exit int) row {
	if r, ok := exitTable[exit]; ok {
		return r
	}
	return row{class: Unclassified, phase: Answered}
}

// Rules are what a tool declares about its own failures.
type Rules struct {
	Overrides     map[string]Class // by HTTP status, exit code or NATS error code
	NotExecutedOn []int            // statuses that prove the tool did nothing
	Codes         []string         // the closed set of its error codes; empty accepts any
	ErrorAt       string           // JSON pointer into a success that, set and not null, is an error
}

// Validate reports rules that can never match.
func (r Rules) Validate() error {
	for k := range r.Overrides {
		if _, err := strconv.Atoi(k); err != nil {
			return fmt.Errorf("classify: %q is not a number: name a status or an exit code, for example 529", k)
		}
	}
	if r.ErrorAt != "" && r.ErrorAt[0] != '/' {
		return fmt.Errorf("error_at: %q is not a JSON pointer: start it with a slash, for example /error", r.ErrorAt)
	}
	return nil
}

// apply lets the tool's declarations change a row. A declared permanent failure is
// the tool's own clear answer, for the model to read.
func (r Rules) apply(status int, in row) row {
	switch r.Overrides[strconv.Itoa(status)] {
	case Transient:
		in = row{class: Transient, phase: in.phase, throttled: in.throttled}
	case Permanent:
		if in.class != Permanent {
			in = forModel
		}
	case Unclassified:
		in = row{class: Unclassified, phase: in.phase}
	}
	if r.notExecuted(status) {
		in.phase = NotSent
	}
	return in
}

func (r Rules) notExecuted(status int) bool { return slices.Contains(r.NotExecutedOn, status) }

// ParseClass reads a class as the catalogue writes it.
func ParseClass(name string) (Class, error) {
	for _, c := range []Class{Transient, Permanent, Unclassified} {
		if c.String() == name {
			return c, nil
		}
	}
	return 0, fmt.Errorf("%q is not a class: use transient, permanent or unclassified", name)
}
