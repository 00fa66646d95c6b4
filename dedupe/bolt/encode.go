package bolt

import (
	"encoding/binary"
	"encoding/hex"
	"time"

	"tollgate/budget"
	"tollgate/dedupe"
	"tollgate/schemas"
)

// CBOR's major types, as far as a record needs them.
const (
	cborUint  = 0 << 5
	cborNeg   = 1 << 5
	cborBytes = 2 << 5
	cborText  = 3 << 5
	cborArray = 4 << 5
	cborMap   = 5 << 5
	cborTrue  = 0xf5
	cborNull  = 0xf6
)

// writer appends a record's body: what the library would write for [stored], without
// reflection, since every call is written twice. The library still reads it, and a
// test holds the two against each other field by field. What is rarely there is left
// to the library.
type writer struct {
	out    []byte
	fields uint16 // of the map that is being written
	err    error
}

// head writes a major type with its number.
func (w *writer) head(major byte, n uint64) {
	switch {
	case n < 24:
		w.out = append(w.out, major|byte(n))
	case n < 1<<8:
		w.out = append(w.out, major|24, byte(n))
	case n < 1<<16:
		w.out = binary.BigEndian.AppendUint16(append(w.out, major|25), uint16(n))
	case n < 1<<32:
		w.out = binary.BigEndian.AppendUint32(append(w.out, major|26), uint32(n))
	default:
		w.out = binary.BigEndian.AppendUint64(append(w.out, major|27), n)
	}
}

// object writes a map whose size is known when its fields are.
func (w *writer) object(fields func()) {
	around := w.fields
	w.fields = 0
	at := len(w.out) + 1
	w.out = append(w.out, cborMap|25, 0, 0)
	fields()
	binary.BigEndian.PutUint16(w.out[at:], w.fields)
	w.fields = around
}

func (w *writer) string(s string) {
	w.head(cborText, uint64(len(s)))
	w.out = append(w.out, s...)
}

func (w *writer) name(n string) {
	w.fields++
	w.string(n)
}

func (w *writer) text(n, s string) {
	if s != "" {
		w.name(n)
		w.string(s)
	}
}

func (w *writer) bytes(n string, b []byte) {
	w.name(n)
	if b == nil {
		w.out = append(w.out, cborNull)
		return
	}
	w.head(cborBytes, uint64(len(b)))
	w.out = append(w.out, b...)
}

func (w *writer) number(n string, v int64) {
	if v == 0 {
		return
	}
	w.name(n)
	if v < 0 {
		w.head(cborNeg, uint64(-1-v))
		return
	}
	w.head(cborUint, uint64(v))
}

func (w *writer) count(n string, v uint64) {
	if v != 0 {
		w.name(n)
		w.head(cborUint, v)
	}
}

func (w *writer) truth(n string, v bool) {
	if v {
		w.name(n)
		w.out = append(w.out, cborTrue)
	}
}

// time keeps an instant to the nanosecond, as text.
func (w *writer) time(n string, t time.Time) {
	if t.IsZero() {
		return
	}
	w.name(n)
	var buf [40]byte
	text := t.UTC().AppendFormat(buf[:0], time.RFC3339Nano)
	w.head(cborText, uint64(len(text)))
	w.out = append(w.out, text...)
}

func (w *writer) list(name string, n int, item func(i int)) {
	if n == 0 {
		return
	}
	w.name(name)
	w.head(cborArray, uint64(n))
	for i := range n {
		item(i)
	}
}

// rare writes what the library does.
func (w *writer) rare(n string, v any) {
	b, err := encMode.Marshal(v)
	if err != nil && w.err == nil {
		w.err = err
	}
	w.name(n)
	w.out = append(w.out, b...)
}

func (w *writer) record(r *dedupe.Record) {
	w.object(func() {
		w.identity(r)
		w.progress(r)
		w.letter(r)
		w.name("terms")
		w.terms(&r.Terms)
		w.name("maxima")
		w.maxima(r.Terms.Run)
		w.name("origin")
		w.origin(r.Origin)
		w.list("attempts", len(r.Attempts), func(i int) { w.attempt(&r.Attempts[i]) })
		if r.Request != nil {
			w.name("request")
			w.request(r.Request)
		}
		switch {
		case r.Outcome == nil:
		case ownOutcome(r):
			w.name("own")
			w.own(r.Outcome, timing(r))
			w.truth("own_attempts", len(r.Outcome.Attempts) > 0)
			w.truth("own_text", saysTwice(r.Outcome))
		default:
			w.rare("outcome", r.Outcome)
		}
	})
}

func (w *writer) identity(r *dedupe.Record) {
	w.text("tenant", r.Tenant)
	w.text("lane", string(r.Lane))
	if r.Root != schemas.Root(r.Run) {
		w.text("root", r.Root)
	}
	w.text("run", r.Run)
	if len(r.Payers) > 0 {
		w.rare("payers", r.Payers)
	}
	w.text("tool", r.Tool)
	w.text("key", r.Key)
	if r.DownstreamKey != r.Call {
		w.text("downstream_key", r.DownstreamKey)
	}
	if sum, err := hex.DecodeString(r.Fingerprint); err == nil && len(sum) > 0 && hex.EncodeToString(sum) == r.Fingerprint {
		w.bytes("sum", sum)
	} else {
		w.text("fingerprint", r.Fingerprint)
	}
	w.text("tool_call_id", r.ToolCallID)
}

func (w *writer) progress(r *dedupe.Record) {
	w.number("state", int64(r.State))
	w.number("generation", int64(r.Generation))
	w.number("tries", int64(r.Tries))
	w.truth("on_lane", r.OnLane)
	w.count("token", r.Token)
	w.count("fence", r.Fence)
	w.count("epoch", r.Epoch)
	w.time("lease", r.Lease)
	w.time("published", r.Published)
	w.time("deadline", r.Deadline)
	w.time("first_attempt", r.FirstAttempt)
	w.time("due", r.Due)
	w.truth("owes_token", r.OwesToken)
	w.truth("ambiguous", r.Ambiguous)
	w.number("recoveries", int64(r.Recoveries))
	w.number("reconciled", int64(r.Reconciled))
	w.text("cancel", r.Cancel)
	w.truth("released", r.Released)
	if r.Spent != (dedupe.Spent{}) {
		w.rare("spent", r.Spent)
	}
	w.count("result", r.Result)
	w.time("settled", r.Settled)
}

func (w *writer) letter(r *dedupe.Record) {
	w.number("slot", int64(r.Slot))
	w.text("letter", string(r.Letter))
	w.text("letter_reason", r.LetterReason)
	w.time("letter_settled", r.LetterSettled)
	w.text("note", r.Note)
	w.text("replay_by", r.ReplayBy)
	w.text("replay", r.Replay)
	w.text("edited_to", r.EditedTo)
	w.text("edited_from", r.EditedFrom)
	w.truth("body_lost", r.BodyLost)
}

func (w *writer) terms(t *dedupe.Terms) {
	w.object(func() {
		w.text("p", t.Policy)
		w.text("e", string(t.Effect))
		w.text("s", string(t.Safety))
		w.number("k", int64(t.KeyRetention))
		w.number("a", int64(t.Attempts))
		w.number("t", int64(t.Timeout))
		w.number("bb", int64(t.BackoffBase))
		w.number("bc", int64(t.BackoffCap))
		w.number("tb", int64(t.ThrottleBase))
		w.number("m", int64(t.MaxRetryAfter))
		w.number("r", int64(t.MaxRepairs))
		w.text("d", t.Dependency)
		w.text("rc", t.Reconcile)
		w.number("w", int64(t.Window))
	})
}

func (w *writer) maxima(m budget.Maxima) {
	w.object(func() {
		w.number("a", int64(m.Attempts))
		w.number("s", int64(m.SideEffects))
		w.number("e", int64(m.Elapsed))
		w.number("c", int64(m.Accounts))
	})
}

func (w *writer) origin(o schemas.Origin) {
	w.object(func() {
		w.text("s", o.Stream)
		w.text("u", o.Subject)
		w.count("q", o.Sequence)
		w.time("t", o.Time)
	})
}

func (w *writer) attempt(a *schemas.Attempt) {
	w.object(func() {
		w.number("n", int64(a.N))
		w.number("g", int64(a.Generation))
		w.time("s", a.Started)
		w.time("e", a.Ended)
		w.text("c", a.Class)
		w.text("p", a.Phase)
		w.text("co", a.Code)
		w.text("m", a.Message)
		w.text("sr", a.StopReason)
		w.number("ra", a.RetryAfterMS)
		w.number("d", a.DelayMS)
		w.number("w", a.WaitedMS)
		w.truth("r", a.Reached)
		w.truth("rc", a.Reconcile)
		w.text("de", a.Decision)
		w.text("t", a.Trace)
	})
}

func (w *writer) request(q *schemas.Request) {
	w.object(func() {
		w.text("lane", string(q.Lane))
		w.text("tenant", q.Tenant)
		w.text("tool", q.Tool)
		w.text("run", q.Run)
		w.text("key", q.Key)
		w.time("deadline", q.Deadline)
		if q.Limits != (schemas.RunLimits{}) {
			w.rare("limits", q.Limits)
		}
		w.text("policy", q.Policy)
		w.text("tool_call_id", q.ToolCallID)
		if len(q.Header) > 0 {
			w.name("header")
			w.header(q.Header)
		}
		w.bytes("body", q.Body)
	})
}

func (w *writer) header(h schemas.Header) {
	w.head(cborMap, uint64(len(h)))
	for k, values := range h {
		w.string(k)
		w.head(cborArray, uint64(len(values)))
		for _, v := range values {
			w.string(v)
		}
	}
}

// own is the outcome of its record, without what that says anyway.
func (w *writer) own(o *schemas.Outcome, usual schemas.Timing) {
	w.object(func() {
		w.number("v", int64(o.V))
		w.text("i", o.ID)
		w.text("s", string(o.Status))
		w.truth("x", o.IsError)
		if !saysTwice(o) {
			w.list("c", len(o.Content), func(i int) { w.content(o.Content[i]) })
		}
		if len(o.Structured) > 0 {
			w.bytes("d", o.Structured)
		}
		if o.Error != nil {
			w.rare("e", o.Error)
		}
		w.text("a", string(o.NextAction))
		w.name("b")
		w.budget(&o.Budget)
		w.truth("r", o.Repeated)
		w.truth("tr", o.ToolRepeated)
		if o.Timing != usual {
			w.rare("t", o.Timing)
		}
	})
}

func (w *writer) content(c schemas.Content) {
	w.object(func() {
		w.text("type", c.Type)
		w.text("text", c.Text)
	})
}

func (w *writer) budget(b *schemas.Budget) {
	w.object(func() {
		w.usage("attempts", b.Attempts)
		w.usage("side_effects", b.SideEffects)
		w.usage("elapsed_ms", b.ElapsedMS)
	})
}

func (w *writer) usage(n string, u schemas.Usage) {
	w.name(n)
	w.object(func() {
		w.number("used", u.Used)
		w.number("limit", u.Limit)
	})
}
