package cli

import (
	"context"
	"errors"
	"os"
	"testing"
	"time"
)

// Every question ends with the command, though nobody has typed anything.
func TestAQuestionEndsWhenItIsInterrupted(t *testing.T) {
	for name, ask := range map[string]func(ctx context.Context, s *shell) error{
		"confirm":      func(ctx context.Context, s *shell) error { return s.confirm(ctx, "Replay it", 1, false, false) },
		"confirm many": func(ctx context.Context, s *shell) error { return s.confirm(ctx, "Replay them", 200, false, false) },
		"purge": func(ctx context.Context, s *shell) error {
			return (&purge{eachLetter: eachLetter{shell: s}}).typed(ctx, "purge 2 dead letters", 2)
		},
		"editor": func(ctx context.Context, s *shell) error {
			return (&edit{shell: s}).onceMore(ctx, usage("no", ""))
		},
	} {
		t.Run(name, func(t *testing.T) {
			in, keys, err := os.Pipe()
			if err != nil {
				t.Fatal(err)
			}
			defer in.Close()
			defer keys.Close()
			said := &asked{prompted: make(chan bool, 100)}
			s := &shell{stdin: in, stderr: said, inTTY: true, started: true}
			ctx, cancel := context.WithCancelCause(t.Context())
			done := make(chan error, 1)
			go func() { done <- ask(ctx, s) }()
			<-said.prompted
			cancel(errInterrupted)
			select {
			case err := <-done:
				if f := s.explain(ctx, err); !errors.Is(err, errInterrupted) || f.code != exitInterrupted {
					t.Errorf("it ended with %v, exit %d", err, f.code)
				}
			case <-time.After(10 * time.Second):
				t.Fatal("it still waits for a line")
			}
		})
	}
}

// asked tells when something was written to it.
type asked struct{ prompted chan bool }

func (a *asked) Write(p []byte) (int, error) {
	a.prompted <- true
	return len(p), nil
}
