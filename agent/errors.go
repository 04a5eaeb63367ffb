package agent

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Code classifies an [Error]. It is mapped in exactly two files: activities to Temporal retryability, gateway to gRPC and
// HTTP status.
type Code string

// The codes. A busy session and a decision made twice are a conflict. A caller without a valid credential is unauthenticated; one that
// lacks a permission is denied.
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

// Retryable reports whether the runtime tries a step of a turn again that failed with a code. It is not asked about failures of a
// provider or a tool: those are data.
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
	Op         string        // what was being done, e.g. "call model"; may be empty
	Field      string        // path of the offending field, e.g. "messages[0].role"; empty when no field is at fault
	RetryAfter time.Duration // how long the other side asked to wait; 0 when it did not
	Err        error         // the cause, never nil
	Public     string        // what callers read instead of Err, which is for the log; empty: the text of Err
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

// ErrOutcomeUnknown marks the error of a write that may have succeeded: its answer was lost.
var ErrOutcomeUnknown = errors.New("it may have been done all the same")

// Errorf makes an [Error] of a code; %w wraps.
func Errorf(code Code, op, format string, args ...any) *Error {
	return &Error{Code: code, Op: op, Err: fmt.Errorf(format, args...)}
}

// FieldErrorf makes an [Error] of a code about a field; %w wraps.
func FieldErrorf(code Code, field, format string, args ...any) *Error {
	return &Error{Code: code, Field: field, Err: fmt.Errorf(format, args...)}
}

// Invalid makes a [CodeInvalid] error about a field.
func Invalid(field, format string, args ...any) *Error {
	return FieldErrorf(CodeInvalid, field, format, args...)
}

// Interrupted returns nil while ctx is active. Afterwards it returns the context's error, with [CodeCancelled] if ctx was cancelled and
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

// CodeOf returns the code of the first [Error] in err's chain, [CodeInternal] when there is none, "" for nil.
func CodeOf(err error) Code {
	if err == nil {
		return ""
	}
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Code
	}
	return CodeInternal
}

// Failure is an error as data: what a result, an event or a verdict carries.
type Failure struct {
	Type      string `json:"type"`             // a [Code], a [StopReason] or [JobExecutionError]
	Message   string `json:"message"`          // for a person; never a secret
	Retryable bool   `json:"retryable"`        // whether the same request may succeed later
	Tool      string `json:"tool,omitempty"`   // the tool that failed
	Step      string `json:"step,omitempty"`   // the pipeline step that failed
	Field     string `json:"field,omitempty"`  // the field at fault
	Faults    Faults `json:"faults,omitempty"` // all that is wrong with catalog documents
}

// FailureOf returns an error as data, nil for nil.
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
	switch CodeOf(err) {
	case CodeRateLimited, CodeUnavailable:
		f.Retryable = true
	default:
	}
	return f
}

// AsError returns a failure that crossed a wire as an [Error].
func (f *Failure) AsError() *Error {
	switch c := Code(f.Type); c {
	case CodeInvalid, CodeNotFound, CodeUnauthenticated, CodeDenied, CodeConflict, CodeRateLimited, CodeUnavailable, CodeOverflow, CodeCancelled:
		return &Error{Code: c, Err: errors.New(f.Message)}
	default:
		return &Error{Code: CodeInternal, Err: errors.New(f.Message)}
	}
}
