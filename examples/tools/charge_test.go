package main

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"go.etcd.io/bbolt"
	berrors "go.etcd.io/bbolt/errors"

	"tollgate/dispatcher"
	"tollgate/dispatcher/classify"
	toolhttp "tollgate/tools/http"
)

func open(t *testing.T) *charger {
	t.Helper()
	db, err := bbolt.Open(filepath.Join(t.TempDir(), "charges.db"), 0o600, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	return &charger{db: db, now: time.Now}
}

func (c *charger) rows(t *testing.T) (n int) {
	t.Helper()
	err := c.db.View(func(tx *bbolt.Tx) error {
		if b := tx.Bucket(charges); b != nil {
			n = b.Stats().KeyN
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// attempt is one attempt as the dispatcher makes it.
func attempt(t *testing.T, url, key, args string) classify.Verdict {
	t.Helper()
	e, err := toolhttp.New(toolhttp.Spec{URL: url})
	if err != nil {
		t.Error(err)
		return classify.Verdict{}
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	return e.Execute(ctx, dispatcher.Invocation{Tool: "charge", Key: key, Arguments: []byte(args)})
}

// However often and however many at once ask with one key, there is one row, and every
// answer is the first one's.
func TestOneKeyIsOneRow(t *testing.T) {
	c := open(t)
	lose := make(chan struct{}, 1)
	lose <- struct{}{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		select {
		case <-lose: // the row is stored and the answer lost
			c.ServeHTTP(httptest.NewRecorder(), r)
			panic(http.ErrAbortHandler)
		default:
			c.ServeHTTP(w, r)
		}
	}))
	t.Cleanup(server.Close)
	const args = `{"customer":"ada","cents":1200}`
	if v := attempt(t, server.URL, "k1", args); v.OK() || v.Phase != classify.NoAnswer || c.rows(t) != 1 {
		t.Fatalf("the lost answer: %+v, %d rows", v, c.rows(t))
	}
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			v := attempt(t, server.URL, "k1", args)
			var row charge
			if err := json.Unmarshal(v.Structured, &row); !v.OK() || !v.ToolRepeated || err != nil || row.ID != "ch_1" {
				t.Errorf("again: %+v", v)
			}
		})
	}
	wg.Wait()
	if v := attempt(t, server.URL, "k2", args); !v.OK() || v.ToolRepeated || c.rows(t) != 2 {
		t.Errorf("another key: %+v, %d rows", v, c.rows(t))
	}
}

func TestWhatIsNoCharge(t *testing.T) {
	c := open(t)
	server := httptest.NewServer(c)
	t.Cleanup(server.Close)
	if v := attempt(t, server.URL, "k", `{"customer":"ada","cents":1}`); !v.OK() {
		t.Fatalf("%+v", v)
	}
	for _, tc := range []struct{ key, args, code string }{
		{"k", `{"customer":"ada","cents":2}`, "KEY_REUSED"},
		{"k2", `{"customer":"ada"}`, "BAD_CHARGE"},
		{"k3", `{"customer":"` + strings.Repeat("a", 70<<10) + `","cents":1}`, "BAD_CHARGE"},
		{"", `{"customer":"ada","cents":1}`, "NO_IDEMPOTENCY_KEY"},
	} {
		if v := attempt(t, server.URL, tc.key, tc.args); v.Code != tc.code || v.Class != classify.Permanent {
			t.Errorf("%s: %+v", tc.code, v)
		}
	}
	if err := c.db.Close(); err != nil {
		t.Fatal(err)
	}
	if v := attempt(t, server.URL, "k4", `{"customer":"ada","cents":1}`); v.Code != "DATABASE" || v.Class != classify.Transient {
		t.Errorf("without a database: %+v", v)
	}
	if _, _, err := c.once("k", charge{}); !errors.Is(err, berrors.ErrDatabaseNotOpen) {
		t.Errorf("%v", err)
	}
}
