package main

import (
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
	"time"

	"tollgate/schemas"
)

func TestTheMixIsWhole(t *testing.T) {
	sum := 0
	for _, m := range mix {
		sum += m.share
	}
	if sum != 100 {
		t.Errorf("the shares make %d hundredths", sum)
	}
}

// The same seed makes the same calls, and the calls are of every kind.
func TestPlannedIsFixedBySeedAndMixed(t *testing.T) {
	if !reflect.DeepEqual(planned(7, 3), planned(7, 3)) || reflect.DeepEqual(planned(7, 3), planned(8, 3)) {
		t.Error("the seed does not decide the calls")
	}
	tools, calls := map[string]int{}, map[string]bool{}
	var jobs, requests, again, cancelled, small int
	count := func(n *int, is bool) {
		if is {
			*n++
		}
	}
	for i := range 500 {
		for _, s := range planned(7, i) {
			tools[s.tool]++
			if calls[s.call()] {
				t.Fatalf("%s is made twice", s.name())
			}
			calls[s.call()] = true
			count(&jobs, s.lane == schemas.Jobs)
			count(&requests, s.request)
			count(&again, s.again)
			count(&cancelled, s.cancel)
			count(&small, s.budget != "")
		}
	}
	if len(tools) != 5 || min(jobs, requests, again, cancelled, small) == 0 {
		t.Errorf("tools %v; %d jobs, %d requests, %d again, %d cancelled, %d of small runs", tools, jobs, requests, again, cancelled, small)
	}
}

// Every half hour has every kind of fault, in order, and one long life.
func TestScheduleHasEverything(t *testing.T) {
	for seed := range uint64(50) {
		all := schedule(rand.New(rand.NewPCG(seed, 0)), options{length: 30 * time.Minute, pace: 1})
		least := map[string]int{killDispatcher: 10, stopDispatcher: 2, killServer: 8, fullLedger: 5, fullServer: 5}
		for i, tr := range all {
			least[tr.kind]--
			if i > 0 && tr.at < all[i-1].at || tr.at >= 30*time.Minute {
				t.Fatalf("seed %d: %v is out of order", seed, tr)
			}
			if dispatcher := tr.kind == killDispatcher || tr.kind == stopDispatcher; dispatcher && tr.at > 12*time.Minute && tr.at < 21*time.Minute {
				t.Errorf("seed %d: the long life ends at %v", seed, tr.at)
			}
			if full := tr.kind == fullLedger || tr.kind == fullServer; full != (tr.length >= 5*time.Second && tr.length <= 10*time.Second) {
				t.Errorf("seed %d: %s for %v", seed, tr.kind, tr.length)
			}
		}
		for kind, n := range least {
			if n > 0 {
				t.Errorf("seed %d: too few times %q", seed, kind)
			}
		}
		if i := slices.IndexFunc(all, func(tr trouble) bool { return tr.kind == fullLedger }); all[i].at > 80*time.Second {
			t.Errorf("seed %d: the ledger has room until %v", seed, all[i].at)
		}
	}
}
