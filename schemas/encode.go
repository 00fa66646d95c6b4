package schemas

import (
	"encoding/json"
	"strconv"
	"time"
)

// MarshalJSON writes attempts as an array even where there was none: a reader in
// any language may loop over it.
func (o Outcome) MarshalJSON() ([]byte, error) { return o.Encode() }

// Encode is what MarshalJSON writes, at half the price: encoding/json checks and
// copies what a MarshalJSON method gives it. The fields are written by hand, in
// their order, since each call pays for this once or twice and reflection takes
// twenty times as long; a test holds every field against encoding/json.
func (o *Outcome) Encode() ([]byte, error) {
	size := 1024 + len(o.Structured) // what an outcome takes as a rule, and some text escaped
	for _, c := range o.Content {
		size += len(c.Text) * 5 / 4
	}
	w := jsonWriter{out: make([]byte, 0, size)}
	w.outcome(o)
	return w.out, w.err
}

// jsonWriter appends JSON as encoding/json would write it. It keeps the first error.
type jsonWriter struct {
	out []byte
	err error
}

// name begins a member. The first of an object follows its brace.
func (w *jsonWriter) name(n string) {
	if w.out[len(w.out)-1] != '{' {
		w.out = append(w.out, ',')
	}
	w.out = append(append(append(w.out, '"'), n...), '"', ':')
}

func (w *jsonWriter) text(n, s string) {
	w.name(n)
	for i := range len(s) {
		if c := s[i]; c < ' ' || c >= 0x7f || c == '"' || c == '\\' || c == '<' || c == '>' || c == '&' {
			q, _ := json.Marshal(s) // a string always marshals
			w.out = append(w.out, q...)
			return
		}
	}
	w.out = append(append(append(w.out, '"'), s...), '"')
}

func (w *jsonWriter) optional(n, s string) {
	if s != "" {
		w.text(n, s)
	}
}

func (w *jsonWriter) number(n string, v int64) {
	w.name(n)
	w.out = strconv.AppendInt(w.out, v, 10)
}

func (w *jsonWriter) positive(n string, v int64) {
	if v != 0 {
		w.number(n, v)
	}
}

func (w *jsonWriter) truth(n string, v bool) {
	w.name(n)
	w.out = strconv.AppendBool(w.out, v)
}

func (w *jsonWriter) optionalTruth(n string, v bool) {
	if v {
		w.truth(n, v)
	}
}

func (w *jsonWriter) time(n string, t time.Time) {
	w.name(n)
	out, err := t.AppendText(append(w.out, '"'))
	if err != nil {
		w.fail(err)
		return
	}
	w.out = append(out, '"')
}

func (w *jsonWriter) fail(err error) {
	if w.err == nil {
		w.err = err
	}
}

// raw writes a document without its white space. It is taken for JSON, unless it
// shows something that has to be rewritten: then encoding/json looks at all of it.
func (w *jsonWriter) raw(n string, doc json.RawMessage) {
	w.name(n)
	if compact(doc) {
		w.out = append(w.out, doc...)
		return
	}
	q, err := json.Marshal(doc)
	if err != nil {
		w.fail(err)
	}
	w.out = append(w.out, q...)
}

// compact reports whether a document is already as encoding/json writes it: no
// space between its tokens, and nothing that could end a script in a page.
func compact(doc []byte) bool {
	inside := false // a string
	for i := 0; i < len(doc); i++ {
		switch c := doc[i]; c {
		case '"':
			inside = !inside
		case '\\':
			i++
		case ' ', '\t', '\n', '\r':
			if !inside {
				return false
			}
		case '<', '>', '&', 0xe2: // the last begins U+2028 and U+2029, and others
			return false
		}
	}
	return !inside
}

func (w *jsonWriter) open()  { w.out = append(w.out, '{') }
func (w *jsonWriter) close() { w.out = append(w.out, '}') }

// list writes n objects.
func (w *jsonWriter) list(name string, n int, object func(i int)) {
	w.name(name)
	w.out = append(w.out, '[')
	for i := range n {
		if i > 0 {
			w.out = append(w.out, ',')
		}
		object(i)
	}
	w.out = append(w.out, ']')
}

func (w *jsonWriter) outcome(o *Outcome) {
	w.open()
	w.number("v", int64(o.V))
	w.text("id", o.ID)
	w.text("tenant", o.Tenant)
	w.text("lane", string(o.Lane))
	w.text("run", o.Run)
	w.text("tool", o.Tool)
	w.text("call", o.Call)
	w.number("generation", int64(o.Generation))
	w.text("key", o.Key)
	w.text("fingerprint", o.Fingerprint)
	w.optional("tool_call_id", o.ToolCallID)
	w.text("status", string(o.Status))
	w.truth("is_error", o.IsError)
	if len(o.Content) > 0 {
		w.list("content", len(o.Content), func(i int) { w.content(o.Content[i]) })
	}
	if len(o.Structured) > 0 {
		w.raw("structured", o.Structured)
	}
	if o.Error != nil {
		w.name("error")
		w.failure(o.Error)
	}
	w.text("next_action", string(o.NextAction))
	w.list("attempts", len(o.Attempts), func(i int) { w.attempt(&o.Attempts[i]) })
	w.name("budget")
	w.budget(&o.Budget)
	w.truth("repeated", o.Repeated)
	w.optionalTruth("tool_repeated", o.ToolRepeated)
	w.name("timing")
	w.timing(o.Timing)
	w.close()
}

func (w *jsonWriter) content(c Content) {
	w.open()
	w.text("type", c.Type)
	w.text("text", c.Text)
	w.close()
}

func (w *jsonWriter) failure(e *Error) {
	w.open()
	w.text("code", e.Code)
	w.optional("class", e.Class)
	w.optional("phase", e.Phase)
	w.text("message", e.Message)
	w.truth("retryable", e.Retryable)
	if e.RetryAfterMS != nil {
		w.number("retry_after_ms", *e.RetryAfterMS)
	} else {
		w.name("retry_after_ms")
		w.out = append(w.out, "null"...)
	}
	w.optional("stop_reason", e.StopReason)
	w.optional("reason", e.Reason)
	w.optional("scope", e.Scope)
	if e.LastFailure != nil {
		w.name("last_failure")
		w.failure(e.LastFailure)
	}
	w.close()
}

func (w *jsonWriter) attempt(a *Attempt) {
	w.open()
	w.number("n", int64(a.N))
	w.number("generation", int64(a.Generation))
	w.time("started", a.Started)
	if !a.Ended.IsZero() {
		w.time("ended", a.Ended)
	}
	w.optional("class", a.Class)
	w.optional("phase", a.Phase)
	w.optional("code", a.Code)
	w.optional("message", a.Message)
	w.optional("stop_reason", a.StopReason)
	w.positive("retry_after_ms", a.RetryAfterMS)
	w.positive("delay_ms", a.DelayMS)
	w.positive("waited_ms", a.WaitedMS)
	w.truth("reached", a.Reached)
	w.optionalTruth("reconcile", a.Reconcile)
	w.optional("decision", a.Decision)
	w.optional("trace", a.Trace)
	w.close()
}

func (w *jsonWriter) budget(b *Budget) {
	w.open()
	for _, u := range []struct {
		name  string
		usage Usage
	}{{"attempts", b.Attempts}, {"side_effects", b.SideEffects}, {"elapsed_ms", b.ElapsedMS}} {
		w.name(u.name)
		w.open()
		w.number("used", u.usage.Used)
		w.number("limit", u.usage.Limit)
		w.close()
	}
	w.close()
}

func (w *jsonWriter) timing(t Timing) {
	w.open()
	w.time("published", t.Published)
	w.time("deadline", t.Deadline)
	w.time("settled", t.Settled)
	w.close()
}
