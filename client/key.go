package client

import (
	"encoding/json"
	"fmt"

	"tollgate/dedupe"
)

// StepKey is the idempotency key of one step of a run, "{run}:{step}". The step is a
// number or name that the agent has stored before the first call, so that it is the
// same after a crash.
func StepKey(run, step string) string { return run + ":" + step }

// ArgsKey is the key of a call that is named by what it does: the hash of run, tool and
// canonical arguments. It is the one the request/reply endpoint derives when there is
// none. Two calls of a run with the same arguments are then one operation.
func ArgsKey(tool, run string, args any) string {
	body, err := arguments(args)
	if err != nil {
		return unreadable
	}
	return argsKey(tool, run, body)
}

// unreadable stands for the key of arguments that have none. They are refused anyway.
const unreadable = "unreadable"

func argsKey(tool, run string, body []byte) string {
	f, err := dedupe.Fingerprint(body)
	if err != nil {
		return unreadable
	}
	return "args:" + dedupe.CallID("", run, tool, f)
}

// arguments are the bytes that the tool will get.
func arguments(args any) ([]byte, error) {
	switch a := args.(type) {
	case nil:
		return []byte("{}"), nil
	case json.RawMessage:
		return a, nil
	case []byte:
		return a, nil
	}
	body, err := json.Marshal(args)
	if err != nil {
		return nil, fmt.Errorf("%w: arguments: %w", ErrMalformed, err)
	}
	return body, nil
}
