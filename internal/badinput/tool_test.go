package badinput

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"

	"tollgate/internal/worldtest"
	"tollgate/schemas"
)

// badCommands are exec tools that must not be repeated; each notes that it ran.
func badCommands(t *testing.T, b *table) {
	cases := []struct{ name, script, want string }{
		{"killed by a signal", "kill -9 $$", "outcome unknown_outcome"},
		{"a fault of its own", "kill -SEGV $$", "outcome unknown_outcome"},
		{"exit code 200", "exit 200", "outcome failed"},
		{"binary output", `printf '\377\376\000'`, "outcome succeeded"},
		{"output without an end", "yes", "outcome unknown_outcome: RESULT_TOO_LARGE"},
		{"errors without an end, then success", "head -c 50000000 /dev/zero >&2; echo '{}'", "outcome succeeded"},
		{"2 MiB of output", "head -c 2097152 /dev/zero", "outcome failed: RESULT_TOO_LARGE"},
		{"no end", "sleep 1000", "outcome unknown_outcome: TIMEOUT"},
		{"no end, and deaf to SIGTERM", "trap '' TERM; while :; do sleep 1; done", "outcome unknown_outcome: TIMEOUT"},
		{"its input closed unread", "exec 0<&-; echo '{}'", "outcome succeeded"},
		{"a child that holds its output open", "sleep 1000 & echo '{}'", "outcome"},
		{"a broken tool error", `echo '{"code":"X","retryable":"maybe","retry_after_ms":null,"stop_reason":null}'; exit 75`, "outcome failed"},
	}
	dir, tools := t.TempDir(), strings.Builder{}
	for i, c := range cases {
		script := filepath.Join(dir, fmt.Sprintf("tool%d.sh", i))
		if err := os.WriteFile(script, fmt.Appendf(nil, "#!/bin/sh\necho ran >> %s.ran\n%s\n", script, c.script), 0o700); err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&tools, "  odd.n%d: { exec: { command: [/bin/sh, %q] }, effect: write, concurrency: 2, dependency: free, policies: [quick] }\n", i, script)
	}
	p := newPlace(t, tools.String()+"  odd.gone: { exec: { command: [/bin/sh, /nowhere/at/all.sh] }, effect: write, concurrency: 2, dependency: free, policies: [quick] }\n", nil)
	for i, c := range cases {
		o := p.Do(worldtest.Msg{Tool: fmt.Sprint("odd.n", i), Run: "odd", Key: "k"})
		ran, err := os.ReadFile(filepath.Join(dir, fmt.Sprintf("tool%d.sh.ran", i)))
		if err != nil || string(ran) != "ran\n" {
			t.Errorf("%s: ran %q (%v)", c.name, ran, err)
		}
		b.expect(t, "command", c.name, ended(o), c.want)
		p.serves(c.name)
	}
	o := p.Do(worldtest.Msg{Tool: "odd.gone", Run: "odd", Key: "k"})
	b.expect(t, "command", "a script that is not there", ended(o), "outcome failed")
	p.serves("a script that is not there")
	p.sound()
}

// badReplies are those of a NATS service that must not be asked again.
func badReplies(t *testing.T, b *table) {
	cases := []struct {
		name   string
		answer func(*nats.Msg) *nats.Msg
		want   string
	}{
		{"no reply", func(*nats.Msg) *nats.Msg { return nil }, "outcome unknown_outcome: TIMEOUT"},
		{"an empty reply", func(*nats.Msg) *nats.Msg { return &nats.Msg{} }, "outcome succeeded"},
		{"bytes that are not text", func(*nats.Msg) *nats.Msg { return &nats.Msg{Data: []byte("\xff\x00")} }, "outcome succeeded"},
		{"900,000 bytes", func(*nats.Msg) *nats.Msg { return &nats.Msg{Data: make([]byte, 900_000)} }, "outcome failed: RESULT_TOO_LARGE"},
		{"an error code that is no number", failing("many"), "outcome failed: UNCLASSIFIED"},
		{"an error code beyond all numbers", failing("99999999999999999999"), "outcome failed: UNCLASSIFIED"},
		{"an error without a code", func(*nats.Msg) *nats.Msg {
			return &nats.Msg{Header: nats.Header{schemas.HeaderServiceError: {"oh"}}}
		}, "outcome failed: UNCLASSIFIED"},
		{"a Status header of the server's", func(*nats.Msg) *nats.Msg {
			return &nats.Msg{Header: nats.Header{"Status": {"503"}}, Data: []byte("{}")}
		}, "outcome"},
	}
	tools := strings.Builder{}
	for i := range cases {
		fmt.Fprintf(&tools, "  odd.n%d: { nats: { subject: svc.n%d }, effect: write, concurrency: 2, dependency: free, policies: [quick] }\n", i, i)
	}
	p := newPlace(t, tools.String()+"  odd.gone: { nats: { subject: svc.gone }, effect: write, concurrency: 2, dependency: free, policies: [quick] }\n", nil)
	asked := make([]int, len(cases))
	for i, c := range cases {
		sub, err := p.NC.SubscribeSync(fmt.Sprint("svc.n", i))
		if err == nil {
			err = p.NC.Flush()
		}
		if err != nil {
			t.Fatal(err)
		}
		done := make(chan struct{})
		go func() {
			defer close(done)
			for {
				m, err := sub.NextMsg(patience)
				if err != nil {
					return
				}
				asked[i]++
				if r := c.answer(m); r != nil {
					_ = m.RespondMsg(r) // a reply that does not get through is a case of its own
				}
			}
		}()
		o := p.Do(worldtest.Msg{Tool: fmt.Sprint("odd.n", i), Run: "odd", Key: "k"})
		_ = sub.Unsubscribe()
		<-done
		if asked[i] != 1 {
			t.Errorf("%s: asked %d times", c.name, asked[i])
		}
		b.expect(t, "NATS reply", c.name, ended(o), c.want)
		p.serves(c.name)
	}
	o := p.Do(worldtest.Msg{Tool: "odd.gone", Run: "odd", Key: "k"})
	b.expect(t, "NATS reply", "nobody listens", ended(o), "outcome exhausted", "4 attempts")
	p.serves("a service that is not there")
	p.sound()
}

func failing(code string) func(*nats.Msg) *nats.Msg {
	return func(*nats.Msg) *nats.Msg {
		return &nats.Msg{Header: nats.Header{schemas.HeaderServiceError: {"oh"}, schemas.HeaderServiceErrorCode: {code}}}
	}
}
