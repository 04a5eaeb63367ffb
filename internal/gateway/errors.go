package gateway

import (
	"context"
	"errors"
	"net"
	"net/http"
	"strings"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/protoadapt"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/turnstone-run/turnstone/agent"
)

// TypeGap is the failure type for events that have expired. It is not an [agent.Code], because only readers of a stream get it.
const TypeGap = "gap"

// errorDomain is the domain of every google.rpc.ErrorInfo that the gateway sends.
const errorDomain = "turnstone"

// statusClientClosed is the status of a cancelled call. The RFCs define none; nginx and grpc-gateway use this one.
const statusClientClosed = 499

// mapping is one row of the error table.
type mapping struct {
	kind string // [agent.Failure.Type]
	http int
	grpc codes.Code
}

// errorTable maps failure types to HTTP and gRPC status.
//
//nolint:gochecknoglobals // a constant in all but syntax
var errorTable = [...]mapping{
	{string(agent.CodeInvalid), http.StatusBadRequest, codes.InvalidArgument},
	{string(agent.CodeNotFound), http.StatusNotFound, codes.NotFound},
	{string(agent.CodeUnauthenticated), http.StatusUnauthorized, codes.Unauthenticated},
	{string(agent.CodeDenied), http.StatusForbidden, codes.PermissionDenied},
	{string(agent.CodeConflict), http.StatusConflict, codes.Aborted},
	{string(agent.CodeRateLimited), http.StatusTooManyRequests, codes.ResourceExhausted},
	{string(agent.CodeUnavailable), http.StatusServiceUnavailable, codes.Unavailable},
	{string(agent.CodeOverflow), http.StatusRequestEntityTooLarge, codes.ResourceExhausted},
	{string(agent.CodeCancelled), statusClientClosed, codes.Canceled},
	{string(agent.CodeInternal), http.StatusInternalServerError, codes.Internal},
	{TypeGap, http.StatusGone, codes.OutOfRange},
}

func mappingOf(kind string) mapping {
	for _, m := range errorTable {
		if m.kind == kind {
			return m
		}
	}
	return mapping{kind: string(agent.CodeInternal), http: http.StatusInternalServerError, grpc: codes.Internal}
}

// failureOf returns an error as callers see it. The text of an internal error is only logged, because it may name hosts, statements or files.
func failureOf(err error) *agent.Failure { return failureWithin(err, faultBytes) }

// failureWithin is failureOf with at most maxBytes of faults.
func failureWithin(err error, maxBytes int) *agent.Failure {
	var public *agent.Error
	switch {
	case err == nil:
		return nil
	case errors.Is(err, agent.ErrGap):
		return &agent.Failure{Type: TypeGap, Message: agent.ErrGap.Error()}
	case errors.As(err, &public):
	case errors.Is(err, context.Canceled):
		return &agent.Failure{Type: string(agent.CodeCancelled), Message: "the call was cancelled"}
	case errors.Is(err, context.DeadlineExceeded):
		return &agent.Failure{Type: string(agent.CodeUnavailable), Message: "the call took too long", Retryable: true}
	}
	f := agent.FailureOf(err)
	switch {
	case f.Type == string(agent.CodeInternal):
		f.Message, f.Faults = "internal error; the server's log has the details under this request's id", nil
	case f.Type == string(agent.CodeUnavailable) && public.Public == "" && namesHosts(err):
		f.Message = "a part of the system does not answer; the server's log says which, under this request's id"
	case len(f.Faults) > 0:
		f.Message, f.Faults = summary(f.Faults), clipFaults(f.Faults, maxBytes)
	}
	return f
}

// namesHosts reports whether the text of an error may name hosts or sockets, because it is from the network.
func namesHosts(err error) bool {
	_, isNetwork := errors.AsType[net.Error](err)
	return isNetwork && !errors.Is(err, context.DeadlineExceeded)
}

// retryAfterOf returns the time after which a caller should repeat the request, 0 if repeating does not help.
func retryAfterOf(err error, f *agent.Failure) time.Duration {
	var e *agent.Error
	if errors.As(err, &e) && e.RetryAfter > 0 {
		return e.RetryAfter
	}
	if f.Retryable {
		return time.Second
	}
	return 0
}

// grpcError returns the gRPC status, with details, for an error. It returns an error that is a status unchanged.
func grpcError(err error) error {
	if err == nil {
		return nil
	}
	if _, ok := status.FromError(err); ok && agentError(err) == nil {
		return err
	}
	f := failureWithin(err, grpcFaultBytes)
	code := mappingOf(f.Type).grpc
	if agentError(err) == nil && errors.Is(err, context.DeadlineExceeded) {
		code = codes.DeadlineExceeded
	}
	st := status.New(code, validText(f.Message))
	details := []protoadapt.MessageV1{
		protoadapt.MessageV1Of(failureToProto(f)),
		&errdetails.ErrorInfo{Reason: strings.ToUpper(f.Type), Domain: errorDomain},
	}
	if violations := violationsOf(f); len(violations) > 0 {
		details = append(details, &errdetails.BadRequest{FieldViolations: violations})
	}
	if wait := retryAfterOf(err, f); wait > 0 {
		details = append(details, &errdetails.RetryInfo{RetryDelay: durationpb.New(wait)})
	}
	if detailed, detailErr := st.WithDetails(details...); detailErr == nil {
		st = detailed
	}
	return st.Err()
}

// agentError returns the [agent.Error] that err wraps, nil if there is none.
func agentError(err error) *agent.Error {
	e, _ := errors.AsType[*agent.Error](err)
	return e
}

// ErrorOfStatus returns the error that a client gets for the HTTP status and the failure of a response. A known failure type overrides the status.
func ErrorOfStatus(httpStatus int, f *agent.Failure, retryAfter time.Duration) error {
	kind := ""
	if f != nil {
		kind = f.Type
	}
	if kind == TypeGap || (kind == "" && httpStatus == http.StatusGone) {
		return agent.ErrGap
	}
	if mappingOf(kind).kind != kind {
		kind = kindOfHTTP(httpStatus)
	}
	e := &agent.Error{Code: agent.Code(kind), RetryAfter: retryAfter, Err: errors.New(http.StatusText(httpStatus))}
	if f != nil {
		e.Field = f.Field
		switch {
		case len(f.Faults) > 0:
			e.Err = f.Faults
		case f.Message != "":
			// [agent.Error.Error] repeats the field.
			e.Err = errors.New(strings.TrimPrefix(f.Message, f.Field+": "))
		}
	}
	return e
}

// kindOfHTTP returns the failure type for the status of a response without a failure, such as a proxy's.
func kindOfHTTP(httpStatus int) string {
	for _, m := range errorTable {
		if m.http == httpStatus {
			return m.kind
		}
	}
	switch {
	case httpStatus == http.StatusBadGateway || httpStatus == http.StatusGatewayTimeout:
		return string(agent.CodeUnavailable)
	case httpStatus >= 400 && httpStatus < 500:
		return string(agent.CodeInvalid)
	default:
		return string(agent.CodeInternal)
	}
}
