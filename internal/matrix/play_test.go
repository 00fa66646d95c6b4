package matrix

import (
	"context"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"tollgate/control"
	"tollgate/internal/app"
	"tollgate/internal/natstest"
	"tollgate/internal/worldtest"
	"tollgate/schemas"
	"tollgate/tools/function"
)

// tools are what every story may call.
const tools = `  look.up: { function: look.up, effect: read, policies: [slow] }
  look.form: { function: look.form, effect: read, policies: [slow], schema: { type: object, required: [city], properties: { city: { type: string } } } }
  look.asked: { function: look.asked, effect: read, policies: [slow] }
  pay.keyed: { function: pay.keyed, effect: write, retry_safety: idempotency_key, key_retention: 24h, policies: [slow] }
  pay.never: { function: pay.never, effect: write, policies: [slow] }
  pay.asked: { function: pay.asked, effect: write, reconcile: look.asked, policies: [slow] }
`

var toolNames = []string{"look.up", "look.form", "look.asked", "pay.keyed", "pay.never", "pay.asked"}

// attemptTimeout is the policy's.
const attemptTimeout = 3 * time.Second

// play is one run of one story with one fault.
type play struct {
	t      *testing.T
	w      *worldtest.World
	f      *fault
	s      *story
	p      *process // the one that lives
	stage  *stage
	heard  *heard
	deaths int
}

// perform plays the story in a bubble and returns what became of it.
func perform(t *testing.T, s *story, f *fault) {
	natstest.Bubble(t, func(t *testing.T) {
		w := worldtest.Prepare(t, tools, nil, f.setup == embedded)
		w.Config += "dead_letters: { allow_edit: true }\n"
		w.AckWait, w.Sweep = 5*time.Second, 2*time.Second
		p := &play{t: t, w: w, f: f, s: s, stage: newStage(s, f)}
		p.heard = listen(t, w)
		p.start()
		t.Cleanup(w.Stop)
		f.armed.Store(true)
		s.steps(p)
		p.ends()
		f.armed.Store(false)
		p.holds()
	})
}

// start starts a process. One that a fault keeps from starting is started again, as
// a supervisor does.
func (p *play) start() {
	p.t.Helper()
	for tries := 1; ; tries++ {
		proc := &process{f: p.f, node: p.w.Node, dir: p.w.Dir, ledger: p.w.Ledger()}
		p.p, p.w.Provider, p.w.Commit = proc, proc, proc.commit
		p.w.Functions = map[string]function.Func{}
		for _, name := range toolNames {
			p.w.Functions[name] = proc.call(p.stage.play)
		}
		a, err := app.Start(context.Background(), p.w.Options())
		if err == nil {
			p.w.App = a
			return
		}
		if tries == 5 || !p.f.fired() {
			p.t.Fatalf("start %d: %v", tries, err)
		}
		if proc.isDead() {
			p.succeed()
		}
		time.Sleep(time.Second)
	}
}

// stop stops the process as SIGTERM does.
func (p *play) stop() {
	a := p.w.App
	a.Stop()
	err := a.Wait()
	p.w.App = nil
	if err != nil && !p.p.isDead() && !p.f.fired() {
		p.t.Errorf("stop: %v", err)
	}
	if p.p.isDead() {
		p.succeed()
	}
}

// succeed puts the world as the next process finds it after the death of this one.
func (p *play) succeed() {
	p.deaths++
	if p.w.App != nil {
		p.w.App.Stop() // of what the dead one still tries nothing gets through; it only takes time
	}
	p.w.CrashFrom(filepath.Join(p.p.left, "ledger.db"))
	if p.f.setup == embedded {
		time.Sleep(50 * time.Millisecond) // the old server has to miss its client first: see part
		p.w.Node.Stop()
		p.w.Node.StartOn(p.t, filepath.Join(p.p.left, "nats"))
		p.back()
	}
}

// back waits for the test's own connection.
func (p *play) back() {
	for end := time.Now().Add(10 * time.Second); !p.w.NC.IsConnected(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			p.t.Fatal("the test's own connection does not come back")
		}
	}
}

// tend does what the fault left to do: the next process, the server's restart.
func (p *play) tend() {
	p.t.Helper()
	select {
	case what := <-p.f.todo:
		if what == unschedule {
			p.w.Purge("TOLLGATE_RETRY", "tollgate.sched.>")
			break
		}
		p.p.part(true)
		time.Sleep(50 * time.Millisecond)
		p.w.Node.Restart(p.t, 2*time.Second)
		p.p.part(false)
		p.back()
	default:
	}
	if p.w.App != nil && p.p.isDead() {
		p.succeed()
		time.Sleep(300 * time.Millisecond)
		p.start()
	}
}

// until waits for ok, while the world is tended.
func (p *play) until(within time.Duration, what string, ok func() bool) {
	p.t.Helper()
	start := time.Now()
	for end := start.Add(within); ; time.Sleep(min(500*time.Millisecond, 10*time.Millisecond+time.Since(start)/20)) {
		p.tend()
		if ok() {
			return
		}
		if time.Now().After(end) {
			p.t.Fatalf("%s: not within %s; left: %s", what, within, p.left())
		}
	}
}

// pass lets time go by.
func (p *play) pass(d time.Duration) {
	end := time.Now().Add(d)
	p.until(d+time.Minute, "the time", func() bool { return !time.Now().Before(end) })
}

// publish is an agent's: with an embedded server that died it cannot know whether
// its message was kept, and sends it again under the same message ID.
func (p *play) publish(name string) {
	p.t.Helper()
	m := p.s.msg(name).Build()
	m.Header.Set(schemas.HeaderMessageID, name+strconv.FormatInt(time.Now().UnixNano(), 36))
	for tries := 1; ; tries++ {
		deaths := p.deaths
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		_, err := p.w.JS.PublishMsg(ctx, m)
		cancel()
		p.tend()
		if err == nil && (deaths == p.deaths || p.f.setup == apart) {
			return
		}
		if tries == 10 {
			p.t.Fatalf("publish %s: %v", name, err)
		}
	}
}

// outcome waits for a call's outcome of at least the given generation.
func (p *play) outcome(name string, generation int) *schemas.Outcome {
	p.t.Helper()
	var o *schemas.Outcome
	p.until(4*time.Minute, "outcome of "+name, func() bool {
		o = p.w.Stored(p.s.msg(name))
		return o != nil && o.Generation >= generation
	})
	return o
}

// show is what the ledger knows of a call, nil while nobody answers.
func (p *play) show(name string) *control.CallDetail {
	var d control.CallDetail
	if p.ask(control.VerbCallShow, control.IDQuery{ID: worldtest.CallID(p.s.msg(name))}, &d) != nil {
		return nil
	}
	return &d
}

// waiting waits until a call is between attempts or has ended.
func (p *play) waiting(name string) {
	p.t.Helper()
	p.until(time.Minute, name+" waits", func() bool {
		d := p.show(name)
		return d != nil && (d.State == "waiting" || d.Outcome != nil)
	})
}

func (p *play) ask(verb string, q, a any) error {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	return p.w.Ctl.Ask(ctx, verb, q, a)
}

// decide takes an operator's decision: where the answer does not come, the operator
// looks whether it was taken before taking it again.
func (p *play) decide(what string, do func(context.Context) error, taken func() bool) {
	p.t.Helper()
	p.until(2*time.Minute, what, func() bool {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		err := do(ctx)
		if err == nil {
			return true
		}
		p.pass(3 * time.Second)
		return taken()
	})
}

// request asks by request and reply, with the same key until a final answer comes.
func (p *play) request(name string) *schemas.Outcome {
	p.t.Helper()
	for range 10 {
		type reply struct {
			o   *schemas.Outcome
			err error
		}
		got := make(chan reply, 1)
		go func() {
			ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
			defer cancel()
			o, err := do(ctx, p.w.NC, p.s.msg(name))
			got <- reply{o, err}
		}()
		var r reply
		p.until(2*time.Minute, "a reply or none", func() bool {
			select {
			case r = <-got:
				return true
			default:
				return false
			}
		})
		if r.err == nil && r.o.Status != schemas.Rejected && r.o.Code() != schemas.CodeStillRunning {
			return r.o
		}
		p.pass(time.Second)
	}
	p.t.Fatalf("%s is never answered", name)
	return nil
}

func do(ctx context.Context, nc *nats.Conn, m worldtest.Msg) (*schemas.Outcome, error) {
	n := m.Build()
	n.Subject = "tollgate.do.default." + m.Tool
	r, err := nc.RequestMsgWithContext(ctx, n)
	if err != nil {
		return nil, err
	}
	return decode(r.Data)
}
