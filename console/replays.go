package console

import (
	"fmt"
	"net/url"
	"time"

	"tollgate/control"
	"tollgate/dedupe"
	"tollgate/replays"
)

var replaysRoutes = map[string]handler{"GET /replays": replaysList, "GET /replays/{name}": replayShow,
	"POST /replays/{name}/pause": replayPause, "POST /replays/{name}/resume": replayResume, "POST /replays/{name}/cancel": replayCancel}

// replayRow is a bulk replay and how far it is.
type replayRow struct {
	*dedupe.Replay
	Done    int           // of Matched: replayed or left out
	Open    int           // replayed, without an outcome
	Lasts   time.Duration // about; 0: nobody can tell, or it is over
	Skips   []skipped
	Bounced string // the letters that died again
}

func newReplayRow(r *dedupe.Replay) replayRow {
	row := replayRow{Replay: r, Done: r.Matched - r.Left, Open: r.Tally.Open(), Skips: skips(r.Skipped),
		Bounced: at("/dead/list", url.Values{"replay": {r.Name}, "state": {"all"}})}
	if r.State == dedupe.ReplayRunning && r.Rate > 0 {
		row.Lasts = time.Duration(float64(r.Left) / r.Rate * float64(time.Second))
	}
	return row
}

// Stops words the rule that stops a replay.
func (r replayRow) Stops() string {
	if r.StopAbove >= 1 {
		return "never by itself"
	}
	return fmt.Sprintf("by itself when more than %g %% of the outcomes died again", 100*r.StopAbove)
}

// replaysList shows every bulk replay that is remembered.
func replaysList(v *visit) error {
	var p control.ReplaysPage
	if err := v.ask(control.VerbReplaysList, control.Empty{}, &p); err != nil {
		return err
	}
	state, rows := v.param("state"), []replayRow{}
	for _, r := range p.Replays {
		if state == "" || state == string(r.State) {
			rows = append(rows, newReplayRow(r))
		}
	}
	return v.show("replays", "Replays", rows)
}

// replayPage is one bulk replay.
type replayPage struct {
	replayRow
	Kinds []string // of letters that the table can be narrowed to
	Items []dedupe.ReplayItem
	Next  int // the number of the next page's first item
}

// mostItems is how many items a page has.
const mostItems = 200

func replayShow(v *visit) error {
	var r dedupe.Replay
	name := v.r.PathValue("name")
	if err := v.ask(control.VerbReplayShow, control.ReplayName{Name: name}, &r); err != nil {
		return err
	}
	p := replayPage{replayRow: newReplayRow(&r), Kinds: replays.Kinds}
	var items replays.Items
	if err := v.ask(control.VerbReplayItems, control.ReplayName{Name: name, From: wholeNumber(v.r.URL.Query(), "cursor"), Only: v.param("only")}, &items); err != nil {
		return err
	}
	if p.Items, p.Next = items.Items, items.Next; len(p.Items) > mostItems {
		p.Items, p.Next = p.Items[:mostItems], p.Items[mostItems].N
	}
	return v.show("replay", "Replay "+r.Name, p)
}

func replayPause(v *visit) error {
	return v.changeReplay(control.VerbReplayPause, "Paused. What was replayed goes on.")
}

func replayResume(v *visit) error { return v.changeReplay(control.VerbReplayResume, "It goes on.") }

func replayCancel(v *visit) error {
	return v.changeReplay(control.VerbReplayCancel, "Cancelled. What was replayed goes on; the rest stays as it is.")
}

func (v *visit) changeReplay(verb, done string) error {
	name := v.r.PathValue("name")
	if err := v.ask(verb, control.ReplayName{Name: name, Why: v.field("why")}, &dedupe.Replay{}); err != nil {
		return err
	}
	return v.done("/replays/"+url.PathEscape(name), done)
}
