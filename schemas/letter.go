package schemas

import "time"

// LetterState is what has become of a dead letter. It lives in the ledger.
type LetterState string

// The letter states.
const (
	LetterActive    LetterState = "active"
	LetterReplaying LetterState = "replaying"
	LetterResolved  LetterState = "resolved"
	LetterDiscarded LetterState = "discarded"
	LetterPurged    LetterState = "purged" // on its way out of the stream for good
)

// Letter is a dead letter as operators see it. ID is <call>.<generation>.
type Letter struct {
	V           int         `json:"v"`
	ID          string      `json:"id"`
	State       LetterState `json:"state"`
	Reason      string      `json:"reason"`
	Code        string      `json:"code"`
	Message     string      `json:"message"`
	Class       string      `json:"class,omitempty"`
	Fingerprint string      `json:"fingerprint"` // of the error, for groups
	Tenant      string      `json:"tenant"`
	Lane        Lane        `json:"lane"`
	Tool        string      `json:"tool"`
	Run         string      `json:"run"`
	Call        string      `json:"call"`
	Generation  int         `json:"generation"`
	Key         string      `json:"key"`
	Replay      string      `json:"replay,omitempty"` // the bulk replay it died again in
	Deadline    time.Time   `json:"deadline,omitzero"`
	FirstSeen   time.Time   `json:"first_seen"`
	DiedAt      time.Time   `json:"died_at"`
	Origin      Origin      `json:"origin"`
	Sequence    uint64      `json:"seq"` // in the dead-letter stream
	Attempts    int         `json:"attempts"`
	Truncated   bool        `json:"truncated,omitempty"` // headers or outcome were cut to fit
	BodyLost    bool        `json:"body_lost,omitempty"`
	Note        string      `json:"note,omitempty"`            // why an operator resolved or discarded it
	Verdict     string      `json:"verdict,omitempty"`         // show only: did_not_happen, as long as an operator's word of an unknown outcome stands
	EditedTo    string      `json:"edited_to,omitempty"`       // show only: the call that an operator has asked for instead
	EditedFrom  string      `json:"edited_from,omitempty"`     // show only: the letter that its call was asked for instead of
	NextStep    string      `json:"next_step,omitempty"`       // what an operator would do about this reason
	Outcome     *Outcome    `json:"outcome,omitempty"`         // show only
	Header      Header      `json:"header,omitempty"`          // show only: the agent's own headers
	Arguments   string      `json:"arguments,omitempty"`       // show only: the original bytes
	ArgsBytes   int         `json:"arguments_bytes,omitempty"` // their number, when only the beginning is shown; the stream holds them all
}
