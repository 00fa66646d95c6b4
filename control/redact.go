package control

import (
	"context"
	"slices"

	"tollgate/deadletter"
	"tollgate/dedupe"
	"tollgate/dispatcher"
	"tollgate/schemas"
)

// pointers are what the configuration hides of a tool's arguments. Of a name that no
// tool has, mistyped or renamed, it is what any tool hides.
func (s *Server) pointers(tool string) []string {
	var all []string
	for _, t := range s.cfg.Tools {
		if t.Name == tool {
			return t.Redact
		}
		all = append(all, t.Redact...)
	}
	return all
}

// redactLetter hides it in a whole letter: in the arguments, and wherever the tool or a
// header has repeated it.
func (s *Server) redactLetter(l *schemas.Letter) {
	shown, hidden := deadletter.Redact([]byte(l.Arguments), s.pointers(l.Tool))
	l.Arguments, l.Message, l.Outcome = string(shown), hidden.Text(l.Message), hidden.Outcome(l.Outcome)
	for _, values := range l.Header {
		for i, v := range values {
			values[i] = hidden.Text(v)
		}
	}
}

// redactMessage is what a letter died of, with hidden what its arguments hide. A list
// holds no arguments, so they are read; a message whose arguments cannot be is hidden.
func (s *Server) redactMessage(ctx context.Context, tool, id, message string) string {
	redacts := len(s.pointers(tool)) > 0
	if tool == "" { // of a group that spans several
		redacts = slices.ContainsFunc(s.cfg.Tools, func(t *dispatcher.Tool) bool { return len(t.Redact) > 0 })
	}
	if message == "" || !redacts {
		return message
	}
	hidden, ok := s.hiddenBy(ctx, id)
	if !ok {
		return deadletter.Mask
	}
	return hidden.Text(message)
}

// hiddenBy is what a stored letter's arguments hide.
func (s *Server) hiddenBy(ctx context.Context, id string) (deadletter.Hidden, bool) {
	call, generation, err := dedupe.ParseLetterID(id)
	if err != nil {
		return deadletter.Hidden{}, false
	}
	l, err := s.cfg.Letters.Store.Get(ctx, call, generation)
	if err != nil {
		return deadletter.Hidden{}, false
	}
	_, hidden := deadletter.Redact([]byte(l.Arguments), s.pointers(l.Tool))
	return hidden, true
}
