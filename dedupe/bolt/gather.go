package bolt

import "time"

const (
	// gap is how long a commit waits for the next change to share it, while changes
	// come together. Those that a commit answered come back together: without the wait
	// the first of them would pay two syncs alone and the others would queue behind it.
	gap = 300 * time.Microsecond
	// enough changes share a commit's syncs well: to wait for more gains little.
	enough = 32
	// patience is how often in a row waiting for more than ever came may bring nothing.
	patience = 3
	// probe is how many commits later it is tried again, and the period of a crowd.
	probe = 16
)

// gatherer takes what waits for a commit. On a disk that every commit has to wait
// for, fewer and larger ones leave it to the streams, which sync there too.
type gatherer struct {
	ops     <-chan *op
	before  int           // how many changes the commit before had
	took    time.Duration // and how long it took
	crowd   int           // the most changes that came together in the last period
	most    int           // and in this one
	vain    int           // how often in a row waiting for more than that brought nothing
	commits int
}

// take returns first and what comes with it. One change at a time waits for nobody.
//
// So many callers, each waiting for its answer, send so many changes and then none, and
// there is nothing to wait for once all have come: a timer for less than a millisecond
// takes one where the process has nothing else to do. Where changes come from callers
// without number, waiting for more pays each time.
func (g *gatherer) take(first *op) []*op {
	ops := g.drain([]*op{first})
	if g.before <= 1 && len(ops) == 1 {
		return ops
	}
	if g.commits++; g.commits%probe == 0 {
		g.crowd, g.most = g.most, 0
	}
	want, limit := g.before, gap
	if crowd := max(g.crowd, g.most); crowd < enough { // else a part of them is enough
		want, limit = max(want, crowd), gap+g.took
	}
	ops = g.wait(ops, want, time.Now().Add(limit))
	if n := len(ops); n >= want && n < enough && (g.vain < patience || g.commits%probe == 0) {
		ops = g.wait(ops, enough, time.Now().Add(g.took))
		if g.vain++; len(ops) > n {
			g.vain = 0
		}
	}
	g.most = max(g.most, len(ops))
	return ops
}

// drain takes what is there.
func (g *gatherer) drain(ops []*op) []*op {
	for len(ops) < maxBatch {
		select {
		case o := <-g.ops:
			ops = append(ops, o)
		default:
			return ops
		}
	}
	return ops
}

// wait waits for so many, until the time is up or none has come for a moment.
func (g *gatherer) wait(ops []*op, want int, until time.Time) []*op {
	for len(ops) < want {
		timer := time.NewTimer(min(gap, time.Until(until)))
		select {
		case o := <-g.ops:
			timer.Stop()
			ops = g.drain(append(ops, o))
		case <-timer.C:
			return ops
		}
	}
	return ops
}
