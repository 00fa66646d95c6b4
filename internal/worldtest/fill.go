package worldtest

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"golang.org/x/sync/errgroup"

	"tollgate/consumer"
	"tollgate/deadletter"
	"tollgate/dedupe"
	"tollgate/dedupe/bolt"
	"tollgate/schemas"
)

// Fill writes dead letters straight into their stream and a ledger file, as n calls
// that exhausted their attempts in as many groups as are asked for would have left
// them. No dispatcher may run.
func Fill(t testing.TB, js jetstream.JetStream, ledger string, n, groups int) {
	t.Helper()
	ctx := context.Background()
	subjects, _ := schemas.NewSubjects("")
	letters := consumer.StreamNames(subjects).Letters
	streams := slices.DeleteFunc(consumer.Streams(subjects, consumer.Limits{}), func(c jetstream.StreamConfig) bool { return c.Name != letters })
	if err := consumer.Ensure(ctx, js, streams); err != nil {
		t.Fatal(err)
	}
	l, err := bolt.Open(ledger, bolt.Options{Sync: time.Hour, Retention: 30 * 24 * time.Hour, Create: true})
	if err != nil {
		t.Fatal(err)
	}
	store := deadletter.NewStore(js, subjects, letters)
	var g errgroup.Group
	g.SetLimit(128)
	const chunk = 2000
	for at := 0; at < n; at += chunk {
		var records []*dedupe.Record
		for i := at; i < min(at+chunk, n); i++ {
			r := dead(i, groups)
			g.Go(func() error { return store.Publish(ctx, r) })
			settled := *r
			settled.Request = nil
			records = append(records, &settled)
		}
		if err := l.Import(ctx, records); err != nil {
			t.Fatal(err)
		}
	}
	if err := g.Wait(); err != nil {
		t.Fatal(err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
}

// dead is a call that made three attempts in vain, with 300 bytes of arguments.
func dead(i, groups int) *dedupe.Record {
	group := i % groups
	tool, run, key := fmt.Sprintf("crm.tool%d", group%10), fmt.Sprintf("run-%d/agent", i%5000), fmt.Sprintf("run-%d:%d", i%5000, i)
	settled := time.Now().Add(-time.Duration(i%86400) * time.Second).UTC()
	began := settled.Add(-4 * time.Second)
	body := []byte(fmt.Sprintf(`{"n":%d,"note":%q}`, i, strings.Repeat("x", 280)))
	print, err := dedupe.Fingerprint(body)
	if err != nil {
		panic("worldtest: " + err.Error())
	}
	call := dedupe.CallID("default", schemas.Root(run), tool, key)
	var attempts []schemas.Attempt
	for a := range 3 {
		at := began.Add(time.Duration(a) * time.Second)
		attempts = append(attempts, schemas.Attempt{N: a + 1, Started: at, Ended: at.Add(120 * time.Millisecond), Class: "transient", Phase: "no_answer", Code: "HTTP_503",
			Message: "the tool answered with HTTP status 503", DelayMS: 900, Reached: true, Decision: "retry: transient"})
	}
	message := fmt.Sprintf("order %d of shop %s was not found in the last %d s", i, strings.Repeat("y", group), i%60)
	o := &schemas.Outcome{V: 1, ID: call + ".0.3", Tenant: "default", Lane: schemas.Calls, Run: run, Tool: tool, Call: call, Key: key, Fingerprint: print,
		Status: schemas.Exhausted, IsError: true, NextAction: schemas.Return, Attempts: attempts,
		Error:   &schemas.Error{Code: schemas.CodeCallAttempts, Class: "transient", Message: message, Reason: "call_attempts"},
		Content: []schemas.Content{{Type: "text", Text: message}}, Timing: schemas.Timing{Published: began, Settled: settled, Deadline: began.Add(time.Minute)}}
	return &dedupe.Record{Call: call, Tenant: "default", Lane: schemas.Calls, Root: schemas.Root(run), Run: run, Tool: tool, Key: key, DownstreamKey: call, Fingerprint: print,
		State: dedupe.Dead, Tries: 3, Published: began, Deadline: began.Add(time.Minute), Settled: settled, FirstAttempt: began, Attempts: attempts,
		Letter: schemas.LetterActive, LetterReason: schemas.ReasonExhaustedAttempts, Outcome: o,
		Origin:  schemas.Origin{Stream: "TOLLGATE_CALLS", Subject: "tollgate.calls.default." + tool, Sequence: uint64(i + 1), Time: began},
		Request: &schemas.Request{Header: schemas.Header{schemas.HeaderRun: {run}, schemas.HeaderKey: {key}, schemas.HeaderDeadline: {began.Add(time.Minute).Format(time.RFC3339Nano)}}, Body: body}}
}
