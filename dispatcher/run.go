package dispatcher

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"sync"
	"time"

	"tollgate/dedupe"
	"tollgate/dispatcher/classify"
	"tollgate/dispatcher/gate"
	"tollgate/schemas"
)

// runningCall is an attempt under way.
type runningCall struct {
	tenant, run string
	cancel      context.CancelCauseFunc
}

// running is every attempt under way, by call.
type running struct {
	mu    sync.Mutex // guards what follows
	calls map[string]runningCall
	held  map[string]bool // from claim to settle, by call

	recent []cancellation // an attempt claimed just before one may start just after it
}

// cancellation is one that was committed, and which attempts it ends.
type cancellation struct {
	at    time.Time
	match func(call string, c runningCall) bool
	cause error
}

// recently is longer than any claim takes to commit and start.
const recently = time.Minute

// hold marks a call as in this process's hands, from claim to settle, so that
// recovery leaves it alone.
func (r *running) hold(call string) (release func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.held[call] = true
	return func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		delete(r.held, call)
	}
}

func (r *running) busy(call string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.held[call]
}

// add enters an attempt that was claimed at the given time. A cancellation that was
// committed since did not find it, and ends it now.
func (r *running) add(call string, c runningCall, claimed time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.calls[call] = c
	for _, x := range r.recent {
		if x.at.After(claimed) && x.match(call, c) {
			c.cancel(x.cause)
		}
	}
}

func (r *running) remove(call string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.calls, call)
}

// cancel ends the attempts that match and returns how many there were.
func (r *running) cancel(match func(call string, c runningCall) bool, cause error) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	now, n := time.Now(), 0
	r.recent = slices.DeleteFunc(r.recent, func(x cancellation) bool { return now.Sub(x.at) > recently })
	r.recent = append(r.recent, cancellation{now, match, cause})
	for call, c := range r.calls {
		if match(call, c) {
			c.cancel(cause)
			n++
		}
	}
	return n
}

// run executes a claimed and charged attempt and settles it. The claim is durable;
// dying here means recovery finds the record in flight.
func (d *Dispatcher) run(ctx context.Context, c *call, a *admission, p *permit) Settlement {
	defer d.running.hold(a.record.Call)()
	d.log(c, a)
	d.observe(c, a, "")
	v := d.attempt(ctx, c, a, p)
	return d.settleAndAct(ctx, settling{record: a.record, verdict: v, request: &c.request})
}

// settleAndAct settles an attempt and, where the gate says so, asks the reconcile
// hook and settles again.
func (d *Dispatcher) settleAndAct(ctx context.Context, s settling) Settlement {
	decision, r, receipt, err := d.settle(ctx, s)
	switch {
	case err != nil: // the process is ending; the record stays in flight for recovery
		d.cfg.Log.Error().Err(err).Str("call", s.record.Call).Msg("the attempt's result could not be committed")
		return Settlement{Delay: ledgerRetry, Call: s.record.Call, Pending: true}
	case r == nil: // a stale fence: somebody else has settled it; it must not be acknowledged for us
		d.cfg.Log.Warn().Str("call", s.record.Call).Uint64("fence", s.record.Fence).Str("code", s.verdict.Code).Bool("ok", s.verdict.OK()).Msg("late evidence: the attempt had lost its lease")
		return Settlement{Delay: time.Second, Call: s.record.Call, Pending: true}
	case decision.Action == gate.Reconcile:
		v := d.reconcile(ctx, r, s.request)
		return d.settleAndAct(ctx, settling{record: r, verdict: v, request: s.request, reconciled: true})
	}
	return d.act(ctx, r, receipt)
}

// attempt makes one attempt of a claimed call. It checks the time once more: a
// commit on a stalled disk must not start a late call.
func (d *Dispatcher) attempt(ctx context.Context, c *call, a *admission, p *permit) classify.Verdict {
	now, t, r := time.Now(), c.tool, a.record
	if now.After(a.latest.Add(gate.Margin(r.Terms.Window))) {
		p.release()
		return classify.Unsent(schemas.CodeStalled, "the claim took so long to commit that the attempt no longer fitted its deadline")
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	d.running.add(r.Call, runningCall{tenant: r.Tenant, run: r.Run, cancel: cancel}, r.Attempts[len(r.Attempts)-1].Started)
	defer d.running.remove(r.Call)
	ctx, stop := context.WithTimeoutCause(ctx, r.Terms.Timeout, ErrTimeout)
	defer stop()

	v := d.execute(ctx, t, invocation(r, &c.request, now))
	if v.OK() && t.Result != nil {
		v = checkResult(t, v)
	}
	v = fitOutcome(v, d.cfg.MaxOutcome-history(r.Attempts))
	cause := context.Cause(ctx)
	v = explain(v, cause)
	p.report(breakerResult(v, cause))
	if v.OK() {
		d.deps.get(t.Dependency, d.cfg.Catalogue, now).succeed()
	}
	return v
}

func invocation(r *dedupe.Record, q *schemas.Request, now time.Time) Invocation {
	return Invocation{
		Tool: r.Tool, Tenant: r.Tenant, Run: r.Run, Call: r.Call, Key: r.DownstreamKey, Attempt: r.Tries, Generation: r.Generation,
		Deadline: now.Add(r.Terms.Timeout), Arguments: q.Body,
		TraceParent: q.Header.Get(schemas.HeaderTraceParent), TraceState: q.Header.Get(schemas.HeaderTraceState),
	}
}

// execute calls the executor and waits for it, at most until its context has ended
// and the grace is over. One that stays is abandoned: its slot is freed and counted.
func (d *Dispatcher) execute(ctx context.Context, t *Tool, in Invocation) classify.Verdict {
	done := make(chan classify.Verdict, 1)
	go func() {
		defer func() {
			if p := recover(); p != nil {
				d.cfg.Log.Error().Str("tool", t.Name).Str("call", in.Call).Str("panic", fmt.Sprint(p)).Bytes("stack", debug.Stack()).Msg("tool panicked")
				done <- classify.Lost(schemas.CodePanic, "the tool panicked; its stack is in the log")
			}
		}()
		done <- t.Executor.Execute(ctx, in)
	}()
	select {
	case v := <-done:
		return v
	case <-ctx.Done():
	}
	grace := time.NewTimer(d.cfg.Grace)
	defer grace.Stop()
	select {
	case v := <-done:
		return v
	case <-grace.C:
		d.Abandoned.Add(1)
		return classify.Lost(schemas.CodeTimeout, "the tool neither answered nor stopped in time")
	}
}

// checkResult refuses a result that breaks the tool's own schema. The effect has
// happened, so it is never repeated, and the result is kept.
func checkResult(t *Tool, v classify.Verdict) classify.Verdict {
	doc := v.Structured
	if doc == nil {
		doc = json.RawMessage("null")
	}
	if err := t.Result.Validate(doc); err != nil {
		bad := classify.Refused(classify.Answered, schemas.CodeInvalidResult, err.Error())
		bad.Content, bad.Structured = v.Content, v.Structured
		return bad
	}
	return v
}

// fitOutcome keeps an answer small enough for an outcome to be published; one that
// is not would be owed for ever. What counts is the size as written: JSON in an
// outcome has <, > and & in six bytes each. The text beside a structured result
// repeats it, so it goes first; a result that is still too large is terminal, and
// never asked for again.
func fitOutcome(v classify.Verdict, limit int) classify.Verdict {
	if v.Structured != nil && !json.Valid(v.Structured) { // no executor gives this; an outcome with it could not be written
		v.Structured = nil
		return classify.Refused(classify.Answered, schemas.CodeInvalidResult, "the structured result is not JSON")
	}
	if most := 6 * (contentBytes(v.Content) + len(v.Structured)); most <= limit { // every byte written as six
		return v
	}
	text, errText := json.Marshal(v.Content)
	doc, errDoc := json.Marshal(v.Structured)
	switch err := errors.Join(errText, errDoc); {
	case err == nil && len(text)+len(doc) <= limit:
		return v
	case err == nil && v.Structured != nil && len(doc) <= limit:
		v.Content = []schemas.Content{{Type: "text", Text: "The result is in the field structured; it is too large to be repeated here."}}
		return v
	case !v.OK(): // what failed stays what it was
		v.Content, v.Structured = nil, nil
		return v
	}
	return classify.Refused(classify.Answered, schemas.CodeResultTooLarge,
		fmt.Sprintf("the result takes %d bytes as an outcome, more than the %d that can be published (SHA-256 %x)", len(text)+len(doc), limit, sha256.Sum256(append(text, doc...))))
}

// history is how much of an outcome's room the attempts may take from the result,
// beyond what the reserve has for them.
func history(attempts []schemas.Attempt) int {
	n := 0
	for _, a := range attempts {
		n += 256 + 6*(len(a.Code)+len(a.Message)+len(a.StopReason)+len(a.Decision)+len(a.Trace)) // every byte written as six
	}
	return max(0, n+6*clipped-schemas.BodyReserve/2) // the last has no message yet
}

// contentBytes is what the blocks take, with what JSON puts around each.
func contentBytes(blocks []schemas.Content) (n int) {
	for _, c := range blocks {
		n += len(c.Type) + len(c.Text) + 32
	}
	return n
}

// explain names our own reason for ending an attempt that then had no answer.
func explain(v classify.Verdict, cause error) classify.Verdict {
	if v.OK() || v.Phase != classify.NoAnswer {
		return v
	}
	switch {
	case errors.Is(cause, ErrShutdown):
		v.Code, v.Message = schemas.CodeInterrupted, "interrupted by shutdown"
	case errors.Is(cause, ErrCancelled):
		v.Code, v.Message = schemas.CodeCancelled, "interrupted: the call was cancelled"
	case errors.Is(cause, ErrTimeout):
		v.Code = schemas.CodeTimeout
	}
	return v
}

// reconcile asks the tool's hook what became of the key. Its answer counts only
// when it says outright that the effect happened.
func (d *Dispatcher) reconcile(ctx context.Context, r *dedupe.Record, q *schemas.Request) classify.Verdict {
	hook, ok := d.cfg.Catalogue.Tool(r.Terms.Reconcile)
	if !ok {
		return classify.Refused(classify.NotSent, schemas.CodeUnknownTool, "the reconcile tool is not in the catalogue")
	}
	args, err := json.Marshal(map[string]any{"key": r.DownstreamKey, "tool": r.Tool, "call": r.Call, "run": r.Run, "arguments": json.RawMessage(q.Body)})
	if err != nil {
		return classify.Refused(classify.NotSent, schemas.CodeInvalidArguments, err.Error())
	}
	in := invocation(r, q, time.Now())
	in.Tool, in.Arguments = hook.Name, args
	ctx, stop := context.WithTimeoutCause(ctx, r.Terms.Timeout, ErrTimeout)
	defer stop()
	return fitOutcome(happened(d.execute(ctx, hook, in)), d.cfg.MaxOutcome-history(r.Attempts))
}

// happened turns the hook's answer into a verdict on the call itself.
func happened(v classify.Verdict) classify.Verdict {
	var answer struct {
		Outcome string          `json:"outcome"`
		Result  json.RawMessage `json:"result"`
	}
	if !v.OK() {
		return classify.Unknown(classify.NoAnswer, schemas.CodeUndetermined, "the reconcile hook gave no answer: "+v.Message)
	}
	if json.Unmarshal(v.Structured, &answer) == nil && answer.Outcome == "happened" {
		text := string(answer.Result)
		return classify.Success([]schemas.Content{{Type: "text", Text: text}}, answer.Result)
	}
	if answer.Outcome != "did_not_happen" {
		answer.Outcome = "undetermined"
	}
	return classify.Unknown(classify.NoAnswer, schemas.CodeUndetermined, "the reconcile hook answered "+answer.Outcome)
}
