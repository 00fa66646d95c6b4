//go:build soak

package matrix

import (
	"fmt"
	"os"
	"testing"
	"text/tabwriter"
)

// TestSoakMatrix is the full matrix: every story, every operation, every kind, every
// n. It prints how many faults happened in each cell.
func TestSoakMatrix(t *testing.T) {
	out := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', tabwriter.AlignRight)
	defer out.Flush()
	fmt.Fprint(out, "story\toperation\t")
	for _, k := range kinds {
		fmt.Fprintf(out, "%s\t", k)
	}
	fmt.Fprintln(out)
	all := 0
	for _, s := range stories() {
		happened := map[op]map[kind]int{}
		for _, c := range cells(s) {
			if happened[c.op] == nil {
				happened[c.op] = map[kind]int{}
			}
			n := c.run(t)
			happened[c.op][c.kind] = n
			all += n
		}
		for _, o := range ops {
			fmt.Fprintf(out, "%s\t%s\t", s.name, o)
			for _, k := range kinds {
				fmt.Fprintf(out, "%d\t", happened[o][k])
			}
			fmt.Fprintln(out)
		}
	}
	fmt.Fprintf(out, "faults in all\t%d\t\n", all)
}
