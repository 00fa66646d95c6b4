package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func example() report {
	turns := func(rates ...float64) (all []turn) {
		for _, r := range rates {
			all = append(all, turn{JobsPerS: r, StartedMS: 3, SettledMS: 250.4, IdleJobs: 10})
		}
		return all
	}
	return report{
		About: machine{Day: "2026-12-01", Command: "bench/run.sh", Rounds: 3, Jobs: 10, Tollgate: "abc", Asynq: "v1", Redis: "7", River: "v2", Postgres: "15", Go: "go1", Kernel: "Linux", CPUs: 2, CPU: "a CPU"},
		Rows: []row{
			summarise(contender{Name: "T", Durability: everySecond, Way: published}, turns(8000, 2000, 6000)),
			summarise(contender{Name: "T by request", Durability: everySecond, Way: requested}, turns(3000, 3000, 3000)),
			summarise(contender{Name: "A", Durability: everySecond}, turns(1000, 1000, 4000)),
			summarise(contender{Name: "T", Durability: always, Way: published}, turns(1000, 1000, 1000)),
			summarise(contender{Name: "T by request", Durability: always, Way: requested}, turns(3000, 3000, 3000)),
			summarise(contender{Name: "R", Durability: always}, turns(2000, 2000, 2000)),
			summarise(contender{Name: "R in bulk", Durability: always, Extra: true}, turns(1234567, 1234567, 1234567)),
		},
	}
}

func TestTable(t *testing.T) {
	r := example()
	if err := r.ratios(); err != nil {
		t.Fatal(err)
	}
	var got strings.Builder
	r.table(&got)
	want := `| | calls/s | Tollgate is faster by | and by request by | idle: handler starts | idle: end is stored |
|---|--:|--:|--:|--:|--:|
| *synced every second* | | | | | |
| T | 6,000 |  |  | 3.0 ms | 250 ms |
| T by request | 3,000 |  |  | 3.0 ms | 250 ms |
| A | 1,000 | 2.0 × | 3.0 × | 3.0 ms | 250 ms |
| *synced before it counts* | | | | | |
| T | 1,000 |  |  | 3.0 ms | 250 ms |
| T by request | 3,000 |  |  | 3.0 ms | 250 ms |
| R | 2,000 | 0.5 × | 1.5 × | 3.0 ms | 250 ms |
| R in bulk | 1,234,567 |  |  | 3.0 ms | 250 ms |
`
	if head, _, _ := strings.Cut(got.String(), "\nMade on 2026-12-01"); head != want {
		t.Errorf("the table is\n%s", got.String())
	}
}

// Every peer is compared in the rounds it shared with a Tollgate that may lose as much.
func TestRatiosWantATollgateBeside(t *testing.T) {
	for own := range 2 {
		r := example()
		r.Rows = slices.Delete(r.Rows, own, own+1)
		if err := r.ratios(); err == nil {
			t.Error("a peer was compared with nobody")
		}
	}
	r := example()
	r.Rows[0].Turns = r.Rows[0].Turns[:2]
	if err := r.ratios(); err == nil {
		t.Error("three rounds were compared with two")
	}
}

func TestWriteLeavesEveryNumber(t *testing.T) {
	out := filepath.Join(t.TempDir(), "dist", "peers")
	if err := example().write(out); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(out + ".json")
	if err != nil {
		t.Fatal(err)
	}
	var back report
	if err := json.Unmarshal(text, &back); err != nil {
		t.Fatal(err)
	}
	if len(back.Rows) != 7 || len(back.Rows[2].Turns) != 3 || back.Rows[2].Ratio[published] != 2 || back.Rows[2].IdleJobs != 30 || back.About.CPU != "a CPU" {
		t.Errorf("read back: %s", text)
	}
	table, err := os.ReadFile(out + ".md")
	if err != nil || !strings.Contains(string(table), "| A | 1,000 | 2.0 × | 3.0 ×") {
		t.Errorf("%s, %v", table, err)
	}
}

func TestWhatTollgateBenchSays(t *testing.T) {
	got, err := readTollgate([]byte(`{"kind":"Bench","calls_per_s":12.5,"p50_ms":0.5,"fsync_p50_ms":0.1}`))
	if err != nil || got.JobsPerS != 12.5 || got.SettledMS != 0.5 || got.FsyncMS != 0.1 {
		t.Errorf("%+v, %v", got, err)
	}
	for _, other := range []string{`{"kind":"Error"}`, `nothing`} {
		if _, err := readTollgate([]byte(other)); err == nil {
			t.Errorf("%s was read as numbers", other)
		}
	}
}
