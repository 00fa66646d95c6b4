package soak

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/rs/zerolog"

	"tollgate/control"
	"tollgate/deadletter"
	"tollgate/internal/embedded"
	"tollgate/internal/worldtest"
	"tollgate/schemas"
)

// B31: thousands of letters are all counted, grouped and reached right after a start,
// what is decided about one shows at once, and they need little memory.
func TestB31ThousandsOfLettersAreGroupedAtOnce(t *testing.T) {
	manyLetters(t, 5000, 2*time.Second, 100)
}

// manyLetters starts the real program on so many dead letters in 50 groups. The first
// look at them has to come in time, and they may cost so many megabytes.
func manyLetters(t *testing.T, n int, within time.Duration, megabytes int) {
	const groups = 50
	p := newProgram(t, "http://127.0.0.1:1")
	if err := p.start(t.Context()); err != nil {
		t.Fatal(err)
	}
	time.Sleep(time.Second)
	before := p.memory(t, "VmRSS")
	p.kill()
	fill(t, p, n, groups)
	if err := p.start(t.Context()); err != nil {
		t.Fatal(err)
	}
	nc, err := nats.Connect(p.url, nats.MaxReconnects(-1), nats.ReconnectWait(10*time.Millisecond), nats.ReconnectJitter(0, 0)) // the wait is not the look's
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	subjects, _ := schemas.NewSubjects("")
	w := &looker{t, &control.Client{NATS: nc, Subjects: subjects, By: "soak"}}

	_, never := look[control.GroupsPage](w, control.VerbGroups, control.GroupsQuery{}) // nobody has read them before
	for end := time.Now().Add(time.Minute); !exists(filepath.Join(p.dir, "ledger.db.letters")); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("no snapshot of the index was written")
		}
	}
	p.kill()
	if err := p.start(t.Context()); err != nil {
		t.Fatal(err)
	}
	page, first := look[control.GroupsPage](w, control.VerbGroups, control.GroupsQuery{})
	if first > within {
		t.Errorf("the first look took %s", first)
	}
	time.Sleep(5 * time.Second) // what the reading needed is given back
	after := p.memory(t, "VmRSS")
	if after-before > megabytes {
		t.Errorf("the letters cost %d MB", after-before)
	}
	if page.Total != n || page.Count != groups || len(page.Groups) != groups {
		t.Errorf("%d letters in %d groups", page.Total, page.Count)
	}
	for _, g := range page.Groups {
		if g.Count != n/groups || g.Runs == 0 || g.Tool == "" || g.Error == "" || len(g.Trend) != 24 {
			t.Errorf("group %+v", g)
		}
	}
	_, second := look[control.GroupsPage](w, control.VerbGroups, control.GroupsQuery{})
	w.reachesAll(n)
	w.decides(page.Groups[0].Newest, n)
	if second > within/2 {
		t.Errorf("the second look took %s", second)
	}
	t.Logf("%d letters: first look ever %s, after a start %s, second %s; %d MB before, %d MB with them, %d MB at most", n, never, first, second, before, after, p.memory(t, "VmHWM"))
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// fill writes letters into the program's stream and ledger while it is down. Its
// ledger is then another file than the one the server has seen, so both are new.
func fill(t *testing.T, p *program, n, groups int) {
	for _, old := range []string{"nats", "ledger.db"} {
		if err := os.RemoveAll(filepath.Join(p.dir, old)); err != nil {
			t.Fatal(err)
		}
	}
	s, err := embedded.Start(embedded.Options{StoreDir: filepath.Join(p.dir, "nats"), SyncInterval: time.Minute, Logger: zerolog.Nop()})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Shutdown()
	nc, err := s.Conn()
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	worldtest.Fill(t, js, filepath.Join(p.dir, "ledger.db"), n, groups)
}

// memory is a line of the program's status, in megabytes.
func (p *program) memory(t *testing.T, name string) int {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.cmd.Process.Pid))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if fields := strings.Fields(line); len(fields) == 3 && fields[0] == name+":" {
			kb, err := strconv.Atoi(fields[1])
			if err != nil {
				t.Fatal(err)
			}
			return kb / 1024
		}
	}
	t.Fatalf("%s is not in the status", name)
	return 0
}

// looker asks and measures.
type looker struct {
	*testing.T
	ctl *control.Client
}

func look[A any](w *looker, verb string, q any) (A, time.Duration) {
	w.Helper()
	var a A
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	began := time.Now()
	if err := w.ctl.Ask(ctx, verb, q, &a); err != nil {
		w.Fatalf("%s: %v", verb, err)
	}
	return a, time.Since(began)
}

func (w *looker) reachesAll(n int) {
	w.Helper()
	seen := map[string]bool{}
	for f := (deadletter.Filter{Limit: 10000}); ; {
		set, _ := look[control.LetterIDs](w, control.VerbLetterIDs, f)
		for _, id := range set.IDs {
			seen[id] = true
		}
		if f.Before = set.Next; set.Next == 0 {
			break
		}
	}
	page, _ := look[deadletter.Page](w, control.VerbLetterList, deadletter.Filter{Sort: "died", Limit: 2})
	if len(seen) != n || page.Total != n || len(page.Letters) != 2 {
		w.Errorf("%d letters are named, %d counted, want %d", len(seen), page.Total, n)
	}
}

// decides discards one letter, which shows everywhere at once.
func (w *looker) decides(id string, n int) {
	w.Helper()
	look[control.Done](w, control.VerbDiscard, control.LetterQuery{ID: id, Why: "seen"})
	groups, _ := look[control.GroupsPage](w, control.VerbGroups, control.GroupsQuery{})
	l, took := look[schemas.Letter](w, control.VerbLetterShow, control.IDQuery{ID: id})
	if groups.Total != n-1 || l.State != schemas.LetterDiscarded || len(l.Arguments) < 290 || took > time.Second {
		w.Errorf("after a discard there are %d, and it is %s (%s)", groups.Total, l.State, took)
	}
	st, _ := look[control.LetterStats](w, control.VerbStats, deadletter.Filter{})
	if st.Active != n-1 || st.Discarded != 1 || st.Bytes == 0 {
		w.Errorf("stats %+v", st)
	}
}
