package replays

import (
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"tollgate/dedupe"
)

func TestNext(t *testing.T) {
	running := dedupe.Replay{State: dedupe.ReplayRunning, InFlight: 10, StopAbove: 0.1}
	with := func(change func(*dedupe.Replay)) *dedupe.Replay {
		r := running
		change(&r)
		return &r
	}
	canary := with(func(r *dedupe.Replay) { r.Canary = 5 })
	passed := with(func(r *dedupe.Replay) { r.Canary, r.CanaryPassed = 5, true })
	paused := with(func(r *dedupe.Replay) { r.State = dedupe.ReplayPaused })
	cancelled := with(func(r *dedupe.Replay) { r.State = dedupe.ReplayCancelled })
	resumed := with(func(r *dedupe.Replay) { r.Judged = dedupe.ReplayTally{Replayed: 30, Succeeded: 10, DiedAgain: 20} })
	never := with(func(r *dedupe.Replay) { r.StopAbove = 1 })
	tally := func(replayed, ok, died int) dedupe.ReplayTally {
		return dedupe.ReplayTally{Replayed: replayed, Succeeded: ok, DiedAgain: died}
	}
	for name, tc := range map[string]struct {
		r     *dedupe.Replay
		tally dedupe.ReplayTally
		left  int
		want  Action
		n     int
	}{
		"the first":                         {&running, tally(0, 0, 0), 100, Send, 7},
		"fewer left than the rate allows":   {&running, tally(0, 0, 0), 3, Send, 3},
		"room in flight":                    {&running, tally(8, 0, 0), 100, Send, 2},
		"no room in flight":                 {&running, tally(10, 0, 0), 100, Wait, 0},
		"the last outcomes":                 {&running, tally(10, 7, 0), 0, Wait, 0},
		"all outcomes":                      {&running, tally(10, 7, 3), 0, Finish, 0},
		"nothing was left from the start":   {&running, tally(0, 0, 0), 0, Finish, 0},
		"paused":                            {paused, tally(3, 3, 0), 100, Wait, 0},
		"cancelled with open ones":          {cancelled, tally(3, 2, 0), 100, Wait, 0},
		"cancelled":                         {cancelled, tally(3, 2, 1), 100, Leave, 0},
		"the canary is small":               {canary, tally(0, 0, 0), 100, Send, 5},
		"the canary goes on":                {canary, tally(4, 4, 0), 100, Send, 1},
		"the canary is waited for":          {canary, tally(5, 4, 0), 100, Wait, 0},
		"the canary is well":                {canary, tally(5, 5, 0), 100, Pass, 0},
		"the canary died":                   {canary, tally(5, 4, 1), 100, Stop, 0},
		"the canary was all there is":       {canary, tally(5, 4, 1), 0, Finish, 0},
		"after the canary":                  {passed, tally(5, 4, 1), 100, Send, 7},
		"few outcomes are not judged":       {&running, tally(19, 0, 19), 100, Send, 7},
		"just as many as may die again":     {&running, tally(20, 18, 2), 100, Send, 7},
		"one more":                          {&running, tally(20, 17, 3), 100, Stop, 0},
		"one more, and nothing left":        {&running, tally(20, 17, 3), 0, Finish, 0},
		"what was seen is forgiven":         {resumed, tally(40, 15, 25), 100, Send, 7},
		"and what comes is judged":          {resumed, tally(50, 27, 23), 100, Stop, 0},
		"told never to stop":                {never, tally(100, 0, 100), 100, Send, 7},
		"the ledger has forgotten some":     {&running, dedupe.ReplayTally{Replayed: 5, Forgotten: 5}, 0, Finish, 0},
		"forgotten ones die of nothing":     {canary, dedupe.ReplayTally{Replayed: 5, Forgotten: 5}, 9, Pass, 0},
		"skipped ones are not the canary's": {canary, tally(2, 2, 0), 1, Send, 1},
	} {
		got := Next(Facts{Replay: tc.r, Tally: tc.tally, Left: tc.left, Ready: tc.left, Allowed: 7, AtOnce: 64})
		if got.Do != tc.want || got.N != tc.n {
			t.Errorf("%s: %s %d, want %s %d", name, got.Do, got.N, tc.want, tc.n)
		}
	}
}

// Whatever dies when: never more in flight than allowed, nothing after a canary that
// is not well, and an end at which everything is counted.
func TestNextComesToAnEnd(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := dedupe.Replay{State: dedupe.ReplayRunning, InFlight: rapid.IntRange(1, 30).Draw(t, "in flight"), Canary: rapid.IntRange(0, 12).Draw(t, "canary"),
			StopAbove: rapid.SampledFrom([]float64{0, 0.1, 0.5, 1}).Draw(t, "stop above")}
		all := rapid.IntRange(0, 200).Draw(t, "letters")
		deadly := rapid.IntRange(0, 100).Draw(t, "per cent that die")
		left, tally, died := all, dedupe.ReplayTally{}, 0
		for steps := 0; ; steps++ {
			if steps > 10*all+100 {
				t.Fatalf("no end: %+v, %d left", tally, left)
			}
			s := Next(Facts{Replay: &r, Tally: tally, Left: left, Ready: left, Allowed: rapid.IntRange(0, 20).Draw(t, "allowed"), AtOnce: 16})
			switch s.Do {
			case Send:
				left -= s.N
				tally.Replayed += s.N
			case Wait:
				if tally.Open() > 0 {
					if rapid.IntRange(0, 99).Draw(t, "fate") < deadly {
						tally.DiedAgain++
						died++
					} else {
						tally.Succeeded++
					}
				}
			case Pass:
				r.CanaryPassed = true
			case Stop:
				if r.StopAbove == 1 || died == 0 || left == 0 {
					t.Fatalf("stopped with %+v, %d left", tally, left)
				}
				return
			case Finish:
				if left != 0 || tally.Replayed != all || tally.Open() != 0 {
					t.Fatalf("finished with %+v, %d left", tally, left)
				}
				return
			}
			if tally.Open() > r.InFlight || left < 0 || r.Canary > 0 && !r.CanaryPassed && tally.Replayed > r.Canary {
				t.Fatalf("%+v, %d left of %d, canary %d %v", tally, left, all, r.Canary, r.CanaryPassed)
			}
		}
	})
}

func TestLookAgain(t *testing.T) {
	for age, want := range map[time.Duration]time.Duration{
		0: 30 * time.Millisecond, time.Second: 500 * time.Millisecond, time.Hour: 2 * time.Second, -time.Hour: 2 * time.Second, // set back
	} {
		if got := LookAgain(age); got != want {
			t.Errorf("after %s: in %s, want %s", age, got, want)
		}
	}
}

func TestScopeInWords(t *testing.T) {
	q := Query{}
	if got := q.scope(); got != "every active letter" {
		t.Error(got)
	}
	q.Filter.Tool, q.Filter.Group, q.Filter.Before = "crm.*", "g-1", 77
	if got := q.scope(); got != "group=g-1 tool=crm.*" {
		t.Error(got)
	}
	q.IDs = []string{"x.0"}
	if got := q.scope(); got != "letters named by ID" {
		t.Error(got)
	}
}

func TestABadQueryIsRefusedWithAllItsMistakes(t *testing.T) {
	share := 1.5
	q := Query{Name: "a b", Rate: -1, InFlight: -1, Canary: -1, StopAbove: &share}
	q.Filter.Reason = "nonsense"
	err := q.check()
	for _, part := range []string{"name", "rate", "in_flight", "canary", "stop_above", "reason"} {
		if err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("%s is not in %v", part, err)
		}
	}
	if err := (&Query{}).check(); err != nil {
		t.Error(err)
	}
}
