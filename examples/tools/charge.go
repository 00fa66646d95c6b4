package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"go.etcd.io/bbolt"
)

// charge is one row. It is also the answer.
type charge struct {
	ID       string    `json:"id"`
	Customer string    `json:"customer"`
	Cents    int64     `json:"cents"`
	At       time.Time `json:"at"`
}

// charger is the tool.
type charger struct {
	db  *bbolt.DB
	now func() time.Time
}

var charges = []byte("charges") // idempotency key → charge

func (c *charger) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	key := r.Header.Get("Idempotency-Key")
	var want charge
	switch err := json.NewDecoder(http.MaxBytesReader(w, r.Body, 64<<10)).Decode(&want); {
	case r.Method != http.MethodPost:
		fail(w, http.StatusMethodNotAllowed, "USE_POST", false)
	case key == "": // without it a repeat cannot be told from a second charge
		fail(w, http.StatusBadRequest, "NO_IDEMPOTENCY_KEY", false)
	case err != nil || want.Customer == "" || want.Cents <= 0:
		fail(w, http.StatusUnprocessableEntity, "BAD_CHARGE", false)
	default:
		c.answer(w, key, want)
	}
}

func (c *charger) answer(w http.ResponseWriter, key string, want charge) {
	row, repeated, err := c.once(key, want)
	switch {
	case err != nil: // the transaction is rolled back: nothing was charged, and it may be tried again
		fail(w, http.StatusServiceUnavailable, "DATABASE", true)
		return
	case row.Customer != want.Customer || row.Cents != want.Cents:
		fail(w, http.StatusConflict, "KEY_REUSED", false)
		return
	case repeated:
		w.Header().Set("Idempotent-Replayed", "true")
	}
	reply(w, http.StatusOK, row)
}

// once makes the charge for a key, or finds the one that was made.
func (c *charger) once(key string, want charge) (row charge, repeated bool, err error) {
	err = c.db.Update(func(tx *bbolt.Tx) error {
		table, err := tx.CreateBucketIfNotExists(charges)
		if err != nil {
			return err
		}
		if was := table.Get([]byte(key)); was != nil {
			repeated = true
			return json.Unmarshal(was, &row)
		}
		n, err := table.NextSequence()
		if err != nil {
			return err
		}
		row = want
		row.ID, row.At = fmt.Sprintf("ch_%d", n), c.now().UTC()
		b, err := json.Marshal(row)
		if err != nil {
			return err
		}
		return table.Put([]byte(key), b)
	})
	return row, repeated, err
}

// fail answers with the tool error contract: all four members, whatever they say.
func fail(w http.ResponseWriter, status int, code string, retryable bool) {
	reply(w, status, map[string]any{"code": code, "retryable": retryable, "retry_after_ms": nil, "stop_reason": nil})
}

func reply(w http.ResponseWriter, status int, body any) {
	b, err := json.Marshal(body)
	if err != nil {
		status, b = http.StatusInternalServerError, nil
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(b) // a caller that is gone asks again
}
