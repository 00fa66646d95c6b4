package console

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"time"

	"tollgate/control"
	"tollgate/deadletter"
	"tollgate/schemas"
)

var letterRoutes = map[string]handler{"GET /dead/{id}": letter, "POST /dead/{id}/replay": letterReplay, "POST /dead/{id}/resolve": letterResolve,
	"POST /dead/{id}/discard": letterDiscard, "POST /dead/{id}/restore": letterRestore, "POST /dead/{id}/note": letterNote, "POST /dead/{id}/purge": letterPurge}

// letterPage is what the page of one letter shows.
type letterPage struct {
	schemas.Letter
	Meaning    string
	Error      *schemas.Error // the outcome's, whole
	Result     string         // what the tool answered, if it did
	Query      string         // of the filter it was come to by: "" or ?…
	List       string
	Newer      string // its neighbours within the filter; "": there is none
	Older      string
	Group      string
	Run        string
	Replayable bool
	Unknown    bool
	Size       string
	Downstream string // the key that its tool was given, to ask about it
	Refusal    bool   // it never was a call
}

// letter shows everything of one letter.
func letter(v *visit) error {
	q := v.r.URL.Query()
	f, err := readFilter(q, v.cfg.Now())
	if err != nil {
		return err
	}
	p := letterPage{Query: at("", filterQuery(f)), List: at("/dead/list", filterQuery(f))}
	if err := v.ask(control.VerbLetterShow, control.IDQuery{ID: v.r.PathValue("id")}, &p.Letter); err != nil {
		return err
	}
	l := &p.Letter
	p.Meaning, p.Unknown = deadletter.Meaning(l.Reason), l.Reason == schemas.ReasonUnknownOutcome
	p.Refusal = l.Reason == schemas.ReasonMalformed || l.Reason == schemas.ReasonRejected
	p.Replayable = !p.Refusal && !l.BodyLost
	p.Group = at("/dead/list", url.Values{"group": {l.Fingerprint}})
	p.Run = at("/runs/"+url.PathEscape(schemas.Root(l.Run)), url.Values{"tenant": {l.Tenant}})
	p.Size = fmt.Sprintf("%d bytes", len(l.Arguments))
	if l.ArgsBytes > 0 {
		p.Size = fmt.Sprintf("the first %d of %d bytes", len(l.Arguments), l.ArgsBytes)
	}
	if o := l.Outcome; o != nil {
		p.Error, p.Result = o.Error, result(o)
	}
	if p.Downstream, err = v.downstream(l.Call); err != nil {
		return err
	}
	if p.Newer, err = v.neighbour(f, l.Sequence, true); err == nil {
		p.Older, err = v.neighbour(f, l.Sequence, false)
	}
	if err != nil {
		return err
	}
	return v.show("letter", "Dead letter "+short(l.ID)+" of "+l.Tool, p)
}

// downstream is the key that a call's tool was given; "" when nobody remembers the call.
func (v *visit) downstream(call string) (string, error) {
	var d control.CallDetail
	var gone *control.Failure
	if err := v.ask(control.VerbCallShow, control.IDQuery{ID: call}, &d); err != nil && !errors.As(err, &gone) {
		return "", err
	}
	return d.DownstreamKey, nil
}

// result is what an outcome holds besides its error.
func result(o *schemas.Outcome) string {
	if o.Structured != nil {
		return string(o.Structured)
	}
	var texts []string
	for _, c := range o.Content {
		if o.Error == nil || c.Text != o.Error.Message {
			texts = append(texts, c.Text)
		}
	}
	return strings.Join(texts, "\n")
}

// neighbour is the address of the letter before or after one within a filter, in the
// order of the list. Where the letter is not in the filter (any more) its place is known
// only in the order of storage, which is taken then.
func (v *visit) neighbour(f deadletter.Filter, seq uint64, before bool) (string, error) {
	query := at("", filterQuery(f))
	if strings.TrimPrefix(cmp.Or(f.Sort, "-seq"), "-") != "seq" {
		found, err := v.inFilter(f, seq)
		if err != nil {
			return "", err
		}
		if !found {
			f.Sort = "-seq"
		}
	}
	if f.Sort = cmp.Or(f.Sort, "-seq"); before {
		f.Sort = reversed(f.Sort)
	}
	f.Before, f.Limit = seq, 1
	var page deadletter.Page
	if err := v.ask(control.VerbLetterList, f, &page); err != nil || len(page.Letters) == 0 {
		return "", err
	}
	return "/dead/" + page.Letters[0].ID + query, nil
}

// inFilter reports whether a filter has the letter of a sequence.
func (v *visit) inFilter(f deadletter.Filter, seq uint64) (bool, error) {
	f.Sort, f.Before, f.After, f.Limit = "-seq", seq+1, seq-1, 1
	var page deadletter.Page
	err := v.ask(control.VerbLetterList, f, &page)
	return len(page.Letters) > 0, err
}

func reversed(sort string) string {
	if key, down := strings.CutPrefix(sort, "-"); down {
		return key
	}
	return "-" + sort
}

// decided ends a form about one letter: its page again, with what was done.
func (v *visit) decided(verb string, query any, done string) error {
	if err := v.ask(verb, query, &control.Done{}); err != nil {
		return err
	}
	return v.done(cmp.Or(v.field("to"), "/dead/"+v.r.PathValue("id")), done)
}

func letterDiscard(v *visit) error {
	return v.decided(control.VerbDiscard, control.LetterQuery{ID: v.r.PathValue("id"), Why: v.field("why")}, "Discarded. It can be restored until it expires.")
}

func letterRestore(v *visit) error {
	return v.decided(control.VerbRestore, control.LetterQuery{ID: v.r.PathValue("id"), Why: v.field("why")}, "Restored: it is active again.")
}

func letterNote(v *visit) error {
	return v.decided(control.VerbNote, control.NoteQuery{ID: v.r.PathValue("id"), Text: v.field("text")}, "The note is kept.")
}

// letterPurge removes a letter for good, after its ID was typed.
func letterPurge(v *visit) error {
	id := v.r.PathValue("id")
	if typed := strings.TrimSpace(v.field("typed")); typed != short(id) && typed != id {
		return badRequest("nothing was removed: the ID to type is %s", short(id))
	}
	if err := v.ask(control.VerbPurge, control.PurgeQuery{ID: id, PurgeOptions: deadletter.PurgeOptions{Why: v.field("why"), Active: v.field("active") == "yes"}}, &control.Done{}); err != nil {
		return err
	}
	return v.done(cmp.Or(v.field("list"), "/dead/list"), "Dead letter "+short(id)+" is removed for good.")
}

// letterResolve settles by hand what became of an effect.
func letterResolve(v *visit) error {
	opt := deadletter.ResolveOptions{Verdict: deadletter.Verdict(v.field("verdict")), Why: v.field("why")}
	if text := strings.TrimSpace(v.field("result")); text != "" {
		if opt.Verdict != deadletter.Happened {
			return badRequest("nothing was resolved: only an effect that happened has a result")
		}
		if !json.Valid([]byte(text)) {
			return badRequest("nothing was resolved: the result is not JSON (a text stands in double quotes)")
		}
		opt.Result = json.RawMessage(text)
	}
	done := map[deadletter.Verdict]string{deadletter.Happened: "Resolved: it happened, and the call has succeeded.",
		deadletter.DidNotHappen: "Noted that it did not happen: the letter may be replayed.", deadletter.Undetermined: "Noted that nobody can tell; whoever said that it did not happen is taken back."}[opt.Verdict]
	if done == "" {
		return badRequest("nothing was resolved: say what became of the effect")
	}
	return v.decided(control.VerbResolve, control.ResolveQuery{ID: v.r.PathValue("id"), ResolveOptions: opt}, done)
}

// letterReplay runs one letter again.
func letterReplay(v *visit) error {
	opt, err := readReplayOptions(v.r.PostForm)
	if err != nil {
		return err
	}
	if opt.IncludeUnknown && strings.TrimSpace(v.field("count")) != "1" {
		return badRequest("nothing was replayed: its effect may have happened already, so type 1 to confirm")
	}
	return v.decided(control.VerbReplay, control.ReplayQuery{ID: v.r.PathValue("id"), ReplayOptions: opt}, "It is being replayed.")
}

// readReplayOptions reads who pays for a replay, and what it may include.
func readReplayOptions(q url.Values) (deadletter.ReplayOptions, error) {
	opt := deadletter.ReplayOptions{Why: q.Get("why"), NewRun: strings.TrimSpace(q.Get("new_run")), IncludeUnknown: q.Get("include_unknown") == "yes"}
	if opt.NewRun != "" && !schemas.ValidRun(opt.NewRun) {
		return opt, badRequest("%q is not a run: up to 8 segments of letters, digits, _ : - joined by slashes", opt.NewRun)
	}
	for name, at := range map[string]*int{"grant_attempts": &opt.Grant.Attempts, "grant_side_effects": &opt.Grant.SideEffects} {
		text := strings.TrimSpace(q.Get(name))
		n, err := strconv.Atoi(cmp.Or(text, "0"))
		if err != nil || n < 0 {
			return opt, badRequest("%s %q is not a number", strings.ReplaceAll(name, "_", " "), text)
		}
		*at = n
	}
	for name, at := range map[string]*time.Duration{"grant_elapsed": &opt.Grant.Elapsed, "window": &opt.Window} {
		text := strings.TrimSpace(q.Get(name))
		d, err := time.ParseDuration(cmp.Or(text, "0s"))
		if err != nil || d < 0 {
			return opt, badRequest("%s %q is not a time such as 90s, 10m or 2h", strings.ReplaceAll(name, "_", " "), text)
		}
		*at = d
	}
	return opt, nil
}
