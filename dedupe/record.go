package dedupe

import (
	"slices"
	"time"

	"tollgate/budget"
	"tollgate/schemas"
)

// State is where a call's record stands. Zero is invalid.
type State uint8

// The states.
const (
	InFlight    State = iota + 1 // claimed and charged; the tool may be running
	Reconciling                  // the tool's reconcile hook is being asked
	Waiting                      // between attempts, with its request and due time
	Done                         // terminal, no letter
	Dead                         // terminal, with a dead letter
	Cancelled                    // terminal, cancelled
)

var stateNames = [...]string{"", "in_flight", "reconciling", "waiting", "done", "dead", "cancelled"}

func (s State) String() string { return stateNames[s] }

// Terminal reports whether the state is an answer.
func (s State) Terminal() bool { return s >= Done }

// Running reports whether an attempt holds the record.
func (s State) Running() bool { return s == InFlight || s == Reconciling }

// Event is what changes a record's state. Zero is invalid.
type Event uint8

// The events.
const (
	Claim          Event = iota + 1 // an attempt starts
	StartReconcile                  // the reconcile hook starts
	Retry                           // another attempt is armed
	Settle                          // terminal, no letter
	Bury                            // terminal, with a letter
	Cancel                          // terminal, cancelled
	Reopen                          // an operator replays, or a released key is submitted again
)

var eventNames = [...]string{"", "claim", "start_reconcile", "retry", "settle", "bury", "cancel", "reopen"}

func (e Event) String() string { return eventNames[e] }

// transitions is the state machine: what is absent is refused. The zero state is
// a call without a record.
var transitions = map[State]map[Event]State{
	0:           {Claim: InFlight, Settle: Done, Bury: Dead, Cancel: Cancelled},
	InFlight:    {StartReconcile: Reconciling, Retry: Waiting, Settle: Done, Bury: Dead, Cancel: Cancelled},
	Reconciling: {Settle: Done, Bury: Dead, Cancel: Cancelled},
	Waiting:     {Claim: InFlight, Settle: Done, Bury: Dead, Cancel: Cancelled},
	Done:        {Claim: InFlight, Reopen: Waiting, Settle: Done, Bury: Dead, Cancel: Cancelled}, // a released key opens its next generation; checked by the gate
	Dead:        {Claim: InFlight, Reopen: Waiting, Settle: Done, Bury: Dead, Cancel: Cancelled},
	Cancelled:   {Reopen: Waiting},
}

// Next returns the state after e, and whether e is allowed in s.
func (s State) Next(e Event) (State, bool) {
	n, ok := transitions[s][e]
	return n, ok
}

// Slot is what a record still owes the outside: written with the settling commit,
// cleared when it is published, overwritten by the next settle.
type Slot uint8

// The slots; zero is nothing owed.
const (
	SlotSchedule Slot = iota + 1 // an armed retry, due later
	SlotWake                     // a wake-up now: a replay
	SlotLetter                   // a dead letter
	SlotEdit                     // another call that an operator has made of a letter: Request
)

func (s Slot) String() string { return [...]string{"", "schedule", "wake", "letter", "edited call"}[s] }

// Effect says whether a tool changes external state.
type Effect string

// The effects.
const (
	Read  Effect = "read"
	Write Effect = "write"
)

// Safety says whether a write may be repeated. Reads have none.
type Safety string

// The retry safeties.
const (
	Never          Safety = "never"
	Idempotent     Safety = "idempotent"
	IdempotencyKey Safety = "idempotency_key"
)

// Terms are the settings a call was admitted with. Editing the configuration
// never changes a call in flight.
type Terms struct {
	Policy        string        `json:"policy"`
	Effect        Effect        `json:"effect"`
	Safety        Safety        `json:"retry_safety,omitempty"`
	KeyRetention  time.Duration `json:"key_retention,omitempty"`
	Attempts      int           `json:"attempts"`
	Timeout       time.Duration `json:"timeout"`
	BackoffBase   time.Duration `json:"backoff_base"`
	BackoffCap    time.Duration `json:"backoff_cap"`
	ThrottleBase  time.Duration `json:"throttle_base"`
	MaxRetryAfter time.Duration `json:"max_retry_after"`
	MaxRepairs    int           `json:"max_repairs"`
	Dependency    string        `json:"dependency"`
	Reconcile     string        `json:"reconcile,omitempty"` // the read tool to ask
	Run           budget.Maxima `json:"run"`
	Window        time.Duration `json:"window"` // from publish to deadline, as admitted
}

// Write reports whether the call may change external state.
func (t Terms) Write() bool { return t.Effect != Read }

// UnsafeAt reports whether repeating the call at the given instant is unsafe: a
// write that must never be repeated, or whose downstream key the tool may have
// forgotten by then. first is when the key was first used.
func (t Terms) UnsafeAt(at, first time.Time) bool {
	if !t.Write() {
		return false
	}
	switch t.Safety {
	case Idempotent:
		return false
	case IdempotencyKey:
		return !first.IsZero() && at.Sub(first) > t.KeyRetention*9/10
	default:
		return true
	}
}

// Record is what the ledger keeps of one call.
type Record struct {
	Call          string              `json:"call"`
	Tenant        string              `json:"tenant"`
	Lane          schemas.Lane        `json:"lane"`
	Root          string              `json:"root"`             // of the run that named the call; with tenant, tool and key its identity
	Run           string              `json:"run"`              // the path that pays; another run's after a replay into it
	Payers        []Payer             `json:"payers,omitempty"` // of earlier generations, when they are not this one's
	Tool          string              `json:"tool"`
	Key           string              `json:"key"`
	DownstreamKey string              `json:"downstream_key"`
	Fingerprint   string              `json:"fingerprint"`
	ToolCallID    string              `json:"tool_call_id,omitempty"`
	State         State               `json:"state"`
	Generation    int                 `json:"generation"`
	Tries         int                 `json:"tries,omitempty"`   // attempts of this generation that count toward the call's own limit
	OnLane        bool                `json:"on_lane,omitempty"` // the carrier is the message at Origin, not a retry
	Token         uint64              `json:"token"`             // names the carrier; raised at every arm and replay
	Fence         uint64              `json:"fence"`             // raised at every claim; a settle with an older one is refused
	Epoch         uint64              `json:"epoch,omitempty"`
	Lease         time.Time           `json:"lease,omitzero"`
	Terms         Terms               `json:"terms"`
	Published     time.Time           `json:"published"`              // stream time of the first submission
	Deadline      time.Time           `json:"deadline"`               // effective, of this generation
	FirstAttempt  time.Time           `json:"first_attempt,omitzero"` // when the downstream key was first used
	Due           time.Time           `json:"due,omitzero"`
	OwesToken     bool                `json:"owes_token,omitempty"` // a job that waits for its dependency's retry quota
	Ambiguous     bool                `json:"ambiguous,omitempty"`
	Recoveries    int                 `json:"recoveries,omitempty"`
	Reconciled    int                 `json:"reconciled,omitempty"` // 1 + the generation in which the hook was asked
	Cancel        string              `json:"cancel,omitempty"`     // the reason this call was cancelled
	Released      bool                `json:"released,omitempty"`   // unavailable: the key is free again
	Attempts      []schemas.Attempt   `json:"attempts,omitempty"`
	Origin        schemas.Origin      `json:"origin"`
	Request       *schemas.Request    `json:"request,omitempty"` // while waiting, owed a letter, or admitted without a stream; of a slot edit, the other call's
	Slot          Slot                `json:"slot,omitempty"`
	Letter        schemas.LetterState `json:"letter,omitempty"`
	LetterReason  string              `json:"letter_reason,omitempty"`
	LetterSettled time.Time           `json:"letter_settled,omitzero"`
	Note          string              `json:"note,omitempty"` // an operator's why
	ReplayBy      string              `json:"replay_by,omitempty"`
	Replay        string              `json:"replay,omitempty"`      // the bulk replay that opened this generation
	EditedTo      string              `json:"edited_to,omitempty"`   // the call that an operator has made of this one's letter
	EditedFrom    string              `json:"edited_from,omitempty"` // the letter that this call says it was made of: true only when its record's EditedTo is this call
	BodyLost      bool                `json:"body_lost,omitempty"`
	Outcome       *schemas.Outcome    `json:"outcome,omitempty"`
	Spent         Spent               `json:"spent,omitzero"`   // as told in the headers of the next carrier
	Result        uint64              `json:"result,omitempty"` // number of the outcome's publication
	Settled       time.Time           `json:"settled,omitzero"`
}

// Spent is what the run had spent when a retry was armed.
type Spent struct {
	Attempts    int64 `json:"attempts,omitempty"`
	SideEffects int64 `json:"side_effects,omitempty"`
}

// MaxAttemptsKept bounds the attempt history of a record.
const MaxAttemptsKept = 64

// Clone returns a copy whose slices may be appended to and whose elements of
// Attempts may be changed. Request and Outcome are shared: they are replaced, never changed.
func (r *Record) Clone() *Record {
	c := *r
	c.Attempts = slices.Clone(r.Attempts)
	return &c
}

// Ref returns the record's ledger address.
func (r *Record) Ref() Ref { return Ref{Tenant: r.Tenant, Root: schemas.Root(r.Run), Call: r.Call} }

// LetterID is the ID of the dead letter of the record's current generation.
func (r *Record) LetterID() string { return LetterID(r.Call, r.Generation) }
