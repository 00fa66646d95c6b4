package console

import (
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
	"tollgate/control"
	"tollgate/deadletter"
	"tollgate/schemas"
)

// deadDo does what was shown, for as long as one request may take. What is left is said,
// with a button that goes on.
func deadDo(v *visit) error {
	q := v.r.PostForm
	a, known := acts[q.Get("action")]
	if !known {
		return errMissing
	}
	if !v.user.Role.May(a.Verb) {
		return v.ask(a.Verb, control.LetterQuery{ID: q.Get("id"), Why: q.Get("why")}, &struct{}{}) // refused there, and written down
	}
	p := actPage{Why: q.Get("why"), Verdict: q.Get("verdict")}
	if a.Action == "resolve" && !slices.Contains([]string{"happened", "did_not_happen", "undetermined"}, p.Verdict) {
		p.Notice = "Nothing was done: say what became of the effects."
		return v.askAct(a, q, p)
	}
	ids, f, matched, err := v.scope(a, q)
	if err != nil {
		return err
	}
	switch {
	case matched != wholeNumber(q, "shown"):
		p.Notice = fmt.Sprintf("Nothing was done: %s were shown, and the set has %d now. Look again, and decide again.", q.Get("shown"), matched)
	case strings.TrimSpace(q.Get("count")) != strconv.Itoa(matched):
		p.Notice = fmt.Sprintf("Nothing was done: the number to type is %d.", matched)
	}
	if p.Notice != "" {
		return v.askAct(a, q, p)
	}
	do := func(id string) error { return v.actOn(a, id, p.Why, p.Verdict) }
	r := &actReport{Refused: map[string]int{}}
	until := time.Now().Add(v.cfg.ActFor)
	if len(ids) > 0 {
		q["id"] = v.doEach(ids, do, r, until)
	} else {
		left, err := v.doAll(f, do, r, until)
		if err != nil && r.Done == 0 {
			return err
		}
		q.Set("before", strconv.FormatUint(left, 10))
	}
	r.Left = matched - r.Done - r.total()
	if r.Left > 0 || r.Trouble != "" {
		p.Report = r
		return v.askAct(a, q, p)
	}
	return v.done(listAfter(f, len(ids) > 0), r.sentence(a.Past))
}

// listAfter is the list to go back to.
func listAfter(f deadletter.Filter, named bool) string {
	if named {
		return "/dead/list"
	}
	f.Before = 0
	return at("/dead/list", filterQuery(f))
}

// scope reads what a form was shown for, and how many letters that are now.
func (v *visit) scope(a act, q url.Values) (ids []string, f deadletter.Filter, matched int, err error) {
	if ids = q["id"]; len(ids) > 0 {
		return ids, f, len(ids), nil
	}
	var sample []schemas.Letter
	f, before, matched, err := v.freeze(q, a.state, &sample)
	f.Before = before
	return nil, f, matched, err
}

// atOnce is how many letters are decided about together.
const atOnce = 128

// doAll does something to every letter of a frozen filter, part by part, the newest
// first, and returns where what is left begins.
func (v *visit) doAll(f deadletter.Filter, do func(id string) error, r *actReport, until time.Time) (left uint64, err error) {
	for f.Limit = 500; ; {
		var set control.LetterIDs
		if err := v.ask(control.VerbLetterIDs, f, &set); err != nil {
			r.Trouble = err.Error()
			return f.Before, err
		}
		if v.doEach(set.IDs, do, r, time.Time{}); r.Trouble != "" {
			return f.Before, nil
		}
		if f.Before = set.Next; set.Next == 0 || time.Now().After(until) {
			return f.Before, nil
		}
	}
}

// doEach does something to letters and returns those that were not tried: it is late (a
// zero until is never), or nobody answers any more. The first are tried however late it
// is: a request that does nothing would never come to an end.
func (v *visit) doEach(ids []string, do func(id string) error, r *actReport, until time.Time) (left []string) {
	for batch := range slices.Chunk(ids, atOnce) {
		if r.Trouble != "" || r.Done+r.total() > 0 && !until.IsZero() && time.Now().After(until) {
			left = append(left, batch...)
			continue
		}
		errs := make([]error, len(batch))
		var wg sync.WaitGroup
		for i, id := range batch {
			wg.Go(func() { errs[i] = do(id) })
		}
		wg.Wait()
		for i, err := range errs {
			if !r.count(batch[i], err) {
				left = append(left, batch[i])
			}
		}
	}
	return left
}

// count counts what became of one letter, and reports false for one that nobody has
// answered for.
func (r *actReport) count(id string, err error) bool {
	var f *control.Failure
	switch {
	case err == nil:
		r.Done++
	case errors.As(err, &f) && f.Code != http.StatusServiceUnavailable:
		r.Refused[strings.TrimPrefix(f.What, "dead letter "+id+": ")]++
	default:
		r.Trouble = err.Error()
		return false
	}
	return true
}

func (r *actReport) total() int {
	n := 0
	for _, of := range r.Refused {
		n += of
	}
	return n
}

// sentence says what was done, and what was not and why.
func (r *actReport) sentence(past string) string {
	s := fmt.Sprintf("%d %s.", r.Done, past)
	for _, why := range slices.Sorted(maps.Keys(r.Refused)) {
		s += fmt.Sprintf(" %d not: %s.", r.Refused[why], why)
	}
	return s
}

// actOn does one thing to one letter.
func (v *visit) actOn(a act, id, why, verdict string) error {
	if a.Action == "resolve" {
		return v.ask(a.Verb, control.ResolveQuery{ID: id, ResolveOptions: deadletter.ResolveOptions{Verdict: deadletter.Verdict(verdict), Why: why}}, &control.Done{})
	}
	return v.ask(a.Verb, control.LetterQuery{ID: id, Why: why}, &control.Done{})
}

// forbidden refuses what the user's role may not.
func (v *visit) forbidden(verb string) error {
	p := page{User: v.user}
	return &control.Failure{Problem: control.Problem{Code: http.StatusForbidden, What: "nothing was done: this " + p.WhyNot(verb)}}
}
