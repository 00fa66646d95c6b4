package dispatcher

import (
	"strconv"
	"time"

	"tollgate/schemas"
)

// Header is what a tool is told about the attempt, beside the arguments. Every
// executor passes all of it on, as headers or as environment variables.
func (in Invocation) Header() schemas.Header {
	h := schemas.Header{
		schemas.HeaderKey:        {in.Key},
		schemas.HeaderRun:        {in.Run},
		schemas.HeaderCall:       {in.Call},
		schemas.HeaderAttempt:    {strconv.Itoa(in.Attempt)},
		schemas.HeaderGeneration: {strconv.Itoa(in.Generation)},
	}
	if !in.Deadline.IsZero() {
		h[schemas.HeaderDeadline] = []string{in.Deadline.UTC().Format(time.RFC3339Nano)}
	}
	if in.TraceParent != "" {
		h[schemas.HeaderTraceParent] = []string{in.TraceParent}
	}
	if in.TraceState != "" {
		h[schemas.HeaderTraceState] = []string{in.TraceState}
	}
	return h
}
