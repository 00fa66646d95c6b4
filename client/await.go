package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"

	"tollgate/schemas"
)

const (
	// The server gives a message to subscribers before it has stored it. Whoever
	// subscribes and looks in between misses both, so we look again: soon, then rarely.
	firstLook, lastLook = 50 * time.Millisecond, 30 * time.Second

	absentMost  = 6                      // times in a row that nobody answers before we believe it
	endpointLag = 250 * time.Millisecond // how far the endpoint's answer may be behind the live result
)

// watch waits for one outcome. Everything that can bring it ends in one channel: the
// answer of the endpoint, the live result, the stored one.
type watch struct {
	c        *Client
	s        Submission
	question *nats.Msg // to the endpoint; nil when the call is already on its way
	asked    bool      // there was a question
	result   string    // subjects
	refused  string
	inbox    string

	in     chan *nats.Msg
	status chan nats.Status
	again  *time.Timer
	subs   []*nats.Subscription
	heard  *Outcome      // live, while the endpoint's answer is still to come
	pause  time.Duration // before the last look
	absent int           // times in a row that nobody answered
	broken bool          // the connection was lost while we waited
}

// await asks the question, if there is one, and waits for the outcome of s.
func (c *Client) await(ctx context.Context, s Submission, question *nats.Msg) (*Outcome, error) {
	subjects, err := schemas.NewSubjects(s.Prefix)
	if err != nil {
		return nil, err
	}
	root := schemas.Root(s.Run)
	w := &watch{c: c, s: s, question: question, asked: question != nil, inbox: c.nc.NewInbox(), in: make(chan *nats.Msg, 32),
		result: subjects.Result(s.Tenant, root, s.Call), refused: subjects.Refused(s.Tenant, root, s.Call)}
	defer w.close()
	if err := w.open(); err != nil {
		return nil, fmt.Errorf("wait for call %s: %w", s.Call, err)
	}
	for {
		o, err := w.next(ctx)
		if o != nil || err != nil {
			return o, err
		}
	}
}

// open listens first and asks then, so that no outcome falls between the two.
func (w *watch) open() error {
	w.again = time.NewTimer(time.Hour)
	w.again.Stop()
	w.status = w.c.nc.StatusChanged(nats.CONNECTED, nats.CLOSED)
	subjects := []string{w.inbox + ".*", w.result}
	if w.question == nil {
		subjects = append(subjects, w.refused)
	}
	for _, subject := range subjects {
		sub, err := w.c.nc.ChanSubscribe(subject, w.in)
		if err != nil {
			return err
		}
		w.subs = append(w.subs, sub)
	}
	if !w.c.nc.IsConnected() {
		w.broken = true // a question would be sent twice: now into the buffer, and when the connection is back
		return nil
	}
	if w.question != nil {
		return w.ask()
	}
	return w.look(w.result)
}

func (w *watch) close() {
	for _, s := range w.subs {
		_ = s.Unsubscribe() // fails only on a closed connection, which has no subscriptions
	}
	if w.status != nil {
		w.c.nc.RemoveStatusListener(w.status)
	}
	if w.again != nil {
		w.again.Stop()
	}
}

// next waits for one thing to happen. It returns neither an outcome nor an error when
// the waiting goes on.
func (w *watch) next(ctx context.Context) (*Outcome, error) {
	select {
	case <-ctx.Done():
		return nil, &NoAnswerError{Submission: w.s, Err: context.Cause(ctx)}
	case st := <-w.status:
		if st != nats.CONNECTED {
			return nil, &NoAnswerError{Submission: w.s, Err: nats.ErrConnectionClosed}
		}
		w.broken, w.absent, w.pause = true, 0, 0
		return nil, w.look(w.result)
	case <-w.again.C:
		if w.heard != nil {
			return w.heard, nil
		}
		return nil, w.look(w.result)
	case m := <-w.in:
		return w.read(m)
	}
}

// ask sends the call to the endpoint. The ledger knows it by its key: a second
// question joins the first one's attempt or is given its outcome.
func (w *watch) ask() error {
	m := *w.question
	m.Reply = w.inbox + ".do"
	return w.c.nc.PublishMsg(&m)
}

// look asks the server for what is stored on a subject.
func (w *watch) look(subject string) error {
	subjects, _ := schemas.NewSubjects(w.s.Prefix)
	reply := w.inbox + ".result"
	if subject == w.refused {
		reply = w.inbox + ".refused"
	}
	return w.c.nc.PublishRequest("$JS.API.DIRECT.GET."+resultsStream(subjects)+"."+subject, reply, nil)
}

// read takes what has come.
func (w *watch) read(m *nats.Msg) (*Outcome, error) {
	status := m.Header.Get("Status")
	switch {
	case status == "503" && len(m.Data) == 0:
		return nil, w.nobody(m.Subject == w.inbox+".do")
	case status == "404" && m.Subject == w.inbox+".result":
		return nil, w.nothing()
	case status != "":
		return nil, nil // no refusal is stored: it is still to come, or an outcome is
	}
	w.absent = 0
	o, err := decode(m.Data)
	switch {
	case err != nil:
		return nil, fmt.Errorf("read the outcome of call %s: %w", w.s.Call, err)
	case m.Subject == w.inbox+".do":
		return w.answer(o)
	case w.s.answers(o) && !w.stale(o):
		return w.hear(o, m.Subject == w.result), nil
	case m.Subject == w.inbox+".result":
		return nil, w.nothing()
	}
	return nil, nil
}

// hear takes an outcome that did not come from the endpoint. A live one is often the
// endpoint's own overtaking it, or an older publication that says nothing of our asking:
// the endpoint comes first, unless it does not come at all.
func (w *watch) hear(o *Outcome, live bool) *Outcome {
	if !live || w.question == nil {
		return o
	}
	w.heard = o
	w.again.Reset(endpointLag)
	return nil
}

// answer takes the endpoint's. A call that is still running will publish its outcome.
func (w *watch) answer(o *Outcome) (*Outcome, error) {
	if o.Code() == schemas.CodeStillRunning {
		w.question = nil
		return nil, w.look(w.result)
	}
	return o, nil
}

// nothing of ours is stored. A question that may have been lost with the connection is asked
// again; otherwise the message was perhaps refused.
func (w *watch) nothing() error {
	if w.question != nil {
		return w.ask()
	}
	w.later()
	return w.look(w.refused)
}

// nobody answered. At the first question that is the answer; after a lost connection
// the dispatcher may need a while to come back.
func (w *watch) nobody(endpoint bool) error {
	w.absent++
	if !w.broken && (endpoint || w.absent >= absentMost) {
		return ErrNoDispatcher
	}
	w.later()
	return nil
}

// later looks again, each time after twice the pause.
func (w *watch) later() {
	w.pause = min(max(2*w.pause, firstLook), lastLook)
	w.again.Reset(w.pause)
}

// stale reports whether a stored outcome is of an earlier generation than the one our
// question opens: unavailable frees its key, and was known before we asked.
func (w *watch) stale(o *Outcome) bool {
	return w.asked && o.Status == schemas.Unavailable && o.Timing.Published.Before(w.s.Started)
}

func decode(b []byte) (*Outcome, error) {
	var o Outcome
	if err := json.Unmarshal(b, &o); err != nil {
		return nil, err
	}
	if o.V != schemas.Version {
		return nil, fmt.Errorf("it is version %d, and this client reads %d: update the client", o.V, schemas.Version)
	}
	if o.Status == "" {
		return nil, errors.New("it has no status")
	}
	return &o, nil
}
