package exec_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"tollgate/dispatcher"
	"tollgate/dispatcher/classify"
	"tollgate/schemas"
	"tollgate/tools/exec"
)

var attempt = dispatcher.Invocation{
	Tool: "x", Tenant: "default", Run: "run_1/a", Call: "c1", Key: "k1", Attempt: 2, Generation: 1,
	Deadline: time.Date(2026, 3, 1, 12, 0, 0, 5, time.UTC), TraceParent: "00-ab-cd-01", Arguments: []byte(`{"b": 1,"a":"x"}`),
}

func run(t *testing.T, ctx context.Context, s exec.Spec, in dispatcher.Invocation) classify.Verdict {
	t.Helper()
	e, err := exec.New(s)
	if err != nil {
		t.Fatal(err)
	}
	return e.Execute(ctx, in)
}

func sh(script string) exec.Spec { return exec.Spec{Command: []string{"/bin/sh", "-c", script}} }

func short(v classify.Verdict) string {
	if v.OK() {
		return "ok " + v.Phase.String()
	}
	return v.Class.String() + " " + v.Phase.String() + " " + v.Code
}

func TestArgumentsOnStandardInput(t *testing.T) {
	v := run(t, t.Context(), exec.Spec{Command: []string{"cat"}}, attempt)
	if !v.OK() || string(v.Structured) != string(attempt.Arguments) {
		t.Errorf("%+v", v)
	}
	if v = run(t, t.Context(), sh("exec <&-; exit 0"), dispatcher.Invocation{Arguments: []byte(strings.Repeat(" ", 1<<20))}); !v.OK() {
		t.Errorf("a command that reads nothing: %+v", v)
	}
}

func TestExitCodes(t *testing.T) {
	for script, want := range map[string]string{
		"exit 0": "ok answered", "exit 75": "transient answered EXIT_75", "exit 69": "transient answered EXIT_69",
		"exit 65": "permanent answered EXIT_65", "exit 78": "permanent answered EXIT_78", "exit 3": "unclassified answered EXIT_3",
		"kill -9 $$": "transient no_answer SIGNALLED", "kill -TERM $$": "transient no_answer SIGNALLED",
		`echo '{"code":"X","retryable":true,"retry_after_ms":1200,"stop_reason":null}'; exit 1`:            "transient answered X",
		`echo '{"code":"X","retryable":true,"retry_after_ms":null,"stop_reason":"AUTH_EXPIRED"}'; exit 75`: "permanent answered X",
		`echo '{"code":"X","retryable":true}'; exit 75`:                                                    "unclassified answered UNCLASSIFIED",
	} {
		if v := run(t, t.Context(), sh(script), attempt); short(v) != want {
			t.Errorf("%s: %s, want %s", script, short(v), want)
		}
	}
}

// B93: what a failing command says is shown without the secrets it was given.
func TestLastWordsWithoutSecrets(t *testing.T) {
	s := sh(`echo "refused $DB_PASSWORD"; echo "cannot reach db as $DB_PASSWORD" >&2; printf '\377' >&2; exit 65`)
	s.Env = map[string]string{"DB_PASSWORD": "s3cr3t-77"}
	v := run(t, t.Context(), s, attempt)
	if v.Content[0].Text != "refused [redacted]" {
		t.Errorf("content %q", v.Content[0].Text)
	}
	if !strings.Contains(v.Message, "cannot reach db as [redacted]") || strings.Contains(v.Message, "s3cr3t") {
		t.Errorf("message %q", v.Message)
	}
}

// B80: nothing of the dispatcher's environment, no descriptor beyond the three.
func TestB80CleanEnvironment(t *testing.T) {
	t.Setenv("NATS_PASSWORD", "hidden")
	t.Setenv("LD_PRELOAD_NOT", "hidden")
	inherited, err := os.Open("/")
	if err != nil {
		t.Fatal(err)
	}
	defer inherited.Close()
	leak, err := syscall.Dup(int(inherited.Fd())) // not marked close-on-exec, as an inherited one
	if err != nil {
		t.Fatal(err)
	}
	defer syscall.Close(leak)

	dir := t.TempDir()
	v := run(t, t.Context(), exec.Spec{Command: []string{"env"}, Env: map[string]string{"FOO": "bar"}, Dir: dir}, attempt)
	got := strings.Fields(v.Content[0].Text)
	slices.Sort(got)
	want := []string{
		"FOO=bar", "IDEMPOTENCY_KEY=k1", "LANG=C.UTF-8", "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
		"TOLLGATE_ATTEMPT=2", "TOLLGATE_CALL=c1", "TOLLGATE_DEADLINE=2026-03-01T12:00:00.000000005Z", "TOLLGATE_GENERATION=1",
		"TOLLGATE_RUN_ID=run_1/a", "TRACEPARENT=00-ab-cd-01",
	}
	got = slices.DeleteFunc(got, func(s string) bool { return s == "PWD="+dir }) // os/exec sets it with Dir
	if !slices.Equal(got, want) {
		t.Errorf("environment\n%q, want\n%q", got, want)
	}
	// The directory that ls reads is its own fourth descriptor.
	v = run(t, t.Context(), exec.Spec{Command: []string{"ls", "/proc/self/fd"}}, attempt)
	if got := strings.Fields(v.Content[0].Text); !slices.Equal(got, []string{"0", "1", "2", "3"}) {
		t.Errorf("descriptors %v", got)
	}
}

// B80: a value is one argument, and never an option.
func TestB80ArgumentVector(t *testing.T) {
	s := exec.Spec{
		Command: []string{"printf", "[%s]"}, Args: []string{"{/name}", "--n={/deep/0}", "plain"},
	}
	in := attempt
	in.Arguments = []byte(`{"name":"; rm -rf x $(id)","deep":[9007199254740993]}`)
	v := run(t, t.Context(), s, in)
	if !v.OK() || v.Content[0].Text != "[; rm -rf x $(id)][--n=9007199254740993][plain]" {
		t.Errorf("%+v", v)
	}
	for _, bad := range []string{`{"name":"-x","deep":[1]}`, `{"deep":[1]}`, `{"name":null,"deep":[1]}`, `{"name":{},"deep":[1]}`, `{"name":"a\u0000b","deep":[1]}`} {
		in.Arguments = []byte(bad)
		if v := run(t, t.Context(), s, in); v.For != classify.ForRepair || v.Phase != classify.NotSent || v.Code != schemas.CodeInvalidArguments {
			t.Errorf("%s: %+v", bad, v)
		}
	}
	in.Arguments = []byte(`{"name":"x","deep":["-1"]}`)
	if v := run(t, t.Context(), s, in); !v.OK() {
		t.Errorf("a dash behind a prefix is no option: %+v", v)
	}
}

// alive counts the processes that have the marker as an argument.
func alive(t *testing.T, marker string) (n int) {
	t.Helper()
	files, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		if line, err := os.ReadFile(f); err == nil && slices.Contains(strings.Split(string(line), "\x00"), marker) {
			n++
		}
	}
	return n
}

// B77, B04: the whole group is gone within the grace, what was said is kept, and
// pipes held by grandchildren hold nobody up.
func TestB77TimeoutEndsTheProcessTree(t *testing.T) {
	for name, script := range map[string]string{
		"grandchild holds the pipe": "sleep %[1]s & echo hi; wait",
		"ignores TERM":              "trap '' TERM; sleep %[1]s & echo hi; while :; do wait; done",
		"leader leaves at once":     "trap 'exit 0' TERM; (trap '' TERM; sleep %[1]s; sleep %[1]s) & echo hi; wait",
	} {
		t.Run(name, func(t *testing.T) {
			marker := strconv.FormatInt(1000000+time.Now().UnixNano()%1000000, 10)
			ctx, cancel := context.WithTimeoutCause(t.Context(), 300*time.Millisecond, errors.New("own cause"))
			defer cancel()
			began := time.Now()
			v := run(t, ctx, sh(fmt.Sprintf(script, marker)), attempt)
			if took := time.Since(began); took > 5*time.Second {
				t.Errorf("took %v", took)
			}
			if short(v) != "transient no_answer TIMEOUT" || !strings.Contains(v.Message, "output so far: hi") {
				t.Errorf("%s %q", short(v), v.Message)
			}
			if n := alive(t, marker); n != 0 {
				t.Errorf("%d processes of the group are left", n)
			}
		})
	}
}

// B77: what leaves the group is out of reach; it holds nobody up and is reported.
func TestEscapedProcessIsReported(t *testing.T) {
	marker := strconv.FormatInt(2000000+time.Now().UnixNano()%1000000, 10)
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	began := time.Now()
	v := run(t, ctx, sh("setsid sleep "+marker+" & wait"), attempt)
	if took := time.Since(began); took > 5*time.Second || short(v) != "transient no_answer TIMEOUT" ||
		!strings.Contains(v.Message, "left its group") {
		t.Errorf("%s %q after %v", short(v), v.Message, took)
	}
	killMarked(t, marker)
}

// killMarked ends what a test let escape.
func killMarked(t *testing.T, marker string) {
	t.Helper()
	files, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, f := range files {
		if line, err := os.ReadFile(f); err == nil && slices.Contains(strings.Split(string(line), "\x00"), marker) {
			pid, _ := strconv.Atoi(strings.Split(f, "/")[2])
			syscall.Kill(pid, syscall.SIGKILL)
		}
	}
}

// What a command leaves running in its group ends with it.
func TestLeftoversEndWithTheCommand(t *testing.T) {
	marker := strconv.FormatInt(3000000+time.Now().UnixNano()%1000000, 10)
	began := time.Now()
	v := run(t, t.Context(), sh("sleep "+marker+" & echo done"), attempt)
	if took := time.Since(began); !v.OK() || took > time.Second || v.Content[0].Text != "done\n" {
		t.Errorf("%+v after %v", v, took)
	}
	if n := alive(t, marker); n != 0 {
		t.Errorf("%d processes are left", n)
	}
}

func TestShutdownSaysWhy(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	time.AfterFunc(100*time.Millisecond, func() { cancel(errors.New("shutting down")) })
	v := run(t, ctx, sh("sleep 50"), attempt)
	if short(v) != "transient no_answer INTERRUPTED" || !strings.Contains(v.Message, "shutting down") {
		t.Errorf("%s %q", short(v), v.Message)
	}
	if v = run(t, ctx, sh("exit 0"), attempt); short(v) != "transient not_sent INTERRUPTED" {
		t.Errorf("stopped before it began: %s", short(v))
	}
}

// B66: too much is never repeated; size and hash are of the whole where it ended.
func TestOversizeOutput(t *testing.T) {
	small := func(script string) exec.Spec { s := sh(script); s.MaxResult = 1000; return s }
	v := run(t, t.Context(), small("head -c 1500 /dev/zero"), attempt)
	if short(v) != "permanent answered RESULT_TOO_LARGE" || !strings.Contains(v.Message, "1500 bytes") || !strings.Contains(v.Message, zeros(1500)) {
		t.Errorf("%s %q", short(v), v.Message)
	}
	if v = run(t, t.Context(), small("head -c 1000 /dev/zero"), attempt); !v.OK() {
		t.Errorf("at the limit: %s", short(v))
	}
	if v = run(t, t.Context(), small("head -c 1500 /dev/zero; exit 75"), attempt); short(v) != "transient answered EXIT_75" {
		t.Errorf("a failure with much output: %s", short(v))
	}
	began := time.Now()
	v = run(t, t.Context(), small("cat /dev/zero"), attempt)
	if short(v) != "permanent no_answer RESULT_TOO_LARGE" || time.Since(began) > 10*time.Second {
		t.Errorf("endless output: %s after %v", short(v), time.Since(began))
	}
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if v = run(t, ctx, small("head -c 1500 /dev/zero; sleep 50"), attempt); short(v) != "permanent no_answer RESULT_TOO_LARGE" {
		t.Errorf("too much, then too late: %s", short(v))
	}
}

// B78: a machine that is short of something is a passing state, and nothing ran.
func TestMachineIsShort(t *testing.T) {
	e, err := exec.New(sh("exit 0"))
	if err != nil {
		t.Fatal(err)
	}
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &syscall.Rlimit{Cur: 3, Max: limit.Max}); err != nil {
		t.Fatal(err)
	}
	v := e.Execute(t.Context(), attempt)
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	if short(v) != "transient not_sent FORK_FAILED" {
		t.Errorf("no descriptors left: %s", short(v))
	}
	if v = e.Execute(t.Context(), attempt); !v.OK() {
		t.Errorf("afterwards: %s", short(v))
	}
}

func TestCommandCannotStart(t *testing.T) {
	dir := t.TempDir()
	plain := filepath.Join(dir, "plain")
	if err := os.WriteFile(plain, []byte("no program"), 0o644); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{
		filepath.Join(dir, "none"): "permanent not_sent COMMAND_NOT_FOUND",
		plain:                      "permanent not_sent COMMAND_NOT_FOUND",
	} {
		if v := run(t, t.Context(), exec.Spec{Command: []string{path}}, attempt); short(v) != want {
			t.Errorf("%s: %s, want %s", path, short(v), want)
		}
	}
	in := attempt
	in.Arguments = []byte(`{"x":"` + strings.Repeat("a", 1<<20) + `"}`)
	if v := run(t, t.Context(), exec.Spec{Command: []string{"true"}, Args: []string{"{/x}"}}, in); short(v) != "permanent not_sent TOO_LARGE" {
		t.Errorf("argument list too long: %s", short(v))
	}
}

func TestSpecProblemsAreReportedTogether(t *testing.T) {
	_, err := exec.New(exec.Spec{
		Command: []string{"no-such-program-here"}, Args: []string{"{/a}{/b}"}, MaxResult: -1,
		Env: map[string]string{"TOLLGATE_CALL": "x", "A=B": "y"},
	})
	if err == nil {
		t.Fatal("accepted")
	}
	for _, part := range []string{"not in PATH", "{/a}{/b}", "max_result", "TOLLGATE_CALL", `"A=B"`} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("%q is not named in %v", part, err)
		}
	}
	if _, err := exec.New(exec.Spec{}); err == nil {
		t.Error("no command was accepted")
	}
}
