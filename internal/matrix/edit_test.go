package matrix

import (
	"context"

	"tollgate/control"
	"tollgate/deadletter"
	"tollgate/dedupe"
	"tollgate/internal/worldtest"
	"tollgate/schemas"
)

// edited is a letter that becomes another call, which dies as well.
func edited() []*story {
	const arguments = `{"n":2}`
	f, err := dedupe.Fingerprint([]byte(arguments))
	if err != nil {
		panic("matrix: " + err.Error())
	}
	letter := dedupe.LetterID(worldtest.CallID(worldtest.Msg{Tool: "look.up", Run: run, Key: "k"}), 0)
	key := dedupe.EditedKey("k", letter, f)
	return []*story{{
		name: "edit", execs: 2, audits: map[string]int{"edit": 1}, none: []op{firing},
		tools: map[string][]step{"look.up": {broken}},
		calls: []call{
			{name: "k", tool: "look.up", body: `{"n":1}`, want: schemas.Failed, edited: true},
			{name: key, tool: "look.up", body: arguments, want: schemas.Failed},
		},
		steps: func(p *play) {
			inTurn("k")(p)
			p.decide("edit", func(ctx context.Context) error {
				return p.w.Ctl.Ask(ctx, control.VerbEdit, control.EditQuery{ID: letter,
					EditOptions: deadletter.EditOptions{Arguments: []byte(arguments), Why: "matrix"}}, &control.EditReport{})
			}, func() bool { d := p.show("k"); return d != nil && d.EditedTo != "" })
			p.outcome(key, 0)
		},
	}}
}
