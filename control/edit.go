package control

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/rogpeppe/go-internal/diff"

	"tollgate/deadletter"
	"tollgate/dedupe"
	"tollgate/schemas"
)

// Bounds that keep an edit's answer within a message, in which a byte may take two or
// more. What is longer is changed by place, or written anew.
const (
	maxDiff = 64 << 10
	maxText = 256 << 10
)

// EditQuery makes another call of one letter, with other arguments.
type EditQuery struct {
	ID string `json:"id"`
	deadletter.EditOptions
	Text bool `json:"text,omitempty"` // answer with the letter's arguments too, to be changed by hand
}

// EditReport is what an edit has done or, as a dry run, would do. What is redacted is
// hidden in it.
type EditReport struct {
	ID        string    `json:"id"`
	Tool      string    `json:"tool"`
	Run       string    `json:"run"`
	Reason    string    `json:"reason"`
	Call      string    `json:"call,omitempty"` // the new one
	Key       string    `json:"key,omitempty"`
	Deadline  time.Time `json:"deadline,omitzero"`
	DryRun    bool      `json:"dry_run,omitempty"`
	Published bool      `json:"published"`       // else it is owed, and tried again until it is
	Again     bool      `json:"again,omitempty"` // the same edit was made before; nothing more was done
	Diff      string    `json:"diff,omitempty"`  // unified, of the arguments laid out
	Arguments string    `json:"arguments,omitempty"`
	Problems  []Problem `json:"problems,omitempty"` // of a dry run: what stands in the way
}

func (s *Server) edit(ctx context.Context, q EditQuery, by string) (EditReport, error) {
	if q.Window < 0 {
		return EditReport{}, bad("the window of time is negative")
	}
	id, err := s.letter(q.ID)
	if err != nil {
		return EditReport{}, err
	}
	q.By = by
	e, err := s.cfg.Letters.Edit(ctx, id, q.EditOptions)
	if err != nil {
		return EditReport{}, err
	}
	l := &e.Letter
	r := EditReport{ID: e.ID, Tool: l.Tool, Run: l.Run, Reason: l.Reason, Call: e.Call, Key: e.Key, Deadline: e.Deadline, DryRun: q.DryRun, Published: e.Published, Again: e.Again}
	for _, p := range e.Problems {
		r.Problems = append(r.Problems, refusal(p))
	}
	before, after := s.cfg.Letters.Shown(e)
	if e.After != nil {
		r.Diff = unified(l.ID, before, after)
	}
	if text := laidOut(before); q.Text && len(text) <= maxText {
		r.Arguments = string(text)
	}
	return r, nil
}

// unified is the diff of two documents, laid out so that a value has a line.
func unified(id string, before, after []byte) string {
	text := string(diff.Diff("dead letter "+id, laidOut(before), "edited", laidOut(after)))
	if _, rest, ok := strings.Cut(text, "\n"); ok { // the line before the two names is for programs that look at files
		text = rest
	}
	if len(text) <= maxDiff {
		return text
	}
	text = strings.ToValidUTF8(text[:maxDiff], "")
	return text[:strings.LastIndexByte(text, '\n')+1] + "… the rest is not shown\n"
}

// laidOut is a document for people, its numbers as written. What could not be seen in it,
// or would turn the text around it, is spelled as JSON spells it: the value is the same.
func laidOut(document []byte) []byte {
	var out bytes.Buffer
	if json.Indent(&out, bytes.TrimSpace(document), "", "  ") != nil {
		return document
	}
	out.WriteByte('\n')
	return []byte(spelled(out.String()))
}

// spelled is JSON with an escape for each character that has no shape of its own. They
// stand in strings only: elsewhere JSON has no place for them.
func spelled(document string) string {
	var b strings.Builder
	from := 0
	for at, r := range document {
		if r == '\n' || !unicode.In(r, unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp) {
			continue
		}
		b.WriteString(document[from:at])
		for _, unit := range utf16.Encode([]rune{r}) {
			fmt.Fprintf(&b, `\u%04x`, unit)
		}
		from = at + utf8.RuneLen(r)
	}
	return b.String() + document[from:]
}

// linkLetter tells what was made of a letter by an edit, and what it was made of; what
// an operator has found out about it; and what is left to do.
func (s *Server) linkLetter(l *schemas.Letter) {
	r, err := s.cfg.Ledger.Record(l.Call)
	if err == nil && r.Generation == l.Generation {
		l.EditedTo = r.EditedTo
		if l.State == schemas.LetterActive && l.Reason == schemas.ReasonUnknownOutcome && !r.Ambiguous {
			l.Verdict = string(deadletter.DidNotHappen)
			l.NextStep = "The effect did not happen, says an operator: replay the letter. Resolve it as undetermined to take that back."
		}
	}
	if l.State != schemas.LetterActive {
		l.NextStep = ""
	}
	l.EditedFrom = s.editedFrom(l.Header.Get(schemas.HeaderReplayOf), l.Call)
}

// editedFrom is the letter that a call says it was made of, if the letter's own record
// says so too: what a message says an agent may have written.
func (s *Server) editedFrom(letter, call string) string {
	original, generation, err := dedupe.ParseLetterID(letter)
	if err != nil {
		return ""
	}
	r, err := s.cfg.Ledger.Record(original)
	if err != nil || r.Generation != generation || r.EditedTo != call {
		return ""
	}
	return letter
}
