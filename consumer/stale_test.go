package consumer

import (
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"tollgate/dedupe"
	"tollgate/dedupe/bolt"
	"tollgate/internal/natstest"
	"tollgate/schemas"
)

// A schedule that a crash brought back is removed, unless its call waits for it, it
// is newer than the ledger, or the ledger does not know its call.
func TestScheduleNobodyWaitsForIsRemoved(t *testing.T) {
	dir := t.TempDir()
	js := natstest.JetStream(t, natstest.Server(t, filepath.Join(dir, "nats")))
	subjects, _ := schemas.NewSubjects("")
	l, err := bolt.Open(filepath.Join(dir, "ledger.db"), bolt.Options{Retention: time.Hour, Create: true})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	c := New(Config{JetStream: js, Subjects: subjects, Ledger: l})
	if err := Ensure(t.Context(), js, Streams(subjects, Limits{})); err != nil {
		t.Fatal(err)
	}
	left := map[string]bool{}
	for _, tc := range []struct {
		key           string
		state         dedupe.State // 0: no record
		token, record uint64
		stays         bool
	}{
		{"done", dedupe.Done, 1, 1, false},
		{"running", dedupe.InFlight, 1, 2, false},
		{"waiting", dedupe.Waiting, 1, 1, true},
		{"newer", dedupe.Done, 3, 2, true},
		{"unknown", 0, 1, 0, true},
	} {
		r := &dedupe.Record{Call: dedupe.CallID("default", "run", "t.x", tc.key), Tenant: "default", Root: "run", Run: "run", State: tc.state, Token: tc.record, Settled: time.Now()}
		if tc.state != 0 {
			if _, err := l.Update(t.Context(), r.Ref(), func(dedupe.View) dedupe.Change { return dedupe.Change{Record: r} }); err != nil {
				t.Fatal(err)
			}
		}
		m := nats.NewMsg(subjects.Schedule(schemas.Calls, "default", r.Call))
		m.Header.Set("Nats-Schedule", "@at "+time.Now().Add(time.Hour).UTC().Format(time.RFC3339Nano))
		m.Header.Set("Nats-Schedule-Target", subjects.Retry(schemas.Calls, "default", r.Call, "t.x"))
		m.Header.Set(schemas.HeaderToken, strconv.FormatUint(tc.token, 10))
		if _, err := js.PublishMsg(t.Context(), m); err != nil {
			t.Fatal(err)
		}
		left[m.Subject] = tc.stays
	}
	if err := c.sweepStale(t.Context()); err != nil {
		t.Fatal(err)
	}
	st, err := js.Stream(t.Context(), c.names.Retry)
	if err != nil {
		t.Fatal(err)
	}
	for subject, stays := range left {
		if _, err := st.GetLastMsgForSubject(t.Context(), subject); (err == nil) != stays {
			t.Errorf("%s: %v, should stay: %v", subject, err, stays)
		}
	}
}
