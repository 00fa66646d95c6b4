package replays

import (
	"fmt"
	"math"
	"time"

	"tollgate/dedupe"
)

// Action is what a bulk replay does next. Zero is invalid.
type Action uint8

// The actions.
const (
	Send   Action = iota + 1 // replay so many letters now
	Wait                     // for an outcome, the rate, or an operator
	Pass                     // the canary is well: go on with the rest
	Stop                     // too many died again
	Finish                   // every letter was replayed or skipped, and has its outcome
	Leave                    // it is over, and there is nothing more to count
)

func (a Action) String() string {
	return [...]string{"", "send", "wait", "pass", "stop", "finish", "leave"}[a]
}

// sample is how many outcomes the stop rule wants to see before it judges: the first
// letter that dies again says little about the others. A canary says how many it wants.
const sample = 20

// Facts are what the next step depends on.
type Facts struct {
	Replay  *dedupe.Replay
	Tally   dedupe.ReplayTally
	Left    int // letters that were neither replayed nor skipped
	Ready   int // of these, those that may be tried now
	Allowed int // that the rate allows now
	AtOnce  int // most letters in one step
}

// Step is what is to be done.
type Step struct {
	Do  Action
	N   int    // of Send
	Why string // of Stop and Pass
}

// Next decides. First match wins:
//
//	it is over and nothing is open           leave
//	it is not running                        wait
//	nothing is left and nothing open         finish
//	the canary has all its outcomes          pass, or stop
//	enough outcomes, and too many are bad    stop
//	nothing is left, or may be tried         wait
//	the canary was replayed                  wait
//	in flight, or the rate                   wait
//	otherwise                                send
func Next(f Facts) Step {
	r, open := f.Replay, f.Tally.Open()
	canary := r.Canary > 0 && !r.CanaryPassed
	died, settled := outcomes(f.Tally, r.Judged)
	room := min(f.Ready, f.Allowed, f.AtOnce, r.InFlight-open)
	switch {
	case r.State.Terminal() && open == 0:
		return Step{Do: Leave}
	case r.State != dedupe.ReplayRunning:
		return Step{Do: Wait}
	case f.Left == 0 && open == 0:
		return Step{Do: Finish}
	case canary && f.Tally.Replayed >= r.Canary && open == 0:
		return judge(died, settled, r.StopAbove)
	case !canary && f.Left > 0 && settled >= sample && tooMany(died, settled, r.StopAbove):
		return Step{Do: Stop, Why: fmt.Sprintf("%d of %d outcomes died again, more than %s", died, settled, percent(r.StopAbove))}
	case canary:
		room = min(room, r.Canary-f.Tally.Replayed)
	}
	if room < 1 {
		return Step{Do: Wait}
	}
	return Step{Do: Send, N: room}
}

func judge(died, settled int, above float64) Step {
	if tooMany(died, settled, above) {
		return Step{Do: Stop, Why: fmt.Sprintf("%d of the canary's %d died again, more than %s", died, settled, percent(above))}
	}
	return Step{Do: Pass, Why: fmt.Sprintf("%d of the canary's %d died again, not more than %s", died, settled, percent(above))}
}

// outcomes are those that count: what an operator has seen and gone on from does not.
func outcomes(t, judged dedupe.ReplayTally) (died, settled int) {
	died = t.DiedAgain - judged.DiedAgain
	return died, died + t.Succeeded - judged.Succeeded
}

func tooMany(died, settled int, above float64) bool {
	return float64(died) > above*float64(settled)
}

func percent(share float64) string { return fmt.Sprintf("%g %%", math.Round(share*10000)/100) }

// LookAgain is how long to wait before a letter without an outcome is looked at again,
// by how long it is under way: soon at first, since most end soon. Where the clock was set
// back nobody knows how long that is: it may be any age.
func LookAgain(age time.Duration) time.Duration {
	const seldom = 2 * time.Second
	if age < 0 {
		return seldom
	}
	return min(max(age/2, 30*time.Millisecond), seldom)
}
