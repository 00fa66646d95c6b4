package worldtest

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"tollgate/control"
	"tollgate/deadletter"
	"tollgate/dedupe"
	"tollgate/schemas"
)

// Ask asks the control service.
func Ask[A any](w *World, verb string, q any) A {
	w.T.Helper()
	var a A
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	if err := w.Ctl.Ask(ctx, verb, q, &a); err != nil {
		w.T.Fatalf("%s: %v", verb, err)
	}
	return a
}

// Until waits until ok holds.
func (w *World) Until(within time.Duration, what string, ok func() bool) {
	w.T.Helper()
	start := time.Now()
	for end := start.Add(within); !ok(); time.Sleep(min(time.Second, 10*time.Millisecond+time.Since(start)/20)) {
		if time.Now().After(end) {
			w.T.Fatalf("%s: not within %s", what, within)
		}
	}
}

// Verify asks the live system whether its invariants hold.
func (w *World) Verify() {
	w.T.Helper()
	rep := Ask[control.VerifyReport](w, control.VerbVerify, control.Empty{})
	if !rep.OK {
		w.T.Errorf("verify: %+v", rep.Checks)
	}
}

// Messages is how many messages a stream holds, in all or below a subject.
func (w *World) Messages(stream string, subject ...string) int {
	w.T.Helper()
	st, err := w.JS.Stream(context.Background(), stream)
	if err != nil {
		w.T.Fatal(err)
	}
	if len(subject) == 0 {
		return int(st.CachedInfo().State.Msgs)
	}
	info, err := st.Info(context.Background(), jetstream.WithSubjectFilter(subject[0]))
	if err != nil {
		w.T.Fatal(err)
	}
	n := 0
	for _, of := range info.State.Subjects {
		n += int(of)
	}
	return n
}

// Inside is how many messages are on their way in or waiting for an attempt.
func (w *World) Inside() int {
	w.T.Helper()
	return w.Messages("TOLLGATE_CALLS") + w.Messages("TOLLGATE_JOBS") + w.Messages("TOLLGATE_RETRY")
}

// Drained waits until no stream holds work any more: every delivery is settled.
func (w *World) Drained(within time.Duration) {
	w.T.Helper()
	w.Until(within, "settling of every delivery", func() bool { return w.Inside() == 0 })
}

// Consumer is the state of a consumer.
func (w *World) Consumer(stream, name string) *jetstream.ConsumerInfo {
	w.T.Helper()
	c, err := w.JS.Consumer(context.Background(), stream, name)
	if err != nil {
		w.T.Fatal(err)
	}
	return c.CachedInfo()
}

// Letters lists dead letters.
func (w *World) Letters(f deadletter.Filter) deadletter.Page {
	w.T.Helper()
	return Ask[deadletter.Page](w, control.VerbLetterList, f)
}

// LettersOf lists the dead letters of a run; "" is every run.
func (w *World) LettersOf(run string) []schemas.Letter {
	w.T.Helper()
	return Ask[deadletter.Page](w, control.VerbLetterList, deadletter.Filter{Run: run}).Letters
}

// Letter shows one dead letter.
func (w *World) Letter(id string) schemas.Letter {
	w.T.Helper()
	return Ask[schemas.Letter](w, control.VerbLetterShow, control.IDQuery{ID: id})
}

// Replay replays one dead letter.
func (w *World) Replay(id string, o deadletter.ReplayOptions) {
	w.T.Helper()
	Ask[control.Done](w, control.VerbReplay, control.ReplayQuery{ID: id, ReplayOptions: o})
}

// Refused asks for what must not be done and returns why it was not.
func (w *World) Refused(verb string, q any) control.Problem {
	w.T.Helper()
	var f *control.Failure
	if err := w.Ctl.Ask(context.Background(), verb, q, &control.Done{}); !errors.As(err, &f) {
		w.T.Fatalf("%s was not refused: %v", verb, err)
	}
	return f.Problem
}

// Account returns what an account of the default tenant.
func (w *World) Account(path string) (attempts, effects int) {
	w.T.Helper()
	a := Ask[control.RunDetail](w, control.VerbRunShow, control.RunQuery{Run: path}).Accounts[path]
	return a.Attempts, a.Effects
}

// Charged fails unless the account was charged just that.
func (w *World) Charged(path string, attempts, effects int) {
	w.T.Helper()
	if a, e := w.Account(path); a != attempts || e != effects {
		w.T.Errorf("run %s is charged %d attempts and %d side effects, want %d and %d", path, a, e, attempts, effects)
	}
}

// Audit returns the operator decisions of one kind, once they are published.
func (w *World) Audit(action string) []dedupe.Audit {
	w.T.Helper()
	w.Until(5*time.Second, "nothing is owed", func() bool { return Ask[control.Status](w, control.VerbStatus, control.Empty{}).Owed == 0 })
	c, err := w.JS.OrderedConsumer(context.Background(), "TOLLGATE_AUDIT", jetstream.OrderedConsumerConfig{FilterSubjects: []string{"tollgate.audit.*." + action}})
	if err != nil {
		w.T.Fatal(err)
	}
	batch, err := c.FetchNoWait(1000)
	if err != nil {
		w.T.Fatal(err)
	}
	var all []dedupe.Audit
	for m := range batch.Messages() {
		var a dedupe.Audit
		if err := json.Unmarshal(m.Data(), &a); err != nil {
			w.T.Fatal(err)
		}
		all = append(all, a)
	}
	return all
}

// Audits returns the actions on the audit stream, in order.
func (w *World) Audits() []string {
	w.T.Helper()
	st, err := w.JS.Stream(context.Background(), "TOLLGATE_AUDIT")
	if err != nil {
		w.T.Fatal(err)
	}
	var actions []string
	for seq := uint64(1); seq <= st.CachedInfo().State.LastSeq; seq++ {
		raw, err := st.GetMsg(context.Background(), seq)
		if err != nil {
			w.T.Fatal(err)
		}
		actions = append(actions, raw.Subject[strings.LastIndexByte(raw.Subject, '.')+1:])
	}
	return actions
}

// RefusalOf returns what the refused subject of a call holds, or nil.
func (w *World) RefusalOf(m Msg) []byte {
	w.T.Helper()
	st, err := w.JS.Stream(context.Background(), "TOLLGATE_RESULTS")
	if err != nil {
		w.T.Fatal(err)
	}
	raw, err := st.GetLastMsgForSubject(context.Background(), "tollgate.results.default."+schemas.Root(m.Run)+"."+CallID(m)+".refused")
	if err != nil {
		return nil
	}
	return raw.Data
}

// Purge removes what a stream holds below a subject.
func (w *World) Purge(stream, subject string) {
	w.T.Helper()
	st, err := w.JS.Stream(context.Background(), stream)
	if err == nil {
		err = st.Purge(context.Background(), jetstream.WithPurgeSubject(subject))
	}
	if err != nil {
		w.T.Fatal(err)
	}
}
