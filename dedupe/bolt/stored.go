package bolt

import (
	"encoding/json"
	"time"

	"tollgate/budget"
	"tollgate/dedupe"
	"tollgate/schemas"
)

// The stored forms are the contract's types under short names: a settled call must
// fit in a kilobyte. Each is converted from its original as a whole, so a field
// added there does not compile here until it has a name.

// storedRecord is [dedupe.Record]. Its head carries call; terms, attempts and
// outcome are beside it in [stored].
type storedRecord struct {
	Call          string              `json:"-"`
	Tenant        string              `json:"te"`
	Lane          schemas.Lane        `json:"la"`
	Root          string              `json:"ro,omitempty"`
	Run           string              `json:"ru"`
	Tool          string              `json:"to"`
	Key           string              `json:"k"`
	DownstreamKey string              `json:"dk,omitempty"`
	Fingerprint   string              `json:"fp"`
	ToolCallID    string              `json:"tc,omitempty"`
	State         dedupe.State        `json:"s"`
	Generation    int                 `json:"g,omitempty"`
	Token         uint64              `json:"tk,omitempty"`
	Fence         uint64              `json:"fe,omitempty"`
	Epoch         uint64              `json:"ep,omitempty"`
	Lease         time.Time           `json:"le,omitzero"`
	Terms         dedupe.Terms        `json:"-"`
	Published     time.Time           `json:"pu,omitzero"`
	Deadline      time.Time           `json:"dl,omitzero"`
	FirstAttempt  time.Time           `json:"fa,omitzero"`
	Due           time.Time           `json:"du,omitzero"`
	OwesToken     bool                `json:"ot,omitempty"`
	Ambiguous     bool                `json:"am,omitempty"`
	Recoveries    int                 `json:"re,omitempty"`
	Reconciled    int                 `json:"rc,omitempty"`
	Cancel        string              `json:"ca,omitempty"`
	Released      bool                `json:"rl,omitempty"`
	Attempts      []schemas.Attempt   `json:"-"`
	Origin        schemas.Origin      `json:"-"`
	Request       *schemas.Request    `json:"rq,omitempty"`
	Slot          dedupe.Slot         `json:"sl,omitempty"`
	Letter        schemas.LetterState `json:"lt,omitempty"`
	LetterReason  string              `json:"lr,omitempty"`
	LetterSettled time.Time           `json:"ls,omitzero"`
	Note          string              `json:"no,omitempty"`
	ReplayBy      string              `json:"rb,omitempty"`
	BodyLost      bool                `json:"bl,omitempty"`
	Outcome       *schemas.Outcome    `json:"o,omitempty"` // only one that is not this record's own
	Result        uint64              `json:"n,omitempty"`
	Settled       time.Time           `json:"se,omitzero"`
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
	Timing       schemas.Timing    `json:"t"`
}
