package bolt

import (
	"testing"
	"testing/synctest"
	"time"
)

// What a commit takes and how long it waits for it, by how changes come.
func TestACommitWaitsOnlyForChangesThatCome(t *testing.T) {
	for _, tc := range []struct {
		name   string
		g      gatherer
		every  time.Duration // between the changes that come while it waits
		come   int
		ops    int
		within time.Duration
	}{
		{"one change at a time waits for nobody", gatherer{before: 1, took: time.Millisecond}, 0, 0, 1, 0},
		{"as many as last time are waited for", gatherer{before: 3, took: time.Millisecond, vain: patience}, 100 * time.Microsecond, 9, 3, 200 * time.Microsecond},
		{"as many as came together of late are waited for", gatherer{before: 3, crowd: 5, took: time.Millisecond, vain: patience}, 100 * time.Microsecond, 9, 5, 400 * time.Microsecond},
		{"and all that there are wait for nobody else", gatherer{before: 3, most: 5, took: time.Millisecond, vain: patience}, 100 * time.Microsecond, 4, 5, 400 * time.Microsecond},
		{"when fewer come it is not asked whether there are more", gatherer{before: 8, took: 200 * time.Microsecond}, 400 * time.Microsecond, 9, 1, gap},
		{"but not for long", gatherer{before: 3, took: time.Millisecond, vain: patience}, time.Millisecond, 9, 1, gap},
		{"a flow shares the time a commit takes", gatherer{before: 2, took: 1100 * time.Microsecond}, 200 * time.Microsecond, 99, 7, 1300 * time.Microsecond},
		{"a gap in it ends the wait", gatherer{before: 2, took: 9 * time.Millisecond}, 200 * time.Microsecond, 3, 4, 600*time.Microsecond + gap},
		{"waiting in vain ends", gatherer{before: 2, took: time.Millisecond, vain: patience}, 200 * time.Microsecond, 99, 2, 200 * time.Microsecond},
		{"and is tried again", gatherer{before: 2, took: 1100 * time.Microsecond, vain: patience, commits: probe - 1}, 200 * time.Microsecond, 99, 7, 1300 * time.Microsecond},
		{"many share well as they are", gatherer{before: enough, took: time.Second}, 0, 99, 100, 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ops := make(chan *op, 128)
				tc.g.ops = ops
				done := make(chan bool)
				go func() {
					defer close(done)
					for range tc.come {
						time.Sleep(tc.every)
						ops <- &op{}
					}
				}()
				if tc.every == 0 {
					<-done
				}
				began := time.Now()
				if got := tc.g.take(&op{}); len(got) != tc.ops || time.Since(began) > tc.within {
					t.Errorf("%d changes after %s, want %d within %s", len(got), time.Since(began), tc.ops, tc.within)
				}
				<-done
			})
		})
	}
}
