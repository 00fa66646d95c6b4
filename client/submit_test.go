package client_test

import (
	"context"
	"errors"
	"path/filepath"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"tollgate/client"
	"tollgate/client/tollgatetest"
	"tollgate/consumer"
	"tollgate/control"
	"tollgate/dispatcher"
	"tollgate/internal/natstest"
	"tollgate/schemas"
	"tollgate/tools/function"
)

// A submitted call is waited for by whoever has its submission, again and again, and a
// refusal reaches the one whose message was refused and nobody else.
func TestResultIsOfTheSubmission(t *testing.T) {
	tollgatetest.Bubble(t, func(t *testing.T) {
		var e echo
		s := tollgatetest.New(t, e.tool("demo.echo"))
		c := s.Client(client.Run("r/child"), client.Within(20*time.Second), client.Key("k"))
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		first, err := c.Submit(ctx, "demo.echo", []byte(`{"n":1}`))
		if err != nil {
			t.Fatal(err)
		}
		for range 2 {
			if o, err := c.Result(ctx, first); err != nil || o.Content[0].Text != `{"n":1}` {
				t.Fatalf("%+v, %v", o, err)
			}
		}
		other, err := c.Submit(ctx, "demo.echo", []byte(`{"n":2}`))
		if err != nil {
			t.Fatal(err)
		}
		for range 2 { // live, and stored
			if _, err := c.Result(ctx, other); !errors.Is(err, client.ErrKeyConflict) {
				t.Errorf("other arguments: %v", err)
			}
		}
		if o, err := c.Result(ctx, first); err != nil || o.Fingerprint != first.Fingerprint {
			t.Errorf("after the refusal of another message: %+v, %v", o, err)
		}
		if e.ran.Load() != 1 {
			t.Errorf("the tool ran %d times", e.ran.Load())
		}
	})
}

// A tool that nobody serves: the refusal is found by its own message only.
func TestARefusalOfAnEarlierMessageIsNotOurs(t *testing.T) {
	tollgatetest.Bubble(t, func(t *testing.T) {
		var e echo
		s := tollgatetest.New(t, e.tool("demo.echo"))
		c := s.Client(client.Run("r"), client.Within(20*time.Second), client.Key("k"), client.Job())
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		sub, err := c.Submit(ctx, "nobody.serves", nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.Result(ctx, sub); !errors.Is(err, client.ErrUnknownTool) {
			t.Fatalf("%v", err)
		}
		later := *sub
		later.Sequence++
		short, stop := context.WithTimeout(ctx, time.Second)
		defer stop()
		if o, err := c.Result(short, &later); !errors.Is(err, client.ErrNoAnswer) {
			t.Errorf("the refusal of message %d was given for message %d: %+v, %v", sub.Sequence, later.Sequence, o, err)
		}
	})
}

// unavailable frees the key: whoever asks again waits for what comes after it.
func TestAfterAnUnavailableOutcome(t *testing.T) {
	tollgatetest.Bubble(t, func(t *testing.T) {
		closed := true
		s := tollgatetest.New(t, tollgatetest.Tool{Name: "shop", Read: true, Func: func(context.Context, dispatcher.Invocation) (any, error) {
			if closed {
				return nil, function.Transient("CLOSED", "", 10*time.Second)
			}
			return "open", nil
		}})
		c := s.Client(client.Run("r"), client.Within(20*time.Second), client.Key("k"))
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		sub, err := c.Submit(ctx, "shop", nil)
		if err != nil {
			t.Fatal(err)
		}
		before, err := c.Result(ctx, sub)
		if !errors.Is(err, client.ErrUnavailable) {
			t.Fatalf("%+v, %v", before, err)
		}
		closed = false
		if sub, err = c.Submit(ctx, "shop", nil, client.After(before)); err != nil {
			t.Fatal(err)
		}
		if o, err := c.Result(ctx, sub); err != nil || o.Generation != 1 {
			t.Errorf("%+v, %v", o, err)
		}
	})
}

// The outcome is heard through an outage of the server: of the connection, and of an
// outcome that was published while nobody listened.
func TestResultSurvivesAReconnect(t *testing.T) {
	natstest.Bubble(t, func(t *testing.T) {
		node := natstest.Server(t, filepath.Join(t.TempDir(), "nats"))
		nc := natstest.Connect(t, node)
		js, err := jetstream.New(nc)
		if err != nil {
			t.Fatal(err)
		}
		subjects, _ := schemas.NewSubjects("")
		if err := consumer.Ensure(t.Context(), js, consumer.Streams(subjects, consumer.Limits{})); err != nil {
			t.Fatal(err)
		}
		c, err := client.Connect(nc, client.Run("r"), client.Within(time.Hour))
		if err != nil {
			t.Fatal(err)
		}
		sub, err := c.Submit(t.Context(), "demo.echo", nil)
		if err != nil {
			t.Fatal(err)
		}
		type answer struct {
			o   *client.Outcome
			err error
		}
		got := make(chan answer, 1)
		go func() {
			o, err := c.Result(t.Context(), sub)
			got <- answer{o, err}
		}()
		time.Sleep(time.Second)
		node.Stop()
		time.Sleep(time.Minute)
		node.Start(t)
		// Published by somebody whose connection is back before the client's.
		quick := natstest.JetStream(t, node)
		body := `{"v":1,"status":"succeeded","call":"` + sub.Call + `","fingerprint":"` + sub.Fingerprint + `"}`
		if _, err := quick.Publish(t.Context(), subjects.Result("default", "r", sub.Call), []byte(body)); err != nil {
			t.Fatal(err)
		}
		if a := <-got; a.err != nil || a.o.Call != sub.Call {
			t.Errorf("%+v", a)
		}
	})
}

// A call whose question was lost with the connection is asked again.
func TestACallIsAskedAgainAfterAReconnect(t *testing.T) {
	natstest.Bubble(t, func(t *testing.T) {
		node := natstest.Server(t, filepath.Join(t.TempDir(), "nats"))
		nc := natstest.Connect(t, node)
		js, err := jetstream.New(nc)
		if err != nil {
			t.Fatal(err)
		}
		subjects, _ := schemas.NewSubjects("")
		if err := consumer.Ensure(t.Context(), js, consumer.Streams(subjects, consumer.Limits{})); err != nil {
			t.Fatal(err)
		}
		c, err := client.Connect(nc, client.Run("r"))
		if err != nil {
			t.Fatal(err)
		}
		asked := 0
		serve := natstest.Connect(t, node)
		if _, err := serve.Subscribe("tollgate.do.default.demo.echo", func(m *nats.Msg) {
			if asked++; asked > 1 { // the first is swallowed: its dispatcher dies
				_ = m.Respond([]byte(`{"v":1,"status":"succeeded"}`))
			}
		}); err != nil {
			t.Fatal(err)
		}
		if err := serve.Flush(); err != nil {
			t.Fatal(err)
		}
		time.AfterFunc(time.Second, func() { node.Restart(t, time.Second) })
		if o, err := c.Call(t.Context(), "demo.echo", nil); err != nil || o.Status != schemas.Succeeded || asked != 2 {
			t.Errorf("%+v, %v, asked %d times", o, err, asked)
		}
	})
}

// I9 seen from the agent: what RUN_BUDGET_EXHAUSTED names is not even sent, and nothing
// else is held back.
func TestASpentRunIsNotAsked(t *testing.T) {
	tollgatetest.Bubble(t, func(t *testing.T) {
		var e echo
		write := e.tool("pay")
		write.Read = false
		s := tollgatetest.New(t, e.tool("look"), write)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		c := s.Client(client.Within(20 * time.Second))
		call := func(tool, run, key string, opts ...client.Option) error {
			_, err := c.Call(ctx, tool, nil, append(opts, client.Run(run), client.Key(key))...)
			return err
		}
		unsent := func(err error) bool {
			var o *client.OutcomeError
			return errors.Is(err, client.ErrRunBudgetExhausted) && errors.As(err, &o) && o.Unsent
		}
		_ = call("look", "r/a", "1", client.RunAttempts(1))
		if err := call("look", "r/a", "2"); !errors.Is(err, client.ErrRunBudgetExhausted) || unsent(err) {
			t.Fatalf("the second attempt: %v", err)
		}
		for _, run := range []string{"r/a", "r/a/b"} {
			if err := call("look", run, "3"); !unsent(err) {
				t.Errorf("%s: %v", run, err)
			}
		}
		if _, err := c.Submit(ctx, "look", nil, client.Run("r/a"), client.Key("4")); !unsent(err) {
			t.Errorf("submit: %v", err)
		}
		for _, run := range []string{"r", "r/aa", "r2/a"} {
			if err := call("look", run, "5"); err != nil {
				t.Errorf("%s is another account: %v", run, err)
			}
		}
		_ = call("pay", "w", "1", client.RunSideEffects(1), client.Write())
		if err := call("pay", "w", "2", client.Write()); !errors.Is(err, client.ErrRunBudgetExhausted) {
			t.Fatalf("the second write: %v", err)
		}
		if err := call("pay", "w", "3", client.Write()); !unsent(err) {
			t.Errorf("a write of a run without side effects left: %v", err)
		}
		if err := call("look", "w", "4"); err != nil {
			t.Errorf("a read of a run without side effects left: %v", err)
		}
	})
}

// What is waiting is settled, and the one who waits for it is told.
func TestCancel(t *testing.T) {
	tollgatetest.Bubble(t, func(t *testing.T) {
		busy := failing("busy", function.Transient("BUSY", "", 5*time.Second))
		s := tollgatetest.New(t, busy)
		c := s.Client(client.Within(25 * time.Second))
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		var subs []*client.Submission
		for _, run := range []string{"r/a", "r/b"} {
			sub, err := c.Submit(ctx, "busy", nil, client.Run(run))
			if err != nil {
				t.Fatal(err)
			}
			subs = append(subs, sub)
		}
		time.Sleep(time.Second)
		if rep, err := c.CancelCall(ctx, subs[0].Call, "not needed"); err != nil || rep.Cancelled != 1 {
			t.Errorf("call: %+v, %v", rep, err)
		}
		if rep, err := c.Cancel(ctx, "r/b", "not needed"); err != nil || rep.Cancelled != 1 {
			t.Errorf("run: %+v, %v", rep, err)
		}
		for _, sub := range subs {
			if o, err := c.Result(ctx, sub); !errors.Is(err, client.ErrCancelled) {
				t.Errorf("%s: %+v, %v", sub.Run, o, err)
			}
		}
		if _, err := c.Call(ctx, "busy", nil, client.Run("r/b/c"), client.Key("new")); !errors.Is(err, client.ErrCancelled) {
			t.Errorf("below a cancelled run: %v", err)
		}
		if _, err := s.Client(client.Prefix("elsewhere")).Cancel(ctx, "r", ""); !errors.Is(err, client.ErrNoDispatcher) {
			t.Errorf("nobody there: %v", err)
		}
	})
}

// The constants that this package repeats instead of importing the dispatcher's side.
func TestSharedNames(t *testing.T) {
	if client.HeaderBy != control.HeaderBy {
		t.Errorf("%q, the control service reads %q", client.HeaderBy, control.HeaderBy)
	}
	for _, prefix := range []string{"", "a.b-c"} {
		s, _ := schemas.NewSubjects(prefix)
		if got, want := client.ResultsStream(s), consumer.StreamNames(s).Results; got != want {
			t.Errorf("%q: results are read from %s, stored in %s", prefix, got, want)
		}
	}
}
