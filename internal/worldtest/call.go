package worldtest

import (
	"context"
	"encoding/json"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"tollgate/dedupe"
	"tollgate/schemas"
)

// Msg is a call ready to publish.
type Msg struct {
	Lane     schemas.Lane
	Tool     string
	Tenant   string
	Run, Key string
	Body     string
	Deadline time.Duration
	Header   map[string]string
}

// Build makes the message; what is left out gets a default.
func (m Msg) Build() *nats.Msg {
	if m.Lane == "" {
		m.Lane = schemas.Calls
	}
	if m.Tenant == "" {
		m.Tenant = "default"
	}
	if m.Deadline == 0 {
		m.Deadline = 50 * time.Second
	}
	if m.Body == "" {
		m.Body = "{}"
	}
	n := nats.NewMsg("tollgate." + string(m.Lane) + "." + m.Tenant + "." + m.Tool)
	n.Data = []byte(m.Body)
	n.Header.Set(schemas.HeaderRun, m.Run)
	n.Header.Set(schemas.HeaderKey, m.Key)
	n.Header.Set(schemas.HeaderDeadline, time.Now().Add(m.Deadline).UTC().Format(time.RFC3339Nano))
	for k, v := range m.Header {
		n.Header.Set(k, v)
	}
	return n
}

// CallID is the identity of the call.
func CallID(m Msg) string {
	if m.Tenant == "" {
		m.Tenant = "default"
	}
	return dedupe.CallID(m.Tenant, schemas.Root(m.Run), m.Tool, m.Key)
}

// Publish publishes the call to its lane and waits for the acknowledgement.
func (w *World) Publish(m Msg) {
	w.T.Helper()
	if _, err := w.JS.PublishMsg(context.Background(), m.Build()); err != nil {
		w.T.Fatal(err)
	}
}

// Outcome waits for the stored outcome of a call, of at least the given generation.
func (w *World) Outcome(m Msg, within time.Duration, generation ...int) *schemas.Outcome {
	w.T.Helper()
	least := 0
	if len(generation) > 0 {
		least = generation[0]
	}
	start := time.Now()
	for end := start.Add(within); ; time.Sleep(min(time.Second, 20*time.Millisecond+time.Since(start)/20)) {
		if o := w.Stored(m); o != nil && o.Generation >= least {
			return o
		}
		if time.Now().After(end) {
			w.T.Fatalf("no outcome of %s/%s within %s", m.Run, m.Key, within)
		}
	}
}

// Stored is the outcome on the results stream, nil while there is none.
func (w *World) Stored(m Msg) *schemas.Outcome {
	if m.Tenant == "" {
		m.Tenant = "default"
	}
	st, err := w.JS.Stream(context.Background(), "TOLLGATE_RESULTS")
	if err != nil {
		return nil
	}
	id := CallID(m)
	raw, err := st.GetLastMsgForSubject(context.Background(), "tollgate.results."+m.Tenant+"."+schemas.Root(m.Run)+"."+id)
	if err != nil {
		return nil
	}
	var o schemas.Outcome
	if err := json.Unmarshal(raw.Data, &o); err != nil {
		w.T.Fatal(err)
	}
	return &o
}

// Do makes the call by request and reply.
func (w *World) Do(m Msg) *schemas.Outcome {
	w.T.Helper()
	n := m.Build()
	n.Subject = strings.Replace(n.Subject, ".calls.", ".do.", 1)
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	r, err := w.NC.RequestMsgWithContext(ctx, n)
	if err != nil {
		w.T.Fatal(err)
	}
	var o schemas.Outcome
	if err := json.Unmarshal(r.Data, &o); err != nil {
		w.T.Fatalf("%v: %s", err, r.Data)
	}
	return &o
}
