package agent

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Code classifies an [Error]. Activities map it to Temporal's retryability, the gateway to gRPC and HTTP statuses.
type Code string

// The codes. A busy session or a repeated decision is a conflict. A caller without a valid credential is unauthenticated, a caller without permission
// is denied.
const (
	CodeInvalid         Code = "invalid"
	CodeNotFound        Code = "not_found"
	CodeUnauthenticated Code = "unauthenticated"
	CodeDenied          Code = "denied"
	CodeConflict        Code = "conflict"
	CodeRateLimited     Code = "rate_limited"
	CodeUnavailable     Code = "unavailable"
	CodeOverflow        Code = "overflow"
	CodeCancelled       Code = "cancelled"
	CodeInternal        Code = "internal"
)

// Retryable reports whether the runtime retries a step of a turn that failed with the code. It does not apply to failures of providers and tools,
// which are data.
func (c Code) Retryable() bool {
	switch c {
	case CodeInvalid, CodeNotFound, CodeDenied, CodeConflict, CodeOverflow, CodeCancelled:
		return false
	case CodeUnavailable, CodeRateLimited, CodeInternal, CodeUnauthenticated:
		return true
	default:
		return true
	}
}

// Error is the error type that all packages share.
type Error struct {
	Code       Code
	Op         string        // the operation, e.g. "call model"; may be empty
	Field      string        // path of the invalid field, e.g. "messages[0].role"; may be empty
	RetryAfter time.Duration // the delay before a retry; 0 if unknown
	Err        error         // the cause, never nil
	Public     string        // the message for callers if Err is only for the log; may be empty
}

func (e *Error) Error() string {
	s := e.Err.Error()
	if e.Field != "" {
		s = e.Field + ": " + s
	}
	if e.Op != "" {
		s = e.Op + ": " + s
	}
	return s
}

func (e *Error) Unwrap() error { return e.Err }

// ErrOutcomeUnknown is wrapped by the error of a write that may have succeeded although its answer was lost.
var ErrOutcomeUnknown = errors.New("it may have been done all the same")

// Errorf returns an [Error]. The format may use %w.
func Errorf(code Code, op, format string, args ...any) *Error {
	return &Error{Code: code, Op: op, Err: fmt.Errorf(format, args...)}
}

// FieldErrorf returns an [Error] about a field. The format may use %w.
func FieldErrorf(code Code, field, format string, args ...any) *Error {
	return &Error{Code: code, Field: field, Err: fmt.Errorf(format, args...)}
}

// Invalid returns a [CodeInvalid] error about a field. The format may use %w.
func Invalid(field, format string, args ...any) *Error {
	return FieldErrorf(CodeInvalid, field, format, args...)
}

// Interrupted returns nil while ctx is active. After that it returns the context's error, with [CodeCancelled] if ctx was cancelled and
// with [CodeUnavailable] if its deadline has passed.
func Interrupted(ctx context.Context, op string) error {
	err := ctx.Err()
	switch {
	case err == nil:
		return nil
	case errors.Is(err, context.DeadlineExceeded):
		return &Error{Code: CodeUnavailable, Op: op, Err: err}
	default:
		return &Error{Code: CodeCancelled, Op: op, Err: err}
	}
}

// CodeOf returns the code of the first [Error] in err's chain, [CodeInternal] if there is none, "" for nil.
func CodeOf(err error) Code {
	if err == nil {
		return ""
	}
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Code
	}
	return CodeInternal
}

// Failure is an error as data in a result, an event or a verdict.
type Failure struct {
	Type      string `json:"type"`             // a [Code], a [StopReason] or [JobExecutionError]
	Message   string `json:"message"`          // for people; it has no secrets
	Retryable bool   `json:"retryable"`        // whether the same request may succeed later
	Tool      string `json:"tool,omitempty"`   // the tool that failed
	Step      string `json:"step,omitempty"`   // the pipeline step that failed
	Field     string `json:"field,omitempty"`  // the invalid field
	Faults    Faults `json:"faults,omitempty"` // the faults of catalog documents
}

// FailureOf returns an error as a [Failure], nil for nil.
func FailureOf(err error) *Failure {
	if err == nil {
		return nil
	}
	f := &Failure{Type: string(CodeOf(err)), Message: err.Error()}
	if e, ok := errors.AsType[*Error](err); ok {
		f.Field = e.Field
		if e.Public != "" {
			f.Message = e.Public
		}
	}
	if faults, ok := errors.AsType[Faults](err); ok {
		f.Faults = faults
	}
	code := CodeOf(err)
	f.Retryable = code == CodeRateLimited || code == CodeUnavailable
	return f
}

// AsError returns the failure as an [Error].
func (f *Failure) AsError() *Error {
	switch c := Code(f.Type); c {
	case CodeInvalid, CodeNotFound, CodeUnauthenticated, CodeDenied, CodeConflict, CodeRateLimited, CodeUnavailable, CodeOverflow, CodeCancelled:
		return &Error{Code: c, Err: errors.New(f.Message)}
	default:
		return &Error{Code: CodeInternal, Err: errors.New(f.Message)}
	}
}
