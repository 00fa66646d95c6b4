package console

import (
	"cmp"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"

	"tollgate/control"
	"tollgate/deadletter"
	"tollgate/schemas"
)

var deadActRoutes = map[string]handler{"GET /dead/act": deadAct, "POST /dead/act": deadDo}

// act is something to be done to many letters.
type act struct {
	Action, Verb, Word, Past string
	Effect                   string // what it does, and what not
	Class                    string // of its button
	Unsafe                   bool   // the number is typed, however small
	state                    schemas.LetterState
}

var acts = map[string]act{
	"discard": {Action: "discard", Verb: control.VerbDiscard, Word: "Discard", Past: "discarded", Class: "danger", state: schemas.LetterActive,
		Effect: "They are put aside and can be restored until they expire. Nothing is run."},
	"restore": {Action: "restore", Verb: control.VerbRestore, Word: "Restore", Past: "restored", Class: "primary", state: schemas.LetterDiscarded,
		Effect: "They become active again. Nothing is run."},
	"resolve": {Action: "resolve", Verb: control.VerbResolve, Word: "Resolve", Past: "resolved", Class: "primary", state: schemas.LetterActive, Unsafe: true,
		Effect: "You say what became of their effects. If they happened, the calls succeed and their agents are told so; if not, they may be replayed."},
}

// typedFrom is from how many letters on their number is typed.
const typedFrom = 100

// mostNamed is how many letters may be named in one address.
const mostNamed = 200

// actPage is the page that asks before something is done to many letters, or says what
// was done so far.
type actPage struct {
	act
	Named   bool // by their IDs, else by a filter
	Form    filterForm
	Hidden  []hidden
	Matched int
	Typed   bool // the number has to be typed
	Sample  []schemas.Letter
	Notice  string
	Back    string
	Verdict string
	Why     string
	Report  *actReport
}

// actReport is what a request has done.
type actReport struct {
	Done    int
	Refused map[string]int // by why
	Left    int
	Trouble string // why the rest was not tried
}

// deadAct shows what would be done, and does nothing. A replay has a page of its own.
func deadAct(v *visit) error {
	q := v.r.URL.Query()
	a, known := acts[q.Get("action")]
	if q.Get("scope") == "selected" {
		if len(q["id"]) == 0 {
			return &control.Failure{Problem: control.Problem{Code: http.StatusBadRequest, What: "no letter is selected, so there is nothing to do", Try: "go back and select some, or choose all that match"}}
		}
		q = url.Values{"id": q["id"], "action": q["action"]}
	} else {
		q.Del("id")
	}
	if q.Get("action") == "replay" {
		q.Del("action")
		q.Del("scope")
		http.Redirect(v.w, v.r, at("/replay/new", q), http.StatusSeeOther)
		return nil
	}
	if !known {
		return errMissing
	}
	return v.askAct(a, q, actPage{})
}

// askAct shows the page for a scope, which it freezes unless it is frozen already.
func (v *visit) askAct(a act, q url.Values, p actPage) error {
	p.act = a
	ids := q["id"]
	if len(ids) > mostNamed {
		return &control.Failure{Problem: control.Problem{Code: http.StatusBadRequest, What: fmt.Sprintf("%d letters are named, at most %d", len(ids), mostNamed), Try: "a filter that takes them"}}
	}
	carried := url.Values{"action": {a.Action}}
	if p.Named = len(ids) > 0; p.Named {
		carried["id"], p.Matched, p.Back = ids, len(ids), "/dead/list"
	} else {
		f, before, matched, err := v.freeze(q, a.state, &p.Sample)
		if err != nil {
			return err
		}
		carried = filterQuery(f)
		p.Form, p.Matched, p.Back = newFilterForm(carried, nil), matched, at("/dead/list", carried)
		carried.Set("action", a.Action)
		carried.Set("before", strconv.FormatUint(before, 10))
	}
	p.Typed = p.Report == nil && (p.Matched >= typedFrom || a.Unsafe)
	carried.Set("shown", strconv.Itoa(p.Matched))
	if !p.Typed {
		carried.Set("count", strconv.Itoa(p.Matched))
	}
	if p.Report != nil { // the decision stands for the rest
		carried.Set("why", p.Why)
		carried.Set("verdict", p.Verdict)
	}
	p.Hidden = hiddenFields(carried)
	return v.show("deadact", a.Word+" dead letters", p)
}

// freeze fixes the set that a filter takes now, unless its address has fixed it before,
// and counts it. A filter without a state takes the letters that the action is for.
func (v *visit) freeze(q url.Values, state schemas.LetterState, sample *[]schemas.Letter) (f deadletter.Filter, before uint64, matched int, err error) {
	if f, err = readFilter(q, v.cfg.Now()); err != nil {
		return f, 0, 0, err
	}
	f.State, f.Sort = cmp.Or(f.State, string(state)), ""
	before, _ = strconv.ParseUint(q.Get("before"), 10, 64)
	asked := f
	asked.Before, asked.Limit = before, 5
	var page deadletter.Page
	if err = v.ask(control.VerbLetterList, asked, &page); err != nil {
		return f, 0, 0, err
	}
	if *sample, matched = page.Letters, page.Total; before == 0 {
		return f, page.Last + 1, matched, nil
	}
	matched, err = v.countUntil(f, before)
	return f, before, matched, err
}

// part is how many letters are named in one answer.
const part = 10000

// countUntil counts the letters of a filter that were stored before a sequence.
func (v *visit) countUntil(f deadletter.Filter, before uint64) (int, error) {
	f.Before = before
	ids, err := v.frozen(f)
	return len(ids), err
}

// frozen returns the IDs of the letters that match, the oldest first: what dies while they
// are read is not among them, since they are read backwards.
func (v *visit) frozen(f deadletter.Filter) ([]string, error) {
	f.Sort, f.Limit, f.State = "", part, cmp.Or(f.State, string(schemas.LetterActive))
	var ids []string
	for {
		var set control.LetterIDs
		if err := v.ask(control.VerbLetterIDs, f, &set); err != nil {
			return nil, err
		}
		ids = append(ids, set.IDs...)
		if f.Before = set.Next; set.Next == 0 {
			slices.Reverse(ids)
			return ids, nil
		}
	}
}
