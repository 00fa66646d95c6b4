package embedded

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// A server that hangs says nothing of itself, and does not stop. Both are waited for so
// long, and then it is ill, or left.
func TestAServerThatHangsIsNotWaitedForForEver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan bool)
		began := time.Now()
		err := within(answerWithin, func() error { <-release; return nil })
		if took := time.Since(began); !errors.Is(err, errHangs) || took != answerWithin {
			t.Errorf("%v after %s", err, took)
		}
		close(release)
		mine := errors.New("mine")
		if err := within(answerWithin, func() error { return mine }); !errors.Is(err, mine) {
			t.Errorf("another answer: %v", err)
		}
		if err := within(answerWithin, func() error { return nil }); err != nil {
			t.Error(err)
		}
	})
}
