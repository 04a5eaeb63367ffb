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

// maxReason bounds what is quoted of a server's error, in runes.
const maxReason = 600

// The codes that the SDK gives to its own faults: what they say is not the server's.
const (
	codeClientClosing = -32003
	codeServerClosing = -32004
	codeRejected      = -32005
)

// fault is why something went wrong between us and a server, as an [agent.Error] in our words. The SDK's name URLs and session ids; of the
// server's own only the message of a JSON-RPC error is quoted.
func (s *session) fault(ctx context.Context, d *delivery, err error) *agent.Error {
	op := fmt.Sprintf("MCP server %q", s.label)
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return agent.Errorf(agent.CodeUnavailable, op, "no answer in time: %w", context.DeadlineExceeded)
	}
	if ctx.Err() != nil {
		return &agent.Error{Code: agent.CodeCancelled, Op: op, Err: ctx.Err()}
	}
	if answer, ok := answered(err); ok {
		return agent.Errorf(answerCode(answer), op, "answered error %d: %s", answer.Code, s.link.hidden.plain(answer.Message, maxReason))
	}
	if refusal, ok := refusalIn(err); ok {
		refusal = &agent.Error{Code: refusal.Code, Op: op, Err: refusal}
		s.refusal.Store(refusal)
		return refusal
	}
	if s.link.notices.isOver() {
		return agent.Errorf(agent.CodeUnavailable, op, "it sent more notifications than are taken, and the connection was ended")
	}
	if gone(err) || !s.alive() {
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

// refusalIn returns what the egress rules, or the auth profiles, say of a request that they refuse. Another session has the same said of it.
func refusalIn(err error) (*agent.Error, bool) {
	own, ok := errors.AsType[*agent.Error](err)
	return own, ok && (own.Code == agent.CodeDenied || own.Code == agent.CodeInvalid)
}

// gone reports whether a session is over: the server has ended, has forgotten it, or does not read any more.
func gone(err error) bool {
	for _, end := range []error{io.EOF, sdk.ErrConnectionClosed, sdk.ErrSessionMissing, syscall.EPIPE, os.ErrClosed, io.ErrClosedPipe} {
		if errors.Is(err, end) {
			return true
		}
	}
	return false
}

// answered returns the server's own JSON-RPC error.
func answered(err error) (*jsonrpc.Error, bool) {
	answer, ok := errors.AsType[*jsonrpc.Error](err)
	if !ok || answer.Code == codeClientClosing || answer.Code == codeServerClosing || answer.Code == codeRejected {
		return nil, false
	}
	return answer, true
}

func answerCode(answer *jsonrpc.Error) agent.Code {
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
