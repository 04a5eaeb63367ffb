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

// TypeGap is the failure type of a reader who asked for events that have expired. It is no [agent.Code], because
// only readers of a stream can meet it.
const TypeGap = "gap"

// errorDomain is the domain of every google.rpc.ErrorInfo that the gateway sends.
const errorDomain = "turnstone"

// statusClientClosed answers a call that was cancelled. It is nginx's and grpc-gateway's number; the RFCs have none.
const statusClientClosed = 499

// mapping is one row of the error table.
type mapping struct {
	kind string // the failure's type
	http int
	grpc codes.Code
}

// errorTable is the one table between failure types, HTTP status and gRPC status.
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

// failureOf turns an error into what callers may see of it: the text of an internal error stays in the log, because it may
// name hosts, statements or files.
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
		f.Message, f.Faults = summary(f.Faults), someFaults(f.Faults, maxBytes)
	}
	return f
}

// namesHosts reports whether an error comes from the network: its text names hosts or sockets.
func namesHosts(err error) bool {
	_, network := errors.AsType[net.Error](err)
	return network && !errors.Is(err, context.DeadlineExceeded)
}

// retryAfterOf returns how long a caller should wait before the same request makes sense, 0 when waiting does not help.
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

// grpcError turns an error into a status with its details. A status that is one already is left alone.
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
		code = codes.DeadlineExceeded // gRPC has a code of its own for it
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
	if with, derr := st.WithDetails(details...); derr == nil {
		st = with
	}
	return st.Err()
}

func agentError(err error) *agent.Error {
	if e, ok := errors.AsType[*agent.Error](err); ok {
		return e
	}
	return nil
}

// ErrorOfStatus is the client's side of the table: the error behind the HTTP status and the failure of a response. kind is the
// failure's type where the body had one, and decides alone then.
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
			// The text names the field already, and so does [agent.Error.Error].
			e.Err = errors.New(strings.TrimPrefix(f.Message, f.Field+": "))
		}
	}
	return e
}

// kindOfHTTP returns the failure type of a response without our error body, such as a proxy's.
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
