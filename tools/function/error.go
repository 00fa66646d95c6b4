package function

import (
	"time"

	"tollgate/schemas"
)

// Error is how a function says what its failure means: the tool error contract,
// with a message. The message is read by people and models: put no secret in it.
type Error struct {
	schemas.ToolErrorBody
	Message string
	Err     error // the cause, for errors.Is; never shown
}

func (e *Error) Error() string {
	if e.Message == "" {
		return e.Code
	}
	return e.Code + ": " + e.Message
}

func (e *Error) Unwrap() error { return e.Err }

// Transient is a failure that may clear by itself. after is the shortest wait
// before it makes sense to come again, 0 if that is not known.
func Transient(code, message string, after time.Duration) *Error {
	return &Error{ToolErrorBody: schemas.ToolErrorBody{Code: code, Retryable: true, RetryAfter: after}, Message: message}
}

// Permanent is a failure that the same arguments will always meet; the model reads it.
func Permanent(code, message string) *Error {
	return &Error{ToolErrorBody: schemas.ToolErrorBody{Code: code}, Message: message}
}

// Stop is a failure that no wait mends and that an operator has to.
func Stop(reason schemas.StopReason, code, message string) *Error {
	return &Error{ToolErrorBody: schemas.ToolErrorBody{Code: code, StopReason: reason}, Message: message}
}
