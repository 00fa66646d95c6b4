package bolt

import (
	"encoding/json"
	"time"

	"tollgate/budget"
	"tollgate/dedupe"
	"tollgate/schemas"
)

// The stored forms are the contract's types under shorter names, without what is
// said twice: a settled call must fit in a kilobyte. Those that are converted as a
// whole do not compile when a field is added to their original, so that none is lost.

// stored is a record's body. A field named here stands in for the record's field of
// the same JSON name; the record's others are written under their own names.
type stored struct {
	*dedupe.Record
	Call          *struct{}        `json:"call,omitempty"`           // never: the head has it
	Root          string           `json:"root,omitempty"`           // when it is not the root of Run
	DownstreamKey string           `json:"downstream_key,omitempty"` // when it is not the call
	Terms         storedTerms      `json:"terms"`
	Maxima        storedMaxima     `json:"maxima"`
	Origin        storedOrigin     `json:"origin"`
	Attempts      []storedAttempt  `json:"attempts,omitempty"`
	Outcome       *schemas.Outcome `json:"outcome,omitempty"` // one that is not this record's own
	Own           *storedOutcome   `json:"own,omitempty"`
	OwnAttempts   bool             `json:"own_attempts,omitempty"` // the own outcome lists the record's attempts
	OwnText       bool             `json:"own_text,omitempty"`     // its text is its structured result
	Sum           []byte           `json:"sum,omitempty"`          // the fingerprint, when it is hex
}

// storedTerms is [dedupe.Terms].
type storedTerms struct {
	Policy        string        `json:"p,omitempty"`
	Effect        dedupe.Effect `json:"e,omitempty"`
	Safety        dedupe.Safety `json:"s,omitempty"`
	KeyRetention  time.Duration `json:"k,omitempty"`
	Attempts      int           `json:"a,omitempty"`
	Timeout       time.Duration `json:"t,omitempty"`
	BackoffBase   time.Duration `json:"bb,omitempty"`
	BackoffCap    time.Duration `json:"bc,omitempty"`
	ThrottleBase  time.Duration `json:"tb,omitempty"`
	MaxRetryAfter time.Duration `json:"m,omitempty"`
	MaxRepairs    int           `json:"r,omitempty"`
	Dependency    string        `json:"d,omitempty"`
	Reconcile     string        `json:"rc,omitempty"`
	Run           budget.Maxima `json:"-"`
	Window        time.Duration `json:"w,omitempty"`
}

// storedMaxima is [budget.Maxima].
type storedMaxima struct {
	Attempts    int           `json:"a,omitempty"`
	SideEffects int           `json:"s,omitempty"`
	Elapsed     time.Duration `json:"e,omitempty"`
	Accounts    int           `json:"c,omitempty"`
}

// storedOrigin is [schemas.Origin].
type storedOrigin struct {
	Stream   string    `json:"s,omitempty"`
	Subject  string    `json:"u,omitempty"`
	Sequence uint64    `json:"q,omitempty"`
	Time     time.Time `json:"t,omitzero"`
}

// storedAttempt is [schemas.Attempt].
type storedAttempt struct {
	N            int       `json:"n"`
	Generation   int       `json:"g,omitempty"`
	Started      time.Time `json:"s,omitzero"`
	Ended        time.Time `json:"e,omitzero"`
	Class        string    `json:"c,omitempty"`
	Phase        string    `json:"p,omitempty"`
	Code         string    `json:"co,omitempty"`
	Message      string    `json:"m,omitempty"`
	StopReason   string    `json:"sr,omitempty"`
	RetryAfterMS int64     `json:"ra,omitempty"`
	DelayMS      int64     `json:"d,omitempty"`
	WaitedMS     int64     `json:"w,omitempty"`
	Reached      bool      `json:"r,omitempty"`
	Reconcile    bool      `json:"rc,omitempty"`
	Decision     string    `json:"de,omitempty"`
	Trace        string    `json:"t,omitempty"`
}

// storedOutcome is [schemas.Outcome] without what its record says anyway.
type storedOutcome struct {
	V            int               `json:"v,omitempty"`
	ID           string            `json:"i,omitempty"`
	Tenant       string            `json:"-"`
	Lane         schemas.Lane      `json:"-"`
	Run          string            `json:"-"`
	Tool         string            `json:"-"`
	Call         string            `json:"-"`
	Generation   int               `json:"-"`
	Key          string            `json:"-"`
	Fingerprint  string            `json:"-"`
	ToolCallID   string            `json:"-"`
	Status       schemas.Status    `json:"s"`
	IsError      bool              `json:"x,omitempty"`
	Content      []schemas.Content `json:"c,omitempty"`
	Structured   json.RawMessage   `json:"d,omitempty"`
	Error        *schemas.Error    `json:"e,omitempty"`
	NextAction   schemas.Action    `json:"a,omitempty"`
	Attempts     []schemas.Attempt `json:"-"`
	Budget       schemas.Budget    `json:"b"`
	Repeated     bool              `json:"r,omitempty"`
	ToolRepeated bool              `json:"tr,omitempty"`
	Timing       schemas.Timing    `json:"t,omitzero"` // when it is not the record's
}
