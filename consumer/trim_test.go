package consumer

import (
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"tollgate/dispatcher"
	"tollgate/internal/natstest"
	"tollgate/schemas"

	"github.com/nats-io/nats.go/jetstream"
)

// A server that is killed may find a retry again that it had removed because it was
// acknowledged. No consumer is given it any more, and it must not stay for ever.
func TestAcknowledgedRetryThatCameBackIsRemoved(t *testing.T) {
	dir := t.TempDir()
	node := natstest.Server(t, dir)
	js := natstest.JetStream(t, node)
	subjects, _ := schemas.NewSubjects("")
	c := New(Config{JetStream: js, Subjects: subjects})
	if err := Ensure(t.Context(), js, Streams(subjects, Limits{})); err != nil {
		t.Fatal(err)
	}
	s := &source{c: c, tool: &dispatcher.Tool{Name: "t.x", Concurrency: 1}, lane: schemas.Calls, retry: true}
	if err := c.bind(t.Context(), s); err != nil {
		t.Fatal(err)
	}
	publish := func(call string) {
		t.Helper()
		if _, err := js.Publish(t.Context(), subjects.Retry(schemas.Calls, "default", call, "t.x"), nil); err != nil {
			t.Fatal(err)
		}
	}
	publish("acknowledged")
	messages := filepath.Join(dir, "jetstream", "$G", "streams", c.names.Retry, "msgs")
	before := filepath.Join(t.TempDir(), "msgs")
	if err := os.CopyFS(before, os.DirFS(messages)); err != nil {
		t.Fatal(err)
	}
	m, err := s.from.Next()
	if err == nil {
		err = m.DoubleAck(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	node.Stop()
	if err := os.RemoveAll(messages); err != nil {
		t.Fatal(err)
	}
	if err := os.CopyFS(messages, os.DirFS(before)); err != nil {
		t.Fatal(err)
	}
	node.Start(t)

	publish("waiting")
	if n := stored(t, js, c.names.Retry); n != 2 {
		t.Fatalf("%d messages: the acknowledged one did not come back", n)
	}
	if err := s.trim(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := stored(t, js, c.names.Retry); n != 1 {
		t.Errorf("%d messages are left, want the one that waits", n)
	}
	if m, err := s.from.Next(); err != nil || m.Subject() != subjects.Retry(schemas.Calls, "default", "waiting", "t.x") {
		t.Errorf("the waiting retry: %v, %v", m, err)
	}
}

func stored(t *testing.T, js jetstream.JetStream, stream string) uint64 {
	t.Helper()
	st, err := js.Stream(t.Context(), stream)
	if err != nil {
		t.Fatal(err)
	}
	return st.CachedInfo().State.Msgs
}

// A retry that was handed back and then replaced by the next of its call never comes
// again: it must not hold up trimming for ever.
func TestAMessageThatNeverComesBackHoldsUpTrimmingOnlyForAWhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var tr trimmer
		tr.reset(&jetstream.ConsumerInfo{})
		tr.handBack(7, 2*time.Second)
		if tr.mayPurge(9) {
			t.Error("purged what the server has to deliver again")
		}
		time.Sleep(2*time.Second + comesBack + time.Millisecond)
		if !tr.mayPurge(9) {
			t.Error("still waiting for a message that was replaced")
		}
		tr.handBack(8, time.Hour)
		tr.taken(8)
		if !tr.mayPurge(9) {
			t.Error("waiting for a message that has come")
		}
	})
}
