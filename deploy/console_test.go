package deploy_test

import (
	"os"
	"strings"
	"testing"

	"tollgate/internal/config"
)

// The users of deploy/console/http.yaml are accepted by a real configuration, and are
// what the comments beside them say.
func TestTheConsolesUsersAreAccepted(t *testing.T) {
	section, err := os.ReadFile("console/http.yaml")
	if err != nil {
		t.Fatal(err)
	}
	text := strings.Replace(string(config.Example()), "\nhttp: {}\n", "\n"+string(section), 1)
	env := func(name string) (string, bool) { return "0123456789abcdef0123456789abcdef", name == "LEA_TOKEN" }
	c, err := config.Parse("tollgate.yaml", []byte(text), env)
	if err != nil {
		t.Fatal(err)
	}
	if u := c.HTTP.Users; len(u) != 2 || u["lea"].Role != "viewer" || u["sam"].Role != "operator" || u["lea"].Digest() == u["sam"].Digest() {
		t.Errorf("users: %+v", u)
	}
	for _, w := range c.Warnings() {
		t.Errorf("a warning: %s", w)
	}
}
