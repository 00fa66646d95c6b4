package contract

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"tollgate/control"
	"tollgate/schemas"
)

// DESIGN 13, B66: a result above the limit is the end of a call that has acted: not
// asked for again, told with size and hash, and nothing to the five calls beside it
// or to the connections that carry them all.
func TestContractAnOversizeResultEndsOneCallAndNothingElse(t *testing.T) {
	b := newBench(t, keyed, "")
	beside := []msg{b.call("function", "fifth", "slow")}
	for _, kind := range kinds {
		beside = append(beside, b.call(kind, "beside", "slow"))
	}
	for _, m := range beside {
		b.publish(m)
	}
	b.each("k1", "huge ok", patiently, func(b *bench, m msg, o *schemas.Outcome) {
		b.expect(m, o, wants{status: schemas.Failed, code: schemas.CodeResultTooLarge, requests: 1, letter: schemas.ReasonFailed})
		if !strings.Contains(o.Error.Message, "SHA-256") || !strings.Contains(o.Error.Message, "bytes") || !b.bank.rows(b.t, m.kind())[callID(m)] {
			b.t.Errorf("error %+v", o.Error)
		}
	})
	for _, m := range beside {
		b.expect(m, b.outcome(m, 20*time.Second), wants{status: schemas.Succeeded, requests: 1})
	}
	for name, nc := range map[string]*nats.Conn{"dispatcher": b.app.Conn(), "tool": b.own, "agent": b.nc} {
		if s := nc.Stats(); s.Reconnects != 0 || nc.LastError() != nil {
			t.Errorf("%s's connection: %d reconnects, %v", name, s.Reconnects, nc.LastError())
		}
	}
	b.sound()
}

// patiently gives large results the time they take on a busy machine.
func patiently(m *msg) { m.header = map[string]string{schemas.HeaderPolicy: "patient"} }

// The other side of the limit: what a tool may answer, an outcome can carry, though
// an outcome holds a JSON result as text as well, and JSON is escaped in JSON.
func TestContractTheLargestResultStillArrives(t *testing.T) {
	b := newBench(t, keyed, "")
	for _, script := range []string{"wide", "angles"} {
		b.each(script, script, patiently, func(b *bench, m msg, o *schemas.Outcome) {
			if script == "wide" {
				b.expect(m, o, wants{status: schemas.Succeeded, requests: 1})
			} else { // too large only as an outcome: an end with a name, not a call without one
				b.expect(m, o, wants{status: schemas.Failed, code: schemas.CodeResultTooLarge, requests: 1, letter: schemas.ReasonFailed})
			}
			if script == "wide" && len(o.Structured) != len(wide("w")) {
				b.t.Errorf("%d bytes of result", len(o.Structured))
			}
			if m.kind() == "http" { // one is enough: the reply is made of the outcome alone
				if again := b.do(m); again.ID != o.ID || len(again.Structured) != len(o.Structured) {
					b.t.Errorf("the endpoint says %s, %d bytes", again.ID, len(again.Structured))
				}
			}
		})
	}
	b.sound()
}

// B04, B77: a tool that neither answers nor stops, a program that ignores SIGTERM
// with a child that does too, a server that stays silent: its slot is free again by
// timeout and grace, and the call behind it runs. What it did is unknown.
func TestContractAToolThatHangsGivesItsSlotBack(t *testing.T) {
	const timeout, grace = 1500 * time.Millisecond, time.Second
	b := newBench(t, never+"concurrency: 1, ", "")
	for _, kind := range kinds {
		b.publish(b.call(kind, "behind-0", "ok")) // so that what comes next starts warm
		b.outcome(b.call(kind, "behind-0", "ok"), 20*time.Second)
		b.publish(b.call(kind, "stuck", "hang"))
		b.publish(b.call(kind, "behind", "ok"))
	}
	for _, kind := range kinds {
		t.Run(kind, func(t *testing.T) {
			b := b.in(t)
			stuck, behind := b.call(kind, "stuck", "hang"), b.call(kind, "behind", "ok")
			o := b.outcome(stuck, 20*time.Second)
			first := b.expect(stuck, o, wants{status: schemas.UnknownOutcome, code: schemas.CodeTimeout, requests: 1, letter: schemas.ReasonUnknownOutcome})
			if took := o.Attempts[0].Ended.Sub(o.Attempts[0].Started); took < timeout || took > timeout+grace+b.slow.late() {
				t.Errorf("the attempt took %v", took)
			}
			second := b.expect(behind, b.outcome(behind, 20*time.Second), wants{status: schemas.Succeeded, requests: 1})
			if waited := second[0].at.Sub(first[0].at); waited < timeout-b.slow.late() || waited > timeout+grace+b.slow.late() {
				t.Errorf("the call behind it waited %v", waited)
			}
			if d := ask[control.ToolDetail](b.world, control.VerbToolShow, control.ToolQuery{Tool: stuck.tool}); d.Running != 0 {
				t.Errorf("%d slots taken", d.Running)
			}
		})
	}
	if st := ask[control.Status](b.world, control.VerbStatus, control.Empty{}); st.Abandoned != 1 || st.Running != 0 {
		t.Errorf("abandoned %d, want the function only; running %d", st.Abandoned, st.Running)
	}
	b.childGone(b.call("exec", "stuck", "hang"))
	b.sound()
}

// childGone checks that nothing is left of a program that was killed.
func (b *bench) childGone(m msg) {
	b.t.Helper()
	text, err := os.ReadFile(filepath.Join(b.bank.dir, "seen", callID(m)+".1", "child"))
	if err != nil {
		b.t.Fatal(err)
	}
	pid, err := strconv.Atoi(string(text))
	if err != nil {
		b.t.Fatal(err)
	}
	for end := time.Now().Add(5 * time.Second); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		stat, _ := os.ReadFile("/proc/" + string(text) + "/stat")
		if errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) || strings.Contains(string(stat), ") Z ") {
			return
		}
	}
	b.t.Errorf("the child %d of the program is still there", pid)
}

// B70: four panics in a pool of two, and the pool is still one of two. The stack is
// in the log, not on the letter. A panic is no answer: repeated only where it is safe.
func TestContractAPanicCostsTheCallAndNotThePool(t *testing.T) {
	for declared, attempts := range map[string]int{never: 1, keyed: 4} {
		b := newBench(t, declared+"concurrency: 2, ", "")
		want := wants{status: schemas.UnknownOutcome, code: schemas.CodePanic, requests: attempts, letter: schemas.ReasonUnknownOutcome}
		if attempts > 1 {
			want.status, want.code, want.letter = schemas.Exhausted, schemas.CodeCallAttempts, schemas.ReasonExhaustedAttempts
		}
		var broken []msg
		for _, key := range []string{"p1", "p2", "p3", "p4"} {
			broken = append(broken, b.call("function", key, "panic"))
			b.publish(broken[len(broken)-1])
		}
		for _, m := range broken {
			o := b.outcome(m, 20*time.Second)
			b.expect(m, o, want)
			if l := b.letter(m, want.letter); o.NextAction != schemas.Reconcile || strings.Contains(l.Message, "goroutine ") || l.Outcome == nil {
				t.Errorf("outcome %+v, letter %q", o, l.Message)
			}
		}
		if text := b.log.String(); strings.Count(text, "tool panicked") != 4*attempts || !strings.Contains(text, "goroutine ") {
			t.Errorf("the log says of %d panics: %d", 4*attempts, strings.Count(text, "tool panicked"))
		}
		b.poolOfTwo()
		b.sound()
	}
}

// poolOfTwo runs three calls of 400 ms: two at once, the third when one has ended.
func (b *bench) poolOfTwo() {
	b.t.Helper()
	var at []time.Time
	for _, key := range []string{"s1", "s2", "s3"} {
		b.publish(b.call("function", key, "slow"))
	}
	for _, key := range []string{"s1", "s2", "s3"} {
		m := b.call("function", key, "slow")
		at = append(at, b.expect(m, b.outcome(m, 20*time.Second), wants{status: schemas.Succeeded, requests: 1})[0].at)
	}
	slices.SortFunc(at, time.Time.Compare)
	if second, third := at[1].Sub(at[0]), at[2].Sub(at[0]); second > b.slow.late() || third < 400*time.Millisecond {
		b.t.Errorf("the second call started after %v, the third after %v: not a pool of two", second, third)
	}
}
