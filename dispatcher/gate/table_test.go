package gate_test

import (
	"cmp"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"tollgate/dispatcher/gate"
)

var update = flag.Bool("update", false, "rewrite the truth tables in testdata")

// dim is one fact with all its values.
type dim[F any] struct {
	name   string
	values []string
	set    func(*F, int)
}

// yes is a fact that holds or does not.
func yes[F any](name string, set func(*F, bool)) dim[F] {
	return dim[F]{name, []string{"no", "yes"}, func(f *F, i int) { set(f, i == 1) }}
}

// row is every combination of facts that leads to one decision: for each fact, the
// values that occur, as bits.
type row struct {
	decision gate.Decision
	count    int
	seen     []uint16
}

// table is what a walk has found.
type table map[gate.Decision]*row

// walk decides every combination of dims on top of base, counts it in t, and
// checks it.
func walk[F any](t table, base F, dims []dim[F], decide func(F) gate.Decision, check func(F, gate.Decision)) {
	at := make([]int, len(dims))
	f := base
	for i := range dims {
		dims[i].set(&f, 0)
	}
	for {
		d := decide(f)
		check(f, d)
		r := t[d]
		if r == nil {
			r = &row{decision: d, seen: make([]uint16, len(dims))}
			t[d] = r
		}
		r.count++
		for i, v := range at {
			r.seen[i] |= 1 << v
		}
		i := 0
		for ; i < len(dims); i++ { // the next combination, like an odometer
			at[i] = (at[i] + 1) % len(dims[i].values)
			dims[i].set(&f, at[i])
			if at[i] != 0 {
				break
			}
		}
		if i == len(dims) {
			return
		}
	}
}

// text writes the table so that a person can review it: per decision, how many
// combinations lead to it and which facts have the same few values in all of them.
func text[F any](t table, dims []dim[F]) string {
	rows := make([]*row, 0, len(t))
	for _, r := range t {
		rows = append(rows, r)
	}
	slices.SortFunc(rows, func(a, b *row) int { return cmp.Compare(name(a.decision), name(b.decision)) })
	var out strings.Builder
	for _, r := range rows {
		fmt.Fprintf(&out, "%s  (%d combinations)\n", name(r.decision), r.count)
		for i, d := range dims {
			var values []string
			for v, label := range d.values {
				if r.seen[i]&(1<<v) != 0 {
					values = append(values, label)
				}
			}
			if len(values) < len(d.values) {
				fmt.Fprintf(&out, "    %-16s %s\n", d.name, strings.Join(values, ", "))
			}
		}
	}
	return out.String()
}

func name(d gate.Decision) string {
	parts := []string{d.Action.String(), d.Why}
	for _, p := range []string{string(d.Status), d.Code, d.Budget.Dimension.String()} {
		if p != "" {
			parts = append(parts, p)
		}
	}
	if d.Owes {
		parts = append(parts, "owes")
	}
	if d.Frees {
		parts = append(parts, "frees")
	}
	return strings.Join(parts, " ")
}

// golden compares with the reviewed table.
func golden(t *testing.T, file, got string) {
	t.Helper()
	path := "testdata/" + file
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatalf("%v (go test ./dispatcher/gate -update writes it; then review it)", err)
	}
	if got != string(want) {
		t.Errorf("the gate decides otherwise than %s says. If that is meant: go test ./dispatcher/gate -update, and review the diff. Now:\n%s", path, got)
	}
}
