package bench

import (
	"os"
	"testing"
	"time"
)

func TestProf(t *testing.T) {
	s, _ := time.ParseDuration(os.Getenv("SYNC"))
	n := 6000
	r, err := Run(t.Context(), Options{Calls: n, Sync: s, Via: os.Getenv("VIA"), Rounds: 3})
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%+v", r)
}
