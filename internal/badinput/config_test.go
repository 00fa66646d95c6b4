package badinput

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// sane is a configuration without a mistake; %s is where one is put in.
const sane = `nats: { embedded: { listen: "127.0.0.1:0", store_dir: nats } }
ledger: { path: ledger.db }
policies:
  p:
    attempts: 4
    timeout: 2s
    backoff: { base: 50ms, cap: 400ms, throttle_base: 100ms }
    max_retry_after: 5s
    max_deadline: 10m
    run: { attempts: 1000, side_effects: 1000, elapsed: 1h, max_repairs: 2, max_accounts: 8 }
tools:
  t: { http: { url: "http://127.0.0.1:1/" }, effect: read, policies: [p] }
`

// yamlBomb is 9 levels of nine references each.
func yamlBomb() string {
	s := strings.Builder{}
	s.WriteString("a0: &a0 [x,x,x,x,x,x,x,x,x]\n")
	for i := 1; i <= 9; i++ {
		fmt.Fprintf(&s, "a%d: &a%d [%s]\n", i, i, strings.TrimSuffix(strings.Repeat(fmt.Sprintf("*a%d,", i-1), 9), ","))
	}
	return s.String()
}

// badConfigurations are given to the real program, which must not start.
func badConfigurations(t *testing.T, b *table) {
	put := func(old, now string) string { return strings.Replace(sane, old, now, 1) }
	for _, c := range []struct{ name, text, want string }{
		{"nothing", "", ""},
		{"only a comment", "# nothing\n", ""},
		{"bytes that are not text", "\x00\xff\xfe\x01", ""},
		{"a bomb of references", sane + yamlBomb(), ""},
		{"a value that contains itself", sane + "x: &x { y: *x }\n", ""},
		{"100,000 open brackets", "tools: " + strings.Repeat("[", 100_000), ""},
		{"20 MB", sane + "#" + strings.Repeat("x", 20<<20), ""},
		{"a list at the top", "- a\n- b\n", ""},
		{"two documents", sane + "---\n" + sane, ""},
		{"tabs", put("    attempts: 4", "\tattempts: 4"), "yaml:5:"},
		{"a key twice", put("    attempts: 4", "    attempts: 4\n    attempts: 5"), "attempts"},
		{"an unknown key", put("attempts: 4", "atempts: 4"), "atempts"},
		{"a duration without a unit", put("timeout: 2s", "timeout: 2"), "timeout"},
		{"a duration in days", put("timeout: 2s", "timeout: 2d"), "timeout"},
		{"a negative duration", put("timeout: 2s", "timeout: -2s"), "timeout"},
		{"a number beyond all numbers", put("attempts: 4", "attempts: 99999999999999999999"), "attempts"},
		{"attempts: .nan", put("attempts: 4", "attempts: .nan"), "attempts"},
		{"a limit left out", put("    attempts: 4\n", ""), "attempts"},
		{"a policy that does not exist", put("policies: [p]", "policies: [q]"), "q"},
		{"a secret that is not set", put("http://127.0.0.1:1/", "http://127.0.0.1:1/${NO_SUCH_SECRET}"), "NO_SUCH_SECRET"},
		{"a reference that is no variable", put(`"http://127.0.0.1:1/" }`, `"http://127.0.0.1:1/", headers: { A: "${file:/nowhere}" } }`), ""},
		{"a tool of two kinds", put(`effect: read`, `exec: { command: [true] }, effect: read`), "t"},
		{"a URL of another scheme", put("http://127.0.0.1:1/", "file:///etc/passwd"), "url"},
		{"a schema that refers to the network", put("effect: read", `schema: { $ref: "http://127.0.0.1:1/x" }, effect: read`), "schema"},
		{"a listener for everybody without authentication", put("127.0.0.1:0", "0.0.0.0:0"), "0.0.0.0"},
	} {
		where, exit := startsWith(t, c.text)
		b.expect(t, "configuration", c.name, where, c.want)
		if exit != 2 {
			t.Errorf("%s: exit code %d, want 2: %s", c.name, exit, where)
		}
	}
	if where, exit := startsWith(t, sane); exit != -1 {
		t.Errorf("without a mistake it ends with %d: %s", exit, where)
	}
}

// startsWith starts the program with a configuration and returns its words and exit
// code; -1 is a program that serves.
func startsWith(t *testing.T, text string) (string, int) {
	t.Helper()
	p := newProgram(t, "l", "n", "http://127.0.0.1:1")
	if err := os.WriteFile(filepath.Join(p.dir, "tollgate.yaml"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return p.verdict(patience)
}

// verdict starts the program and waits until it serves (-1) or ends.
func (p *program) verdict(within time.Duration) (string, int) {
	p.t.Helper()
	p.launch()
	served := false
	p.await(within, "the program serves or ends", func() bool {
		_, err := os.Stat(p.ready())
		served = err == nil
		return served || len(p.ended) > 0
	})
	if served {
		p.kill()
		return "it serves", -1
	}
	exit := p.end(within)
	said := string(p.said())
	if at := strings.Index(said, "error: the dispatcher"); at > 0 { // what comes before is the log
		said = said[at:]
	}
	return fmt.Sprintf("exit code %d: %s", exit, brief(said)), exit
}

// brief is what a table has room for.
func brief(s string) string {
	s = strings.Join(strings.Fields(s), " ")
	if len(s) > 300 {
		s = strings.ToValidUTF8(s[:300], "") + "…"
	}
	return s
}
