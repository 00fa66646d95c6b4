// Package deploy_test holds the files of this folder to what they are for.
package deploy_test

import (
	"context"
	"errors"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/rs/zerolog"

	"tollgate/client"
	"tollgate/control"
	"tollgate/deadletter"
	"tollgate/dedupe"
	"tollgate/dispatcher"
	"tollgate/internal/app"
	"tollgate/internal/config"
	"tollgate/internal/natstest"
	"tollgate/schemas"
	"tollgate/tools/function"
)

const tenantFile = `
nats: { url: "nats://in-process.invalid" }
ledger: { path: ledger.db, sync: 1m }
tenants: { t1: { tools: ["*"] }, t2: { tools: ["*"] } }
policies:
  quick:
    { attempts: 2, timeout: 1s, backoff: { base: 10ms, cap: 50ms, throttle_base: 50ms }, max_retry_after: 5s, max_deadline: 30s,
      run: { attempts: 100, side_effects: 100, elapsed: 1h, max_repairs: 2, max_accounts: 16 } }
tools:
  look: { function: look, effect: read, policies: [quick] }
`

// gated is a dispatcher on a server with the accounts of nats/tollgate.conf.
type gated struct {
	t       *testing.T
	node    *natstest.Node
	refused refusals
}

// refusals are the permission violations a connection was told of.
type refusals struct {
	mu  sync.Mutex
	all []string
}

func (r *refusals) add(_ *nats.Conn, _ *nats.Subscription, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.all = append(r.all, err.Error())
}

func (r *refusals) count() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.all)
}

func start(t *testing.T) *gated {
	t.Helper()
	for _, name := range []string{"DISPATCHER_PASSWORD", "OPERATOR_PASSWORD", "AGENT_PASSWORD"} {
		t.Setenv(name, "of-"+strings.ToLower(name))
	}
	dir := t.TempDir()
	g := &gated{t: t, node: natstest.Server(t, filepath.Join(dir, "nats"), func(o *server.Options) {
		store := o.StoreDir
		o.StoreDir = "" // the file names one
		if err := o.ProcessConfigFile("nats/tollgate.conf"); err != nil {
			t.Fatal(err)
		}
		if !o.SyncAlways {
			t.Error("the server does not sync what it acknowledges")
		}
		o.StoreDir, o.SyncAlways = store, false // the disk is not what is tested
	})}
	cfg, err := config.Parse(filepath.Join(dir, "tollgate.yaml"), []byte(tenantFile), func(string) (string, bool) { return "", false })
	if err != nil {
		t.Fatal(err)
	}
	look := func(context.Context, dispatcher.Invocation) (any, error) {
		return nil, function.Stop(schemas.AuthExpired, "AUTH", "renew")
	}
	a, err := app.Start(context.Background(), app.Options{Config: cfg, Functions: map[string]function.Func{"look": look}, Log: zerolog.Nop(), Version: "test",
		Conn: func() (*nats.Conn, error) {
			return nats.Connect("", nats.InProcessServer(g.node), nats.UserInfo("dispatcher", "of-dispatcher_password"))
		}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		a.Stop()
		if err := a.Wait(); err != nil {
			t.Error(err)
		}
	})
	return g
}

func (g *gated) connect(user string) *nats.Conn {
	g.t.Helper()
	return natstest.Connect(g.t, g.node, nats.UserInfo(user, "of-"+user+"_password"), nats.ErrorHandler(g.refused.add))
}

// died makes a call that fails, as an agent does, and returns its letter's ID.
func (g *gated) died(nc *nats.Conn) string {
	g.t.Helper()
	c, err := client.Connect(nc, client.Tenant("t1"), client.Run("r"), client.Within(20*time.Second))
	if err != nil {
		g.t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	o, err := c.Call(ctx, "look", nil, client.Key("1"))
	var failed *client.OutcomeError
	if !errors.As(err, &failed) && o == nil {
		g.t.Fatalf("%+v, %v", o, err)
	}
	time.Sleep(time.Second) // its letter is stored a moment after the outcome is heard
	return dedupe.LetterID(dedupe.CallID("t1", "r", "look", "1"), 0)
}

// verbs are every verb of control/api.go: the constants that the services listen on.
func verbs(g *gated) []string {
	g.t.Helper()
	nc := g.connect("dispatcher")
	reply, err := nc.Request("$SRV.INFO.tollgate", nil, 5*time.Second)
	if err != nil {
		g.t.Fatal(err)
	}
	var found []string
	for _, part := range strings.Split(string(reply.Data), `"`) {
		if verb, ok := strings.CutPrefix(part, "tollgate.ctl."); ok {
			found = append(found, verb)
		}
	}
	if len(found) < 20 {
		g.t.Fatalf("the services listen on %v", found)
	}
	return found
}

// B92: with an agent's credentials every operator's action is refused by the server,
// and nothing has changed afterwards.
func TestB92AnAgentMayDoNothingThatAnOperatorMay(t *testing.T) {
	natstest.Bubble(t, func(t *testing.T) {
		g := start(t)
		agent, owner := g.connect("agent"), g.connect("dispatcher")
		id := g.died(agent)
		js, err := jetstream.New(owner)
		if err != nil {
			t.Fatal(err)
		}
		before := streams(t, js)
		if before["TOLLGATE_DLQ"] != 1 {
			t.Fatalf("the streams are %v; want one letter", before)
		}
		if n := g.refused.count(); n > 0 {
			t.Fatalf("what an agent needs was refused: %v", g.refused.all)
		}
		subjects := []string{
			"tollgate.dlq.t1.failed.look." + id, "tollgate.dlq.t1.failed.look.0123456789abcdefghijklmnop.0", "tollgate.retry.calls.t1.x.look", "tollgate.sched.calls.t1.x",
			"tollgate.results.t1.r.x", "tollgate.results.t2.r.x", "tollgate.audit.t1.replay", "tollgate.calls.t2.look", "tollgate.jobs.t2.look", "tollgate.do.t2.look", "tollgate.cancel.t2",
			"$KV.TOLLGATE_OWNER.owner", "$SRV.INFO", "$SRV.STATS.tollgate", "$JS.API.INFO", "$JS.API.STREAM.NAMES", "$JS.API.STREAM.LIST", "$JS.API.STREAM.CREATE.MINE", "$JS.FC.x",
			"$JS.API.DIRECT.GET.TOLLGATE_RESULTS", "$JS.API.DIRECT.GET.TOLLGATE_RESULTS.tollgate.results.t2.r.x", "$JS.API.DIRECT.GET.TOLLGATE_DLQ.tollgate.dlq.>", "$JS.ACK.TOLLGATE_CALLS.calls-look.1.1.1.1.0",
		}
		for _, stream := range []string{"TOLLGATE_CALLS", "TOLLGATE_JOBS", "TOLLGATE_RETRY", "TOLLGATE_RESULTS", "TOLLGATE_DLQ", "TOLLGATE_AUDIT", "KV_TOLLGATE_OWNER"} {
			for _, action := range []string{"STREAM.INFO", "STREAM.UPDATE", "STREAM.DELETE", "STREAM.PURGE", "STREAM.MSG.GET", "STREAM.MSG.DELETE", "STREAM.SNAPSHOT", "CONSUMER.LIST"} {
				subjects = append(subjects, "$JS.API."+action+"."+stream)
			}
			subjects = append(subjects, "$JS.API.CONSUMER.CREATE."+stream+".mine", "$JS.API.CONSUMER.DURABLE.CREATE."+stream+".mine", "$JS.API.CONSUMER.MSG.NEXT."+stream+".calls-look")
		}
		for _, verb := range verbs(g) {
			subjects = append(subjects, "tollgate.ctl."+verb)
		}
		for _, subject := range subjects {
			told := g.refused.count()
			ctx, cancel := context.WithTimeout(context.Background(), time.Second)
			reply, err := agent.RequestWithContext(ctx, subject, []byte(`{"id":"`+id+`"}`))
			cancel()
			if err == nil {
				t.Errorf("%s was answered: %s %.80s", subject, reply.Header.Get("Nats-Service-Error"), reply.Data)
			}
			if g.refused.count() != told+1 {
				t.Errorf("%s was not refused by the server", subject)
			}
		}
		for _, listen := range []string{">", "tollgate.>", "tollgate.dlq.>", "tollgate.results.>", "tollgate.results.t2.>", "tollgate.calls.t1.>", "tollgate.audit.>", "$JS.EVENT.>", "$SYS.>"} {
			told := g.refused.count()
			if _, err := agent.Subscribe(listen, func(m *nats.Msg) { t.Errorf("an agent hears %s", m.Subject) }); err != nil {
				t.Fatal(err)
			}
			_ = agent.FlushTimeout(time.Second)
			time.Sleep(100 * time.Millisecond)
			if g.refused.count() != told+1 {
				t.Errorf("a subscription to %s was not refused", listen)
			}
		}
		if after := streams(t, js); !reflect.DeepEqual(after, before) {
			t.Errorf("the streams hold %v, and before %v", after, before)
		}
	})
}

func streams(t *testing.T, js jetstream.JetStream) map[string]uint64 {
	t.Helper()
	counts := map[string]uint64{}
	list := js.ListStreams(t.Context())
	for info := range list.Info() {
		if !strings.HasPrefix(info.Config.Name, "KV_") { // the owner renews its term
			counts[info.Config.Name] = info.State.Msgs
		}
	}
	if err := list.Err(); err != nil {
		t.Fatal(err)
	}
	return counts
}

// B92: a reply subject in somebody's results, letters or retries stores nothing.
func TestB92AReplySubjectStoresNothing(t *testing.T) {
	natstest.Bubble(t, func(t *testing.T) {
		g := start(t)
		agent, owner := g.connect("agent"), g.connect("dispatcher")
		id := g.died(agent)
		js, err := jetstream.New(owner)
		if err != nil {
			t.Fatal(err)
		}
		before := streams(t, js)
		for _, reply := range []string{"tollgate.results.t2.r.x", "tollgate.dlq.t1.failed.look." + id[:26] + ".9", "tollgate.retry.calls.t1.x.look", "tollgate.audit.t1.replay"} {
			for _, subject := range []string{"tollgate.calls.t1.look", "tollgate.do.t1.look", "tollgate.cancel.t1"} {
				m := nats.NewMsg(subject)
				m.Reply, m.Data = reply, []byte("{}")
				if err := agent.PublishMsg(m); err != nil {
					t.Fatal(err)
				}
			}
		}
		time.Sleep(5 * time.Second)
		after := streams(t, js)
		// The calls themselves are malformed: each leaves a letter, and nothing else is there.
		if after["TOLLGATE_DLQ"] != before["TOLLGATE_DLQ"]+4 || after["TOLLGATE_RESULTS"] != before["TOLLGATE_RESULTS"] || after["TOLLGATE_AUDIT"] != before["TOLLGATE_AUDIT"] || after["TOLLGATE_RETRY"] != 0 {
			t.Errorf("the streams hold %v, and before %v", after, before)
		}
	})
}

// An operator needs the control service and nothing else; and a letter that somebody
// with the dispatcher's own rights has forged is shown and never replayed.
func TestB92AnOperatorsRightsAndForgedLetters(t *testing.T) {
	natstest.Bubble(t, func(t *testing.T) {
		g := start(t)
		agent, operator, owner := g.connect("agent"), g.connect("operator"), g.connect("dispatcher")
		id := g.died(agent)
		subjects, err := schemas.NewSubjects("")
		if err != nil {
			t.Fatal(err)
		}
		ctl := &control.Client{NATS: operator, Subjects: subjects, By: "an operator"}
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
		defer cancel()
		ask := func(verb string, q any) error {
			var answer map[string]any
			return ctl.Ask(ctx, verb, q, &answer)
		}
		if err := errors.Join(ask(control.VerbStatus, control.Empty{}), ask(control.VerbLetterShow, control.IDQuery{ID: id}), ask(control.VerbGroups, control.GroupsQuery{}),
			ask(control.VerbVerify, control.Empty{}), ask(control.VerbReplay, control.ReplayQuery{ID: id})); err != nil {
			t.Errorf("an operator may not: %v", err)
		}
		time.Sleep(2 * time.Second) // the replay has died again
		if n := g.refused.count(); n > 0 {
			t.Errorf("what agents and operators need was refused: %v", g.refused.all)
		}
		for _, subject := range []string{"tollgate.calls.t1.look", "tollgate.dlq.t1.failed.look.x.0", "tollgate.retry.calls.t1.x.look", "tollgate.audit.t1.replay", "$JS.API.STREAM.PURGE.TOLLGATE_DLQ", "$JS.API.STREAM.MSG.GET.TOLLGATE_DLQ"} {
			told := g.refused.count()
			if err := operator.Publish(subject, []byte("{}")); err != nil {
				t.Fatal(err)
			}
			_ = operator.FlushTimeout(time.Second)
			time.Sleep(100 * time.Millisecond)
			if g.refused.count() != told+1 {
				t.Errorf("an operator may publish to %s", subject)
			}
		}
		g.forge(owner, ctl, id)
	})
}

// forge puts letters beside the true one, as nobody but the dispatcher's user can, and
// tries to have them replayed.
func (g *gated) forge(nc *nats.Conn, ctl *control.Client, id string) {
	t := g.t
	t.Helper()
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	st, err := js.Stream(t.Context(), "TOLLGATE_DLQ")
	if err != nil {
		t.Fatal(err)
	}
	stored, err := st.GetLastMsgForSubject(t.Context(), "tollgate.dlq.t1.failed.look."+id)
	if err != nil {
		t.Fatal(err)
	}
	stored.Header.Del("Nats-Expected-Last-Subject-Sequence")
	call := id[:26]
	for name, subject := range map[string]string{
		"a later generation":        "tollgate.dlq.t1.failed.look." + call + ".7",
		"another call":              "tollgate.dlq.t1.failed.look.0123456789abcdefghijklmnop.0",
		"the last letter's subject": "tollgate.dlq.t1.failed.look." + call + ".1",
	} {
		m := &nats.Msg{Subject: subject, Header: nats.Header(stored.Header), Data: []byte(`{"forged":true}`)}
		if _, err := js.PublishMsg(t.Context(), m); err != nil {
			t.Fatal(err)
		}
		parts := strings.Split(subject, ".")
		forged := parts[len(parts)-2] + "." + parts[len(parts)-1]
		var done control.Done
		if err := ctl.Ask(t.Context(), control.VerbReplay, control.ReplayQuery{ID: forged, ReplayOptions: deadletter.ReplayOptions{IncludeUnknown: true}}, &done); err == nil {
			t.Errorf("a forged letter (%s) was replayed", name)
		}
	}
}
