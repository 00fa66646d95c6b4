package cli_test

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"tollgate/dedupe"
	"tollgate/internal/cli"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"tollgate": func() { os.Exit(cli.Main()) }})
}

// Every script is one story, told with the real command as a process of its own.
func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir: "testdata/script",
		Cmds: map[string]func(ts *testscript.TestScript, neg bool, args []string){
			"serving": serving, "exits": exits, "remember": remember, "post": post, "transcript": transcript, "answers": answers, "until": until,
		},
		Setup: func(e *testscript.Env) error {
			l, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				return err
			}
			defer l.Close() // nobody listens there from now on
			e.Setenv("NOBODY", "nats://"+l.Addr().String())
			e.Setenv("NO_COLOR", "1")
			readme, err := filepath.Abs("../../README.md")
			if err != nil {
				return err
			}
			e.Setenv("README", readme)
			e.Setenv("PATH", os.Getenv("PATH")+string(os.PathListSeparator)+e.Getenv("PATH"))
			return nil
		},
	})
}

// serving waits until the dispatcher in a folder serves, and makes its server the
// one that commands talk to.
func serving(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: serving FOLDER")
	}
	path := ts.MkAbs(filepath.Join(args[0], "url"))
	for until := time.Now().Add(20 * time.Second); time.Now().Before(until); time.Sleep(20 * time.Millisecond) {
		if url, err := os.ReadFile(path); err == nil {
			ts.Setenv("TOLLGATE_NATS_URL", strings.TrimSpace(string(url)))
			return
		}
	}
	ts.Fatalf("nothing serves in %s", args[0])
}

// exits runs the command and checks its exit code: exits CODE ARGS...
func exits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits CODE ARGS...")
	}
	err := ts.Exec("tollgate", args[1:]...)
	got := "0"
	if err != nil {
		got = strings.TrimPrefix(err.Error(), "exit status ")
	}
	if got != args[0] {
		ts.Fatalf("tollgate %s: exit code %s, want %s", strings.Join(args[1:], " "), got, args[0])
	}
}

// until runs the command again and again until its standard output matches:
// until PATTERN ARGS...
func until(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: until PATTERN ARGS...")
	}
	pattern := regexp.MustCompile("(?m)" + args[0])
	for end := time.Now().Add(20 * time.Second); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		if err := ts.Exec("tollgate", args[1:]...); err == nil && pattern.MatchString(ts.ReadFile("stdout")) {
			return
		}
	}
	ts.Fatalf("tollgate %s: it never said %s", strings.Join(args[1:], " "), args[0])
}

// remember keeps the first group of a pattern in the last standard output:
// remember NAME PATTERN.
func remember(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: remember NAME PATTERN")
	}
	m := regexp.MustCompile(args[1]).FindStringSubmatch(ts.ReadFile("stdout"))
	if len(m) != 2 {
		ts.Fatalf("%s is not in the output", args[1])
	}
	ts.Setenv(args[0], m[1])
}

// post asks the demo tools to be well (heal) or not (break). Where they are stands
// in the configuration that dev has written.
func post(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: post FOLDER heal|break")
	}
	text := ts.ReadFile(filepath.Join(args[0], "demo.yaml"))
	base := regexp.MustCompile(`http://127\.0\.0\.1:\d+`).FindString(text)
	resp, err := http.Post(fmt.Sprintf("%s/%s", base, args[1]), "", nil)
	ts.Check(err)
	ts.Check(resp.Body.Close())
}

// answers runs the command with --json, which must end with the exit code and print
// one object of the kind, no key of it twice: answers CODE KIND ARGS...
func answers(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 3 {
		ts.Fatalf("usage: answers CODE KIND ARGS...")
	}
	exits(ts, false, append([]string{args[0], "--json"}, args[2:]...))
	body := []byte(ts.ReadFile("stdout"))
	if _, err := dedupe.Fingerprint(body); err != nil { // it refuses what readers would disagree on
		ts.Fatalf("tollgate %s --json: %v", strings.Join(args[2:], " "), err)
	}
	var head struct{ APIVersion, Kind string }
	ts.Check(json.Unmarshal(body, &head))
	if head.APIVersion != "tollgate/v1" || head.Kind != args[1] {
		ts.Fatalf("tollgate %s --json: it is a %s of %s, want a %s", strings.Join(args[2:], " "), head.Kind, head.APIVersion, args[1])
	}
}
