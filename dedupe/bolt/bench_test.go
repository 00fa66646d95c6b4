package bolt_test

import (
	"testing"

	"tollgate/dedupe/bolt"
)

// What storing a settled call costs beside the disk.
func BenchmarkEncodeSettled(b *testing.B) {
	b.ReportAllocs()
	r, e := settled(1), bolt.NewEncoder()
	for b.Loop() {
		if _, err := e.Record(r); err != nil {
			b.Fatal(err)
		}
	}
}
