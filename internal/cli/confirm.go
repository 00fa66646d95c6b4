package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// typedFrom is the size of an operation from which "y" is not enough.
const typedFrom = 100

// confirm asks before something is done to n letters. Many letters, or uncertain
// outcomes among them, want the number typed.
func (s *shell) confirm(ctx context.Context, what string, n int, uncertain, yes bool) error {
	if yes {
		return nil
	}
	if s.noInput || !s.inTTY {
		return &fault{code: exitUnconfirmed, what: "not confirmed: " + what, why: "there is nobody to ask", try: "the same with --yes, or --dry-run to see what it would do"}
	}
	want, prompt := "y", what+"? [y/N] "
	if n >= typedFrom || uncertain {
		want, prompt = strconv.Itoa(n), fmt.Sprintf("%s? Type the number to confirm (%d): ", what, n)
	}
	fmt.Fprint(s.stderr, prompt)
	answer, err := s.readLine(ctx)
	if errors.Is(err, errInterrupted) {
		return err
	}
	answer = strings.ToLower(answer)
	if answer == want || want == "y" && answer == "yes" {
		return nil
	}
	return &fault{code: exitUnconfirmed, what: "not confirmed; nothing was done", cause: err}
}

// readLine waits for a line, without the space around it, or for the command's end: a
// read that nobody answers cannot be called off, so Ctrl-C leaves it behind.
func (s *shell) readLine(ctx context.Context) (string, error) {
	type read struct {
		text string
		err  error
	}
	done := make(chan read, 1)
	go func() {
		text, err := bufio.NewReader(s.stdin).ReadString('\n')
		done <- read{strings.TrimSpace(text), err}
	}()
	select {
	case r := <-done:
		if ctx.Err() == nil {
			return r.text, r.err
		}
	case <-ctx.Done():
	}
	fmt.Fprintln(s.stderr) // the prompt's line has no end yet
	return "", context.Cause(ctx)
}
