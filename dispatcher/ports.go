package dispatcher

import (
	"context"
	"time"

	"tollgate/dedupe"
	"tollgate/schemas"
)

// Ledger is where a call's fate is committed. Update runs the mutation inside the
// commit and returns after it is durable; an error wraps [dedupe.ErrUnavailable]
// and means that nothing was committed. Published notes that what a record owed is
// out; it takes effect at once in memory and rides on a later commit.
type Ledger interface {
	Update(ctx context.Context, ref dedupe.Ref, m dedupe.Mutation) (dedupe.Receipt, error)
	Published(p Publication)
}

// Publication is something owed that has been stored by the server: a record's
// slot (Call, Token, Generation and Slot), or everything with Number.
type Publication = dedupe.Publication

// Publisher sends what a commit owes. Slot publishes a record's schedule, wake, letter
// or edited call and returns once the server has stored it. Result and Audit take over the
// duty and return at once; root is the first segment of the run that named the call,
// and number 0 is a repetition that nothing owes. Refused stores the letter of a refused message, if
// reason is not empty, and gives the refusal to whoever listens.
type Publisher interface {
	Slot(ctx context.Context, r *dedupe.Record) error
	Result(number uint64, root string, o *schemas.Outcome)
	Audit(entries []dedupe.Audit)
	Refused(ctx context.Context, d Delivery, o *schemas.Outcome, reason string) error
}

// Delivery is one message as the consumer or the endpoint received it.
type Delivery struct {
	Lane     schemas.Lane
	Tenant   string
	Tool     string
	Header   schemas.Header
	Body     []byte
	Origin   schemas.Origin
	Retry    bool               // from the retry stream: Token says which carrier it is
	Token    uint64             // of a retry
	Endpoint bool               // no stream holds the message: the record must
	Gone     bool               // nobody serves the tool, and the grace is over
	Invalid  *schemas.Malformed // the subject itself is not legal
}

// Settlement is what becomes of the delivery. The consumer carries it out.
type Settlement struct {
	Ack     bool             // else hand back
	Delay   time.Duration    // before a handed-back delivery comes again
	Outcome *schemas.Outcome // the answer, where there is one now
	Pending bool             // an outcome will come: the call waits or runs elsewhere
	Later   bool             // handed back because of what the record still has to do
	Hold    bool             // deferred: nothing known yet, nothing charged
	Call    string
}
