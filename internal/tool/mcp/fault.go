package mcp

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"syscall"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/turnstone-run/turnstone/agent"
)

// maxReason is the maximum number of runes that are quoted of a server's error.
const maxReason = 600

// The codes of the SDK's own faults, which the server did not send.
const (
	codeClientClosing = -32003
	codeServerClosing = -32004
	codeRejected      = -32005
)

// faultOf returns why an exchange with a server failed, as an [agent.Error]. It does not repeat the SDK's words, which name URLs and
// session ids. Of the server's words only the message of a JSON-RPC error is quoted.
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
	if own, ok := errors.AsType[*agent.Error](err); ok {
		return &agent.Error{Code: own.Code, Op: op, RetryAfter: own.RetryAfter, Err: own}
	}
	if status := int(d.status.Load()); status >= http.StatusMultipleChoices {
		return agent.Errorf(statusCode(status), op, "answered %d %s", status, http.StatusText(status))
	}
	return agent.Errorf(agent.CodeUnavailable, op, "it does not speak the protocol as it should, or the connection broke")
}

// refusalIn returns the error of a request that the egress rules or the auth profiles refuse. They would refuse it in another session too.
func refusalIn(err error) (*agent.Error, bool) {
	own, ok := errors.AsType[*agent.Error](err)
	return own, ok && (own.Code == agent.CodeDenied || own.Code == agent.CodeInvalid)
}

// isSessionOver reports whether a session has ended: the server has ended, has forgotten it, or does not read any more.
func isSessionOver(err error) bool {
	for _, end := range []error{io.EOF, sdk.ErrConnectionClosed, sdk.ErrSessionMissing, syscall.EPIPE, os.ErrClosed, io.ErrClosedPipe} {
		if errors.Is(err, end) {
			return true
		}
	}
	return false
}

// serverErrorIn returns the server's own JSON-RPC error.
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
