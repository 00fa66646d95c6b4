package cli

import (
	"bufio"
	"fmt"
	"strconv"
	"strings"
)

// typedFrom is the size of an operation from which "y" is not enough.
const typedFrom = 100

// confirm asks before something is done to n letters. Many letters, or uncertain
// outcomes among them, want the number typed.
func (s *shell) confirm(what string, n int, uncertain, yes bool) error {
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
	answer, err := bufio.NewReader(s.stdin).ReadString('\n')
	answer = strings.ToLower(strings.TrimSpace(answer))
	if answer == want || want == "y" && answer == "yes" {
		return nil
	}
	return &fault{code: exitUnconfirmed, what: "not confirmed; nothing was done", cause: err}
}
