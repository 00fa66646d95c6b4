package bolt_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"tollgate/budget"
	"tollgate/dedupe"
	"tollgate/dedupe/bolt"
	"tollgate/dispatcher"
	"tollgate/dispatcher/classify"
	"tollgate/schemas"
)

const (
	linearRuns    = 10
	linearKeys    = 90 // of a run
	linearWorkers = 12
	linearRounds  = 450 // of a worker
	attemptsLimit = 80  // of an account, before grants
	effectsLimit  = 60
)

// handling is one delivery on its way through the dispatcher. It travels in the
// context, so that the tool and the publisher can say what they saw of it.
type handling struct {
	from, claimed, ended int64
	attempt              int
	notSent              bool
	carrier              uint64 // that its settle named
}

type handlingKey struct{}

// retry is an armed carrier that somebody will deliver.
type retry struct {
	key   string
	child int
	token uint64
}

// arena is a dispatcher on a real ledger file, hammered by goroutines, and the
// histories of what came of it.
type arena struct {
	*dispatcher.Dispatcher
	ledger   *bolt.Ledger
	start    time.Time
	sequence atomic.Uint64

	mu      sync.Mutex // guards what follows
	keys    map[string][]porcupine.Operation
	runs    map[string][]porcupine.Operation
	retries []retry
}

func newArena(t *testing.T) *arena {
	l, err := bolt.Open(filepath.Join(t.TempDir(), "ledger.db"), bolt.Options{Retention: time.Hour, Create: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	a := &arena{ledger: l, start: time.Now(), keys: map[string][]porcupine.Operation{}, runs: map[string][]porcupine.Operation{}}
	a.Dispatcher = dispatcher.New(dispatcher.Config{Catalogue: a, Ledger: l, Publisher: a, Requests: a})
	return a
}

func (a *arena) now() int64 { return time.Since(a.start).Nanoseconds() }

// The catalogue: one write that may be repeated.
func (a *arena) Tool(string) (*dispatcher.Tool, bool) {
	return &dispatcher.Tool{Name: "pay", Effect: dedupe.Write, Safety: dedupe.Idempotent, Dependency: "it", Concurrency: linearWorkers,
		JobsShare: 1, Policies: map[schemas.Lane][]string{schemas.Calls: {"p"}}, Executor: a}, true
}

func (a *arena) Policy(string) (dispatcher.Policy, bool) {
	return dispatcher.Policy{Name: "p", Attempts: 4, Timeout: time.Minute, BackoffBase: time.Millisecond, BackoffCap: 2 * time.Millisecond,
		ThrottleBase: time.Millisecond, MaxRetryAfter: time.Minute, MaxDeadline: time.Hour,
		Run: budget.Maxima{Attempts: attemptsLimit, SideEffects: effectsLimit, Elapsed: time.Hour, Accounts: 8}}, true
}

func (a *arena) Dependency(string) (dispatcher.Dependency, bool) {
	return dispatcher.Dependency{Name: "it", Quota: budget.QuotaLimits{Ratio: 1, Burst: 1e9}}, true
}

func (a *arena) Allowed(string, string) bool { return true }

// Execute is the tool: it ends one way or another, after a moment.
func (a *arena) Execute(ctx context.Context, in dispatcher.Invocation) classify.Verdict {
	h := ctx.Value(handlingKey{}).(*handling)
	h.claimed, h.attempt = a.now(), in.Attempt
	time.Sleep(time.Duration(rand.IntN(1000)) * time.Microsecond)
	defer func() { h.ended = a.now() }()
	switch rand.IntN(5) {
	case 0:
		h.notSent = true
		return classify.Unsent("DIAL", "nobody there")
	case 1, 2:
		return classify.Verdict{Class: classify.Transient, Phase: classify.Answered, Code: "BUSY"}
	}
	return classify.Success(nil, nil)
}

// The publisher: everything is stored at once, and carriers wait to be delivered.
func (a *arena) Slot(ctx context.Context, r *dedupe.Record) error {
	if r.Slot == dedupe.SlotSchedule {
		ctx.Value(handlingKey{}).(*handling).carrier = r.Token
		a.mu.Lock()
		defer a.mu.Unlock()
		child := 1
		if r.Run == r.Root+"/2" {
			child = 2
		}
		a.retries = append(a.retries, retry{key: r.Root + " " + r.Key, child: child, token: r.Token})
	}
	return nil
}

func (a *arena) Result(number uint64, _ string, _ *schemas.Outcome) {
	if number != 0 {
		a.ledger.Published(dedupe.Publication{Result: number})
	}
}
func (a *arena) Audit([]dedupe.Audit) {}
func (a *arena) Refused(context.Context, dispatcher.Delivery, *schemas.Outcome, string) error {
	return errors.New("nothing here is refused")
}
func (a *arena) Fetch(context.Context, schemas.Origin) (schemas.Request, error) {
	return schemas.Request{}, dedupe.ErrNotFound
}

// deliver hands one message to the dispatcher and enters what came of it.
func (a *arena) deliver(root, key string, child int, token uint64) {
	h := &handling{from: a.now()}
	dl := dispatcher.Delivery{Lane: schemas.Calls, Tenant: "t", Tool: "pay", Body: []byte("{}"), Retry: token != 0, Token: token,
		Origin: schemas.Origin{Stream: "S", Subject: "s", Sequence: a.sequence.Add(1), Time: time.Now()},
		Header: schemas.Header{schemas.HeaderRun: {root + "/" + strconv.Itoa(child)}, schemas.HeaderKey: {key},
			schemas.HeaderDeadline: {time.Now().Add(30 * time.Minute).Format(time.RFC3339Nano)}}}
	s := a.Handle(context.WithValue(context.Background(), handlingKey{}, h), dl)
	a.enter(root, root+" "+key, child, token, h, s)
}

// enter writes the delivery's steps into the histories: each happened at some instant
// between the two given.
func (a *arena) enter(root, key string, child int, token uint64, h *handling, s dispatcher.Settlement) {
	end := a.now()
	a.mu.Lock()
	defer a.mu.Unlock()
	step := func(of map[string][]porcupine.Operation, name string, from, to int64, in any) {
		of[name] = append(of[name], porcupine.Operation{Input: in, Call: from, Return: to})
	}
	full := ""
	if s.Outcome != nil && !s.Outcome.Repeated && s.Outcome.Code() == schemas.CodeRunBudget {
		full = s.Outcome.Error.Reason
	}
	switch {
	case h.attempt > 0:
		step(a.keys, key, h.from, h.claimed, claimed{token, h.attempt})
		step(a.runs, root, h.from, h.claimed, charged{child})
		step(a.runs, root, h.ended, end, ended{child, h.notSent, s.Outcome == nil, full})
		if s.Outcome != nil {
			step(a.keys, key, h.ended, end, concluded{s.Outcome.ID})
		} else {
			step(a.keys, key, h.ended, end, armed{h.carrier})
		}
	case s.Outcome != nil && s.Outcome.Repeated:
		step(a.keys, key, h.from, end, repeated{s.Outcome.ID})
	case s.Outcome != nil:
		step(a.keys, key, h.from, end, unrun{token, s.Outcome.ID})
		step(a.runs, root, h.from, end, refused{child, full})
	case s.Pending:
		step(a.keys, key, h.from, end, attached{})
	case token != 0: // before its time
		a.retries = append(a.retries, retry{key, child, token})
	}
}

// grant raises an account as the operators' verb does, if there is such an account.
func (a *arena) grant(root string, account int, g budget.Grant) {
	path := root
	if account > 0 {
		path += "/" + strconv.Itoa(account)
	}
	from, done := a.now(), false
	_, err := a.ledger.Update(context.Background(), dedupe.Ref{Tenant: "t", Root: root}, func(v dedupe.View) dedupe.Change {
		if done = v.Run != nil && v.Run.Grant(path, g); !done {
			return dedupe.Change{}
		}
		return dedupe.Change{Run: v.Run}
	})
	if err != nil || !done {
		return
	}
	to := a.now()
	a.mu.Lock()
	defer a.mu.Unlock()
	a.runs[root] = append(a.runs[root], porcupine.Operation{Input: granted{account, g.Attempts, g.SideEffects}, Call: from, Return: to})
}

// look reads a run that has all its accounts.
func (a *arena) look(root string) {
	from := a.now()
	run, err := a.ledger.Run("t", root)
	to := a.now()
	if err != nil || len(run.Accounts) < 3 {
		return
	}
	var seen accounts
	for i, p := range []string{root, root + "/1", root + "/2"} {
		x := run.Accounts[p]
		seen.attempts[i], seen.attemptsLimit[i], seen.effects[i], seen.effectsLimit[i] = x.Attempts, x.Limits.Attempts, x.Effects, x.Limits.SideEffects
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.runs[root] = append(a.runs[root], porcupine.Operation{Input: read{seen}, Call: from, Return: to})
}

// carrier takes an armed retry, and sometimes leaves it to be delivered once more.
func (a *arena) carrier(draw *rand.Rand) (r retry, ok bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.retries) == 0 {
		return r, false
	}
	i := draw.IntN(len(a.retries))
	r = a.retries[i]
	if draw.IntN(4) > 0 {
		a.retries = slices.Delete(a.retries, i, i+1)
	}
	return r, true
}

// work is one goroutine's part. Its place moves through the runs, so that all are at
// the same few keys at a time.
func (a *arena) work(draw *rand.Rand) {
	for round := range linearRounds {
		root := fmt.Sprintf("run%d", round*linearRuns/linearRounds)
		switch n := draw.IntN(20); {
		case n == 0:
			a.grant(root, draw.IntN(3), budget.Grant{Attempts: draw.IntN(3), SideEffects: draw.IntN(2), Why: "more"})
		case n == 1:
			a.look(root)
		case n < 9:
			if r, ok := a.carrier(draw); ok {
				var of, key string
				_, _ = fmt.Sscanf(r.key, "%s %s", &of, &key)
				a.deliver(of, key, r.child, r.token)
			}
		default:
			key := draw.IntN(linearKeys)
			a.deliver(root, fmt.Sprintf("k%d", key), 1+key%2, 0)
		}
	}
}

// I3, I2: whatever races, claims of a key and charges to accounts are as if they had
// come one after the other, each at some instant while it was asked for.
func TestI3ClaimsAndAccountsAreLinearizable(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d of what is asked for; what the goroutines make of it is their own", seed)
	a := newArena(t)
	var wg sync.WaitGroup
	for i := range linearWorkers {
		wg.Go(func() { a.work(rand.New(rand.NewPCG(seed, uint64(i)))) })
	}
	wg.Wait()
	met := map[string]int{}
	check(t, a.keys, sequential(keyState{}), met)
	check(t, a.runs, sequential(opened()), met)
	t.Logf("%d keys, %d runs: %v", len(a.keys), len(a.runs), met)
	for _, kind := range []any{claimed{}, armed{}, concluded{}, unrun{}, attached{}, repeated{}, charged{}, ended{}, refused{}, granted{}, read{}} {
		if met[fmt.Sprintf("%T", kind)] == 0 {
			t.Errorf("no %T happened: the test saw nothing of it", kind)
		}
	}
}

func opened() accounts {
	return accounts{attemptsLimit: [3]int{attemptsLimit, attemptsLimit, attemptsLimit}, effectsLimit: [3]int{effectsLimit, effectsLimit, effectsLimit}}
}

func check(t *testing.T, histories map[string][]porcupine.Operation, m porcupine.Model, met map[string]int) {
	t.Helper()
	for name, history := range histories {
		for _, op := range history {
			met[fmt.Sprintf("%T", op.Input)]++
		}
		if got := porcupine.CheckOperationsTimeout(m, history, time.Minute); got != porcupine.Ok {
			t.Errorf("%s: %s:", name, got)
			for _, op := range history {
				t.Errorf("  %d to %d: %s", op.Call, op.Return, m.DescribeOperation(op.Input, nil))
			}
		}
	}
}

// The checkers themselves: what must not happen is refused.
func TestI3LinearizabilityCheckersRefuse(t *testing.T) {
	op := func(from, to int64, in any) porcupine.Operation {
		return porcupine.Operation{Input: in, Call: from, Return: to}
	}
	keys, runs := sequential(keyState{}), sequential(opened())
	one := opened()
	one.attemptsLimit, one.effectsLimit = [3]int{1, 9, 9}, [3]int{9, 9, 9}
	small := sequential(one)
	for name, tc := range map[string]struct {
		model   porcupine.Model
		history []porcupine.Operation
		ok      bool
	}{
		"a call's life":                    {keys, []porcupine.Operation{op(0, 1, claimed{0, 1}), op(2, 3, armed{7}), op(4, 5, claimed{7, 2}), op(4, 6, attached{}), op(7, 8, concluded{"a"}), op(9, 10, repeated{"a"})}, true},
		"two hold a key":                   {keys, []porcupine.Operation{op(0, 5, claimed{0, 1}), op(1, 6, claimed{0, 1}), op(7, 8, concluded{"a"})}, false},
		"an old carrier claims":            {keys, []porcupine.Operation{op(0, 1, claimed{0, 1}), op(2, 3, armed{7}), op(4, 5, claimed{6, 2})}, false},
		"a carrier claims twice":           {keys, []porcupine.Operation{op(0, 1, claimed{0, 1}), op(2, 3, armed{7}), op(4, 5, claimed{7, 2}), op(4, 6, claimed{7, 2})}, false},
		"two outcomes":                     {keys, []porcupine.Operation{op(0, 1, claimed{0, 1}), op(2, 3, concluded{"a"}), op(4, 5, repeated{"b"})}, false},
		"an answer before there is one":    {keys, []porcupine.Operation{op(0, 1, repeated{"a"}), op(2, 3, claimed{0, 1}), op(4, 5, concluded{"a"})}, false},
		"siblings both spend the last one": {small, []porcupine.Operation{op(0, 5, charged{1}), op(1, 6, charged{2})}, false},
		"one of them is refused":           {small, []porcupine.Operation{op(0, 5, charged{1}), op(1, 6, refused{2, "attempts"})}, true},
		"refused with room left":           {runs, []porcupine.Operation{op(0, 5, refused{1, "attempts"})}, false},
		"a stale read":                     {small, []porcupine.Operation{op(0, 1, charged{1}), op(2, 3, read{one})}, false},
		"a grant that is lost":             {small, []porcupine.Operation{op(0, 1, charged{1}), op(2, 3, granted{0, 1, 0}), op(4, 5, refused{1, "attempts"})}, false},
		"a refund that is lost":            {small, []porcupine.Operation{op(0, 1, charged{1}), op(2, 3, ended{child: 1, refund: true, full: "attempts"}), op(4, 5, read{after(one, 1, 1)})}, false},
	} {
		if got := porcupine.CheckOperations(tc.model, tc.history); got != tc.ok {
			t.Errorf("%s: linearizable %t", name, got)
		}
	}
}

// after is the accounts once the first child was charged and nothing given back.
func after(s accounts, attempts, effects int) accounts {
	for _, i := range []int{0, 1} {
		s.attempts[i] += attempts
		s.effects[i] += effects
	}
	return s
}
