package console

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"tollgate/control"
	"tollgate/deadletter"
	"tollgate/schemas"
)

var editRoutes = map[string]handler{"GET /dead/{id}/edit": edit, "POST /dead/{id}/edit": editDo}

// editPage is the page on which a letter's arguments are changed: they are written, what
// would be done is shown, and then just that is done.
type editPage struct {
	Letter      schemas.Letter
	Report      control.EditReport // of the dry run
	Text        string             // the arguments, as they stand in the field
	Why, Window string             // as they stand in theirs
	Faults      []string           // what is wrong with what was written
	Stop        *control.Problem   // what nothing that is written would mend
	Ready       bool               // what would be done is shown, and may be
}

// edit shows the arguments as they are.
func edit(v *visit) error {
	if !v.user.Role.May(control.VerbEdit) { // asking would be an attempt, in the audit
		return v.forbidden(control.VerbEdit)
	}
	p, err := v.startEdit()
	if err != nil {
		return err
	}
	q := control.EditQuery{ID: p.Letter.ID, EditOptions: deadletter.EditOptions{DryRun: true}, Text: true}
	if err := v.askEdit(p, q); err != nil {
		return err
	}
	p.Text, p.Faults = p.Report.Arguments, nil // nobody has written anything yet
	if p.Stop != nil {
		p.Text = ""
	}
	return v.showEdit(p)
}

func (v *visit) startEdit() (*editPage, error) {
	p := &editPage{}
	return p, v.ask(control.VerbLetterShow, control.IDQuery{ID: v.r.PathValue("id")}, &p.Letter)
}

// editDo shows what an edit would do. When just this was shown before, it does it.
func editDo(v *visit) error {
	if !v.user.Role.May(control.VerbEdit) { // for the dispatcher to refuse, and to write down
		return v.ask(control.VerbEdit, control.EditQuery{ID: v.r.PathValue("id")}, &control.EditReport{})
	}
	p, err := v.startEdit()
	if err != nil {
		return err
	}
	p.Text, p.Why, p.Window = strings.ReplaceAll(v.field("arguments"), "\r\n", "\n"), strings.TrimSpace(v.field("why")), strings.TrimSpace(v.field("window"))
	q, ok := p.query()
	if !ok {
		return v.showEdit(p)
	}
	if err := v.askEdit(p, q); err != nil {
		return err
	}
	if p.Ready = p.Stop == nil && len(p.Faults) == 0; !p.Ready || v.field("shown") != p.Report.Call {
		return v.showEdit(p)
	}
	q.DryRun = false
	if err := v.askEdit(p, q); err != nil {
		return err
	}
	if p.Ready = false; p.Stop != nil || len(p.Faults) > 0 { // somebody was faster
		return v.showEdit(p)
	}
	return v.edited(&p.Report)
}

// edited goes on to the new call, or while nobody knows it yet to the letter, which
// names it.
func (v *visit) edited(r *control.EditReport) error {
	done := "Dead letter " + short(r.ID) + " is resolved by call " + short(r.Call) + "."
	if r.Again {
		done = "The same edit was made before, so nothing more was done: its call is " + short(r.Call) + "."
	}
	tick := time.NewTicker(admittedEvery)
	defer tick.Stop()
	for range int(admittedWithin / admittedEvery) {
		if v.ask(control.VerbCallShow, control.IDQuery{ID: r.Call}, &control.CallDetail{}) == nil {
			return v.done("/calls/"+r.Call, done)
		}
		select {
		case <-tick.C:
		case <-v.r.Context().Done():
		}
	}
	if !r.Published && !r.Again {
		return v.done("/dead/"+r.ID, done+" It is owed: its stream did not take it yet, and it is tried again.")
	}
	return v.done("/dead/"+r.ID, done+" It waits in its stream; its page is there when its turn has come.")
}

// How long a new call is waited for, and how often it is looked for: where there is room
// for it, it is admitted at once.
const (
	admittedWithin = 2 * time.Second
	admittedEvery  = 50 * time.Millisecond
)

// query is what the fields ask for, as a dry run; false when they cannot be read.
func (p *editPage) query() (q control.EditQuery, ok bool) {
	q = control.EditQuery{ID: p.Letter.ID, EditOptions: deadletter.EditOptions{Arguments: json.RawMessage(p.Text), Why: p.Why, DryRun: true}}
	readable := true
	if p.Why == "" {
		p.Faults = append(p.Faults, "an edit needs a reason, for the audit")
	}
	if p.Window != "" {
		var err error
		if q.Window, err = time.ParseDuration(p.Window); err != nil || q.Window < time.Second {
			readable = false
			p.Faults = append(p.Faults, fmt.Sprintf("the time from now, %q, is not one such as 90s, 10m or 2h", p.Window))
		}
	}
	if err := json.Unmarshal(q.Arguments, new(any)); err != nil {
		readable = false
		p.Faults = append(p.Faults, notJSON(p.Text, err))
	}
	return q, readable
}

// notJSON says where a text stops being JSON.
func notJSON(text string, err error) string {
	line := 1 + strings.Count(text, "\n")
	var syntax *json.SyntaxError
	if errors.As(err, &syntax) {
		line = 1 + strings.Count(text[:min(int(syntax.Offset), len(text))], "\n")
	}
	return fmt.Sprintf("the arguments are not JSON, in line %d: %v", line, err)
}

// askEdit asks for an edit and sorts what stands in its way.
func (v *visit) askEdit(p *editPage, q control.EditQuery) error {
	p.Report = control.EditReport{}
	err := v.ask(control.VerbEdit, q, &p.Report)
	problems := p.Report.Problems
	var f *control.Failure
	switch {
	case errors.As(err, &f) && (f.Code == http.StatusForbidden || f.Code == http.StatusConflict || f.Code == http.StatusUnprocessableEntity):
		problems = []control.Problem{f.Problem}
	case errors.Is(err, nats.ErrMaxPayload):
		problems = []control.Problem{{Code: http.StatusUnprocessableEntity, What: "the arguments are longer than a message may be"}}
	case err != nil:
		return err
	}
	for _, problem := range problems {
		problem.What = strings.TrimPrefix(problem.What, "dead letter "+p.Letter.ID+": ")
		if problem.Code == http.StatusUnprocessableEntity {
			p.Faults = append(p.Faults, problem.What)
		} else if p.Stop == nil {
			p.Stop = &problem
		}
	}
	return nil
}

func (v *visit) showEdit(p *editPage) error {
	status := http.StatusOK
	switch {
	case p.Stop != nil && (v.r.Method == http.MethodPost || p.Stop.Code == http.StatusForbidden): // to say why not now is an answer to who asks
		status = p.Stop.Code
	case len(p.Faults) > 0:
		status = http.StatusUnprocessableEntity
	}
	return v.showStatus(status, "edit", "Edit dead letter "+short(p.Letter.ID)+" of "+p.Letter.Tool, p)
}

// diffLine is a line of a diff, and which kind: name, place, plus, minus or same.
type diffLine struct{ Kind, Text string }

// Diff is what would change, line by line.
func (p *editPage) Diff() (lines []diffLine) {
	for line := range strings.Lines(p.Report.Diff) {
		kind := "same"
		switch {
		case len(lines) < 2: // the names of what is compared
			kind = "name"
		case strings.HasPrefix(line, "+"):
			kind = "plus"
		case strings.HasPrefix(line, "-"):
			kind = "minus"
		case strings.HasPrefix(line, "@"):
			kind = "place"
		}
		lines = append(lines, diffLine{kind, line})
	}
	return lines
}
