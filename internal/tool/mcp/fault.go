package mcp

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"syscall"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/turnstone-run/turnstone/agent"
)

// maxReason is the maximum number of runes that are quoted from a server's error.
const maxReason = 600

// The codes of the SDK's own faults, which the server did not send.
const (
	codeClientClosing = -32003
	codeServerClosing = -32004
	codeRejected      = -32005
)

// faultOf returns the [agent.Error] of a failed exchange with the server. It does not quote err, which may contain URLs and session IDs, unless
// err is a JSON-RPC error of the server. It remembers refusals in the session.
func (s *session) faultOf(ctx context.Context, d *delivery, err error) *agent.Error {
	op := fmt.Sprintf("MCP server %q", s.label)
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return agent.Errorf(agent.CodeUnavailable, op, "no answer in time: %w", context.DeadlineExceeded)
	}
	if ctx.Err() != nil {
		return &agent.Error{Code: agent.CodeCancelled, Op: op, Err: ctx.Err()}
	}
	if answer, ok := serverErrorIn(err); ok {
		return agent.Errorf(serverErrorCode(answer), op, "answered error %d: %s", answer.Code, s.link.secrets.displayText(answer.Message, maxReason))
	}
	if refusal, ok := refusalIn(err); ok {
		refusal = &agent.Error{Code: refusal.Code, Op: op, Err: refusal}
		s.refusal.Store(refusal)
		return refusal
	}
	if s.link.notices.isOver() {
		return agent.Errorf(agent.CodeUnavailable, op, "it sent more notifications than are taken, and the connection was ended")
	}
	if isSessionOver(err) || !s.isAlive() {
		return agent.Errorf(agent.CodeUnavailable, op, "the connection was lost")
	}
	if e, ok := errors.AsType[*agent.Error](err); ok {
		return &agent.Error{Code: e.Code, Op: op, RetryAfter: e.RetryAfter, Err: e}
	}
	if status := int(d.status.Load()); status >= http.StatusMultipleChoices {
		return agent.Errorf(statusCode(status), op, "answered %d %s", status, http.StatusText(status))
	}
	return agent.Errorf(agent.CodeUnavailable, op, "it does not speak the protocol as it should, or the connection broke")
}

// refusalIn returns the error of a request that the egress rules or the auth profiles refuse. They would refuse it in another session too.
func refusalIn(err error) (*agent.Error, bool) {
	e, ok := errors.AsType[*agent.Error](err)
	return e, ok && (e.Code == agent.CodeDenied || e.Code == agent.CodeInvalid)
}

// isSessionOver reports whether an error means that the session has ended: the server has ended, has forgotten it, or no longer reads.
func isSessionOver(err error) bool {
	return slices.ContainsFunc(
		[]error{io.EOF, sdk.ErrConnectionClosed, sdk.ErrSessionMissing, syscall.EPIPE, os.ErrClosed, io.ErrClosedPipe},
		func(end error) bool { return errors.Is(err, end) },
	)
}

// serverErrorIn returns the JSON-RPC error that the server has sent.
func serverErrorIn(err error) (*jsonrpc.Error, bool) {
	answer, ok := errors.AsType[*jsonrpc.Error](err)
	if !ok || answer.Code == codeClientClosing || answer.Code == codeServerClosing || answer.Code == codeRejected {
		return nil, false
	}
	return answer, true
}

func serverErrorCode(answer *jsonrpc.Error) agent.Code {
	switch answer.Code {
	case jsonrpc.CodeMethodNotFound:
		return agent.CodeNotFound
	case jsonrpc.CodeInternalError:
		return agent.CodeInternal
	default:
		return agent.CodeInvalid
	}
}

func statusCode(status int) agent.Code {
	switch {
	case status == http.StatusUnauthorized, status == http.StatusForbidden:
		return agent.CodeDenied
	case status == http.StatusTooManyRequests:
		return agent.CodeRateLimited
	case status >= http.StatusInternalServerError, status == http.StatusNotFound, status == http.StatusRequestTimeout:
		return agent.CodeUnavailable
	default:
		return agent.CodeInvalid
	}
}
