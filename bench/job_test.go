package main

import (
	"encoding/json"
	"strings"
	"testing"
)

// What is enqueued and answered is as large as the table says, whatever the job.
func TestJobsAreOfOneSize(t *testing.T) {
	for _, n := range []int{0, 7, 99_999_999} {
		body, err := json.Marshal(newPayload(n))
		if err != nil || len(body) != payloadBytes {
			t.Errorf("job %d has %d bytes, %v: %s", n, len(body), err, body)
		}
		var back payload
		if err := json.Unmarshal(body, &back); err != nil {
			t.Fatal(err)
		}
		if got, err := back.number(); got != n || err != nil {
			t.Errorf("job %d is read as %d, %v", n, got, err)
		}
	}
	if len(result) != resultBytes || !json.Valid(result) {
		t.Errorf("the result has %d bytes: %s", len(result), result)
	}
}

func TestTallyKnowsWhatDidNotRunOnce(t *testing.T) {
	count := newTally(4)
	run := func(n int) {
		if err := count.run(newPayload(n)); err != nil {
			t.Fatal(err)
		}
	}
	run(0)
	run(1)
	if err := count.exactlyOnce(2); err != nil {
		t.Errorf("two jobs ran once each: %v", err)
	}
	if err := count.exactlyOnce(3); err == nil || !strings.Contains(err.Error(), "job 2 ran 0 times") {
		t.Errorf("a lost job: %v", err)
	}
	first := count.started(1)
	run(1)
	if err := count.exactlyOnce(2); err == nil || !strings.Contains(err.Error(), "job 1 ran 2 times") {
		t.Errorf("a job that ran twice: %v", err)
	}
	if count.ran.Load() != 2 || !count.started(1).Equal(first) {
		t.Error("a second run counts as another job, or moves its start")
	}
	run(3)
	if err := count.exactlyOnce(2); err == nil || !strings.Contains(err.Error(), "job 3 ran 1 times: want 0") {
		t.Errorf("a job that was not sent: %v", err)
	}
	if err := count.run(newPayload(4)); err == nil {
		t.Error("a job beyond all that were sent was counted")
	}
	if err := count.run(payload{Number: "one"}); err == nil {
		t.Error("a job without a number was counted")
	}
}
