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

// Types and codes of errors, as clients of the API know them, and ours where it has none.
const (
	typeInvalid  = "invalid_request_error"
	typeServer   = "server_error"
	typeFailed   = "turn_failed"
	typeAwaiting = "awaiting_approval"

	codeTurnRunning  = "turn_running"
	codeContradicted = "stream_restarted"
	codeQuota        = "insufficient_quota"
	codeNoModel      = "model_not_found"
)

// problem is an error in the API's format.
type problem struct {
	Message string           `json:"message"`
	Type    string           `json:"type"`
	Param   *string          `json:"param"` // the member of the request at fault
	Code    string           `json:"code"`
	TurnID  agent.TurnID     `json:"turn_id,omitempty"` // the turn that the request became
	Pending []agent.Approval `json:"pending,omitempty"` // what waits for a person

	status int
	open   bool  // the turn goes on: the same request again joins it
	again  bool  // the client shall send it again by itself
	err    error // for the log, where it is not the turn's
}

// statusFinal answers for a turn that exists when the same request again makes no sense now. Of the statuses that say so it is one that no client
// library repeats by itself: the AI SDK repeats 408, 409, 429 and all from 500, LangChain everything but 400 to 407, 409 and 413.
const statusFinal = http.StatusBadRequest

type problemBody struct {
	Error *problem `json:"error"`
}

// errorBody returns the body of an error that came before the turn did.
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

// refuse writes what the protocol tells apart from other refusals: that a budget is used up, or that the session waits for a person. Anything
// else is left to the gateway.
func refuse(h http.Header, write func(status int, body any), err error) error {
	f, status, wait := gateway.FailureOf(err)
	p := newProblem(status, f)
	switch {
	case overBudget(err):
		p.Type, p.Code = codeQuota, codeQuota
	case status == http.StatusConflict && strings.HasPrefix(f.Message, typeAwaiting): // as the inbox begins it
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

// overBudget reports whether a turn was not let in because a budget of a day or a month is used up.
func overBudget(err error) bool {
	r, ok := errors.AsType[agent.AdmissionRefused](err)
	return ok && (strings.HasPrefix(r.Bound, "daily_") || strings.HasPrefix(r.Bound, "monthly_"))
}

// renameField names the field of an error as this API does.
func renameField(err error) error {
	e, ok := errors.AsType[*agent.Error](err)
	if !ok {
		return err
	}
	c := *e
	head, rest, nested := strings.Cut(e.Field, ".")
	tool, isTool := strings.CutPrefix(head, "client_tools")
	switch {
	case isTool && nested:
		c.Field = "tools" + tool + ".function." + rest
	case isTool:
		c.Field = "tools" + tool
	case head == "output_schema" && nested:
		c.Field = "response_format.json_schema.schema." + rest
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

// noRetry keeps the official clients from sending a request again that became a turn: it would become another one.
func noRetry(h http.Header) { h.Set("X-Should-Retry", "false") }

// failed answers with an error of a turn that exists.
func (c *completion) failed(w http.ResponseWriter, p *problem) error {
	p.TurnID = c.receipt.TurnID
	if !p.again {
		noRetry(w.Header())
	}
	if !p.open {
		c.outcome = answered
	}
	c.call.WriteJSON(p.status, problemBody{p})
	return p.err
}

// internalProblem returns the problem of an internal error. The turn may go on.
func (c *completion) internalProblem(err error) *problem {
	f, status, _ := gateway.FailureOf(err)
	p := newProblem(status, f)
	p.TurnID, p.open, p.again, p.err = c.receipt.TurnID, true, true, err
	return p
}

// awaitingProblem returns the problem of a turn that waits for a person.
func (c *completion) awaitingProblem(pending []agent.Approval) *problem {
	id := c.receipt.TurnID
	var what []string
	for i := range pending {
		what = append(what, fmt.Sprintf("%s (%s)", pending[i].ToolName, pending[i].ApprovalID))
	}
	return &problem{
		status: statusFinal, Type: typeAwaiting, Code: typeAwaiting, TurnID: id, Pending: pending, open: true,
		Message: fmt.Sprintf("turn %s waits for a person to decide on %s: POST /v1/turns/%s/decisions", id, strings.Join(what, ", "), id),
	}
}

// failedProblem returns the problem of a turn that ended without an answer. Its status does not tell the reason:
// a provider's 429 or 503 was retried as the agent's policy says, and a client that retries it again would multiply that.
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

// restartedProblem returns the problem of an answer that began again with other words than were sent.
func (c *completion) restartedProblem() *problem {
	return &problem{
		Type: typeServer, Code: codeContradicted, TurnID: c.receipt.TurnID, open: true,
		Message: fmt.Sprintf("the model began again and says something else than what was sent; the answer will be at GET /v1/turns/%[1]s", c.receipt.TurnID),
	}
}
