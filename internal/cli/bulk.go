package cli

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"tollgate/control"
)

// bulk does one thing to many letters, at most so many a second, and shows how
// far it is. What has been done when it is interrupted stays done, and doing it
// again does the rest: every operation on a letter happens once.
type bulk struct {
	shell  *shell
	word   string
	limit  *rate.Limiter
	done   []string
	failed map[string]error
	fatal  error // nobody is there any more; the rest was not tried
}

// atOnce is how many requests are under way where no rate holds them back.
const atOnce = 8

// newBulk makes a bulk operation; perSecond 0 is no limit.
func newBulk(s *shell, word string, perSecond float64) *bulk {
	limit := rate.NewLimiter(rate.Inf, 0)
	if perSecond > 0 {
		limit = rate.NewLimiter(rate.Limit(perSecond), 1)
	}
	return &bulk{shell: s, word: word, limit: limit, failed: map[string]error{}}
}

func (b *bulk) run(ctx context.Context, ids []string, do func(id string) error) {
	p := b.shell.progress(b.word, len(ids))
	defer p.end()
	var mu sync.Mutex
	var wg sync.WaitGroup
	slots := make(chan struct{}, atOnce)
	finished := make(map[string]bool, len(ids))
	for _, id := range ids {
		if err := b.limit.Wait(ctx); err != nil {
			mu.Lock()
			b.fatal = context.Cause(ctx)
			mu.Unlock()
		}
		slots <- struct{}{}
		mu.Lock()
		stop := b.fatal != nil
		mu.Unlock()
		if stop {
			break
		}
		wg.Go(func() {
			err := do(id)
			mu.Lock()
			defer mu.Unlock()
			<-slots
			switch {
			case err == nil:
				finished[id] = true
			case !answered(err):
				b.fatal = err
			default:
				b.failed[id] = err
			}
			p.add(err == nil)
		})
	}
	wg.Wait()
	for _, id := range ids {
		if finished[id] {
			b.done = append(b.done, id)
		}
	}
}

// answered reports whether the dispatcher has said no, rather than nothing.
func answered(err error) bool {
	var f *control.Failure
	return errors.As(err, &f) && failureCode(f.Code) != exitUnreachable
}

// reasonOf is why a letter was left out, without its ID, so that equals add up.
func reasonOf(id string, err error) string {
	why := strings.TrimPrefix(err.Error(), "dead letter "+id+": ")
	why, _, _ = strings.Cut(why, "; try: ")
	return why
}

// parseRate reads 5/s, 5 or 300/m.
func parseRate(text string) (float64, error) {
	number, unit, _ := strings.Cut(text, "/")
	n, err := strconv.ParseFloat(number, 64)
	if err != nil || !(n > 0 && n <= 1e6) { // not a number is neither
		return 0, usage("--rate "+quoted(text)+" is not a rate", "--rate 5/s")
	}
	switch unit {
	case "", "s":
		return n, nil
	case "m":
		return n / 60, nil
	}
	return 0, usage("--rate "+quoted(text)+": the unit is s or m", "--rate 5/s")
}

// progress shows how far something is: a bar on a terminal, else a line now and then.
type progress struct {
	s           *shell
	word        string
	total       int
	done, wrong int
	began, last time.Time
	shown       bool
}

const (
	barAfter  = 500 * time.Millisecond
	barEvery  = 100 * time.Millisecond
	lineEvery = 10 * time.Second
	barWidth  = 24
)

func (s *shell) progress(word string, total int) *progress {
	now := time.Now()
	return &progress{s: s, word: word, total: total, began: now, last: now}
}

// add counts one. The caller sees to it that it is called by one at a time.
func (p *progress) add(ok bool) {
	p.done++
	if !ok {
		p.wrong++
	}
	now := time.Now()
	p.show(now, func() string { return p.text(now) })
}

// show draws how far it is, unless that was done a moment ago.
func (p *progress) show(now time.Time, text func() string) {
	if p.s.quiet || p.s.json {
		return
	}
	if p.s.errTTY && now.Sub(p.began) > barAfter && now.Sub(p.last) > barEvery {
		full := min(barWidth, barWidth*p.done/max(1, p.total))
		fmt.Fprintf(p.s.stderr, "\r%s%s %s\x1b[K", strings.Repeat("█", full), strings.Repeat("░", barWidth-full), safe(text()))
		p.last, p.shown = now, true
	}
	if !p.s.errTTY && now.Sub(p.last) > lineEvery {
		fmt.Fprintln(p.s.stderr, safe(text()))
		p.last = now
	}
}

func (p *progress) text(now time.Time) string {
	if p.total == 0 { // nobody knows
		return fmt.Sprintf("%d %s, %d not", p.done, p.word, p.wrong)
	}
	eta := time.Duration(float64(now.Sub(p.began)) / float64(max(1, p.done)) * float64(p.total-p.done))
	t := fmt.Sprintf("%d/%d %s", p.done, p.total, p.word)
	if p.wrong > 0 {
		t += fmt.Sprintf(", %d not", p.wrong)
	}
	return t + ", about " + brief(eta) + " left"
}

func (p *progress) end() {
	if p.shown {
		fmt.Fprint(p.s.stderr, "\r\x1b[K")
	}
}
