package bolt_test

import (
	"fmt"

	"github.com/anishathalye/porcupine"
)

// What one key may do, one step after the other: it is claimed once at a time, by a
// first submission or by the carrier its last settle named, and has one outcome.
type (
	keyState struct {
		held    bool
		tries   int
		carrier uint64 // token of the carrier that may claim; 0: none
		outcome string
	}
	claimed struct {
		carrier uint64 // 0: a submission
		attempt int
	}
	armed     struct{ carrier uint64 }
	concluded struct{ outcome string } // by the attempt that held the key
	unrun     struct {
		carrier uint64
		outcome string
	} // settled without an attempt
	attached struct{} // told that somebody else is at it
	repeated struct{ outcome string }
)

// They are called through a type parameter.
var (
	_ = keyState.next
	_ = accounts.next
)

func (s keyState) next(in any) (keyState, bool) {
	fresh := s == keyState{}
	switch op := in.(type) {
	case claimed:
		ok := !s.held && s.outcome == "" && op.attempt == s.tries+1 && (fresh && op.carrier == 0 || !fresh && op.carrier == s.carrier)
		return keyState{held: true, tries: op.attempt}, ok
	case armed:
		return keyState{tries: s.tries, carrier: op.carrier}, s.held
	case concluded:
		return keyState{tries: s.tries, outcome: op.outcome}, s.held
	case unrun:
		ok := !s.held && s.outcome == "" && (fresh && op.carrier == 0 || !fresh && op.carrier == s.carrier)
		return keyState{tries: s.tries, outcome: op.outcome}, ok
	case attached:
		return s, s.held || s.carrier != 0
	case repeated:
		return s, op.outcome != "" && op.outcome == s.outcome
	}
	return s, false
}

// What the accounts of one run may do: the root's and those of two children.
type (
	accounts struct{ attempts, attemptsLimit, effects, effectsLimit [3]int }
	charged  struct{ child int }
	ended    struct { // an attempt's settle: the refund and the decision are one step
		child  int
		refund bool
		retry  bool   // there was room for one more
		full   string // the dimension that refused it
	}
	refused struct {
		child int
		full  string
	}
	granted struct{ account, attempts, effects int }
	read    struct{ seen accounts }
)

// full names the dimension that refuses a write of the child; "" where none does.
func (s accounts) full(child int) string {
	for _, i := range []int{0, child} {
		switch {
		case s.attempts[i] >= s.attemptsLimit[i]:
			return "attempts"
		case s.effects[i] >= s.effectsLimit[i]:
			return "side_effects"
		}
	}
	return ""
}

func (s accounts) next(in any) (accounts, bool) {
	switch op := in.(type) {
	case charged:
		ok := s.full(op.child) == ""
		for _, i := range []int{0, op.child} {
			s.attempts[i]++
			s.effects[i]++
		}
		return s, ok
	case ended:
		if op.refund {
			s.effects[0]--
			s.effects[op.child]--
		}
		switch {
		case op.full != "":
			return s, s.full(op.child) == op.full
		case op.retry:
			return s, s.full(op.child) == ""
		}
		return s, true
	case refused:
		return s, s.full(op.child) == op.full
	case granted:
		s.attemptsLimit[op.account] += op.attempts
		s.effectsLimit[op.account] += op.effects
		return s, true
	case read:
		return s, s == op.seen
	}
	return s, false
}

// sequential makes a porcupine model of a state that steps. What an operation was
// told is in its input: it is what it claims to have done.
func sequential[S interface{ next(any) (S, bool) }](start S) porcupine.Model {
	return porcupine.Model{
		Init: func() any { return start },
		Step: func(state, in, _ any) (bool, any) {
			s, ok := state.(S).next(in)
			return ok, s
		},
		DescribeOperation: func(in, _ any) string { return fmt.Sprintf("%T%+v", in, in) },
	}
}
