package openai

import (
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/gateway"
)

// Types and codes of errors. The API has no types or codes for turns, so those are Turnstone's own.
const (
	typeInvalid  = "invalid_request_error"
	typeServer   = "server_error"
	typeFailed   = "turn_failed"
	typeAwaiting = "awaiting_approval"

	codeTurnRunning = "turn_running"
	codeRestarted   = "stream_restarted"
	codeQuota       = "insufficient_quota"
	codeNoModel     = "model_not_found"
)

// problem is an error in the API's format.
type problem struct {
	Message string           `json:"message"`
	Type    string           `json:"type"`
	Param   *string          `json:"param"` // the member of the request at fault; null if it is none
	Code    string           `json:"code"`
	TurnID  agent.TurnID     `json:"turn_id,omitempty"` // the request's turn
	Pending []agent.Approval `json:"pending,omitempty"` // the approvals that the turn waits for

	status    int
	isRunning bool  // whether the turn goes on, so that the same request joins it
	autoRetry bool  // whether the client shall repeat the request by itself
	logged    error // the error for the log; nil if the turn has recorded it
}

// statusFinal is the status of an error of an existing turn that a repeated request would not change. No client library repeats a request after
// this status: the AI SDK repeats 408, 409, 429 and all from 500, LangChain everything but 400 to 407, 409 and 413.
const statusFinal = http.StatusBadRequest

type problemBody struct {
	Error *problem `json:"error"`
}

// errorBody returns the body of an error that occurred before there was a turn.
func errorBody(status int, f *agent.Failure) any { return problemBody{newProblem(status, f)} }

// newProblem returns a failure in the API's format.
func newProblem(status int, f *agent.Failure) *problem {
	p := &problem{status: status, Message: f.Message, Type: typeServer, Code: f.Type}
	if f.Field != "" {
		p.Param = &f.Field
	}
	switch agent.Code(f.Type) {
	case agent.CodeInvalid:
		p.Type, p.Code = typeInvalid, "invalid_value"
	case agent.CodeOverflow:
		p.Type, p.Code = typeInvalid, "request_too_large"
	case agent.CodeNotFound:
		p.Type = typeInvalid
		if f.Field == "model" {
			p.Code = codeNoModel
		}
	case agent.CodeUnauthenticated:
		p.Type, p.Code = typeInvalid, "invalid_api_key"
	case agent.CodeDenied:
		p.Type, p.Code = "permission_error", "permission_denied"
	case agent.CodeConflict:
		p.Type = "conflict_error"
	case agent.CodeRateLimited:
		p.Type, p.Code = "rate_limit_exceeded", "rate_limit_exceeded"
	case agent.CodeInternal:
		p.Code = "internal_error"
	case agent.CodeUnavailable, agent.CodeCancelled:
	}
	return p
}

// refuse writes the errors that have their own code in this API: that a budget is used up, or that the session waits for a person. The gateway
// writes all others. It returns err for the gateway.
func refuse(h http.Header, write func(status int, body any), err error) error {
	f, status, wait := gateway.FailureOf(err)
	p := newProblem(status, f)
	switch {
	case isOverBudget(err):
		p.Type, p.Code = codeQuota, codeQuota
	case status == http.StatusConflict && strings.HasPrefix(f.Message, typeAwaiting): // the inbox begins its message with it
		p.status, p.Type, p.Code = statusFinal, typeAwaiting, typeAwaiting
	default:
		return err
	}
	if wait > 0 {
		h.Set("Retry-After", strconv.FormatInt(int64((wait+time.Second-1)/time.Second), 10))
	}
	noRetry(h)
	write(p.status, problemBody{p})
	return err
}

// isOverBudget reports whether a turn was refused because a daily or monthly budget is used up.
func isOverBudget(err error) bool {
	r, ok := errors.AsType[agent.AdmissionRefused](err)
	return ok && (strings.HasPrefix(r.Bound, "daily_") || strings.HasPrefix(r.Bound, "monthly_"))
}

// renameField returns err with the name that its field has in this API.
func renameField(err error) error {
	e, ok := errors.AsType[*agent.Error](err)
	if !ok {
		return err
	}
	c := *e
	head, member, isNested := strings.Cut(e.Field, ".")
	tool, isTool := strings.CutPrefix(head, "client_tools")
	switch {
	case isTool && isNested:
		c.Field = "tools" + tool + ".function." + member
	case isTool:
		c.Field = "tools" + tool
	case head == "output_schema" && isNested:
		c.Field = "response_format.json_schema.schema." + member
	case e.Field == "context.user_id":
		c.Field = "user"
	default:
		names := map[string]string{
			"agent": "model", "message": "messages", "output_schema": "response_format", "session_id": "metadata.session_id",
			"idempotency_key": "Idempotency-Key",
		}
		if names[head] == "" {
			return err
		}
		c.Field = names[head] + strings.TrimPrefix(e.Field, head)
	}
	return &c
}

// noRetry tells the official clients not to repeat the request.
func noRetry(h http.Header) { h.Set("X-Should-Retry", "false") }

// writeProblem writes an error of a turn that exists, and returns the error to log.
func (c *completion) writeProblem(w http.ResponseWriter, p *problem) error {
	p.TurnID = c.receipt.TurnID
	if !p.autoRetry {
		noRetry(w.Header())
	}
	if !p.isRunning {
		c.outcome = answered
	}
	c.call.WriteJSON(p.status, problemBody{p})
	return p.logged
}

// internalProblem returns the problem of an internal error. The turn may go on.
func (c *completion) internalProblem(err error) *problem {
	f, status, _ := gateway.FailureOf(err)
	p := newProblem(status, f)
	p.TurnID, p.isRunning, p.autoRetry, p.logged = c.receipt.TurnID, true, true, err
	return p
}

// awaitingProblem returns the problem of a turn that waits for a person.
func (c *completion) awaitingProblem(pending []agent.Approval) *problem {
	id := c.receipt.TurnID
	var calls []string
	for i := range pending {
		calls = append(calls, fmt.Sprintf("%s (%s)", pending[i].ToolName, pending[i].ApprovalID))
	}
	return &problem{
		status: statusFinal, Type: typeAwaiting, Code: typeAwaiting, TurnID: id, Pending: pending, isRunning: true,
		Message: fmt.Sprintf("turn %s waits for a person to decide on %s: POST /v1/turns/%s/decisions", id, strings.Join(calls, ", "), id),
	}
}

// failedProblem returns the problem of a turn that ended without an answer. Its status does not depend on the reason: the agent's policy has already
// retried a provider's 429 or 503, and a client that repeated the request would multiply the retries.
func (c *completion) failedProblem(o *agent.AgentStepOutput) *problem {
	p := &problem{
		status: statusFinal, Type: typeFailed, Code: string(o.StopReason), TurnID: c.receipt.TurnID,
		Message: fmt.Sprintf("turn %s ended as %s: %s", c.receipt.TurnID, o.Status, o.StopReason),
	}
	if o.Status == agent.TurnCancelled {
		p.Code = string(agent.CodeCancelled)
	}
	if o.Error != nil {
		p.Message, p.Code = o.Error.Message, o.Error.Type
	}
	return p
}

// restartedProblem returns the problem of an answer that differs from the text that was sent, after a reset.
func (c *completion) restartedProblem() *problem {
	return &problem{
		Type: typeServer, Code: codeRestarted, TurnID: c.receipt.TurnID, isRunning: true,
		Message: fmt.Sprintf("the model began again and says something else than what was sent; the answer will be at GET /v1/turns/%[1]s", c.receipt.TurnID),
	}
}
