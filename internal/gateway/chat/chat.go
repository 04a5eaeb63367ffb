package chat

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/gateway"
)

// channel is this door's name in envelopes.
const channel = "web"

// Door is POST /api/chat. Create it with [New].
type Door struct {
	copyAnswer func(tenant, user, text string)
}

var _ gateway.Door = (*Door)(nil)

// New makes the door. copyAnswer is given each answer that completed, once, with the user who asked; it must return at once. Nil: nobody is.
func New(copyAnswer func(tenant, user, text string)) *Door { return &Door{copyAnswer: copyAnswer} }

// Routes implements [gateway.Door].
func (d *Door) Routes() []gateway.Route {
	return []gateway.Route{{Method: http.MethodPost, Path: "/api/chat", Action: agent.ActionTurnsRun, Handle: d.postChat}}
}

// response is the body of an answer. Every member is always present.
type response struct {
	Output    string          `json:"output"`
	SessionID agent.SessionID `json:"session_id"`
	ToolName  *string         `json:"tool_name"`  // the last tool that was called
	ToolInput json.RawMessage `json:"tool_input"` // its arguments
	Error     *string         `json:"error"`      // why the turn has no answer, or not the whole
	TurnID    agent.TurnID    `json:"turn_id"`
}

// acceptedTurn is the body of a 202: the turn goes on, as one of POST /v1/turns does.
type acceptedTurn struct {
	response

	StreamID string           `json:"stream_id"`
	State    string           `json:"state"`
	Status   string           `json:"status"` // the same
	Pending  []agent.Approval `json:"pending,omitempty"`
}

// postChat submits a message and waits for the turn.
func (d *Door) postChat(w http.ResponseWriter, r *http.Request, v *gateway.Call) error {
	if _, err := v.Parameters(); err != nil {
		return err
	}
	var q request
	if err := v.DecodeBody(&q); err != nil {
		return err
	}
	if err := gateway.ApplyIdempotencyKey(r, &q.IdempotencyKey); err != nil {
		return err
	}
	turn, err := q.turn(v.Principal().Subject != "")
	if err != nil {
		return err
	}
	if turn.Agent != "" {
		if err := v.Allow(agent.ActionTurnsRun, turn.Agent); err != nil {
			return err
		}
	}
	leave, err := v.Enter() // before the turn exists: a refusal must mean that nothing runs
	if err != nil {
		return err
	}
	defer leave()
	receipt, err := v.Submit(r.Context(), channel, &turn)
	if err != nil {
		return q.renameField(err)
	}
	w.Header().Set("Turnstone-Turn-Id", string(receipt.TurnID))
	w.Header().Set("Location", "/v1/turns/"+string(receipt.TurnID))
	return d.answer(r, v, receipt, func(text string) {
		if d.copyAnswer != nil && !receipt.Joined && turn.Context.UserID != "" {
			d.copyAnswer(turn.Context.TenantName(), turn.Context.UserID, text)
		}
	})
}

// answer waits for the turn and gives a completed answer to copyText. A turn that waits for a person, or longer than anybody waits, goes on
// behind a 202.
func (d *Door) answer(r *http.Request, v *gateway.Call, receipt agent.Receipt, copyText func(string)) error {
	ctx, cancel := v.StreamContext(r.Context())
	defer cancel()
	ctx, cancelWait := context.WithTimeout(ctx, v.Limits().WaitTimeout)
	defer cancelWait()

	end, err := v.Await(ctx, receipt)
	body := acceptedTurn{
		response: response{SessionID: receipt.SessionID, TurnID: receipt.TurnID},
		StreamID: receipt.StreamID, State: agent.StateRunning, Status: agent.StateRunning,
	}
	switch {
	case err != nil && gateway.TurnGoesOn(err):
		v.WriteJSON(http.StatusAccepted, body)
	case err != nil:
		return err
	case end.Output == nil:
		body.State, body.Status, body.Pending = agent.StateWaiting, agent.StateWaiting, end.Pending
		body.Output = waitingText(end.Pending)
		v.WriteJSON(http.StatusAccepted, body)
	default:
		a := responseOf(end.Output)
		if a.Error == nil {
			copyText(a.Output)
		}
		if n := len(end.Output.ToolCalls); n > 0 {
			a.ToolInput = toolInput(ctx, v, receipt.TurnID, end.Output.ToolCalls[n-1].ID)
		}
		v.WriteJSON(http.StatusOK, a)
	}
	return nil
}

// renameField names the field of an error as the request body does.
func (q *request) renameField(err error) error {
	e, ok := errors.AsType[*agent.Error](err)
	if !ok {
		return err
	}
	c := *e
	switch rest, isMessage := strings.CutPrefix(e.Field, "messages["); {
	case isMessage:
		c.Field = "chat_history[" + rest
	case e.Field == "agent" && q.AgentName != "":
		c.Field = "agent_name"
	case e.Field == "context.user_id" && q.UserID != "":
		c.Field = "user_id"
	default:
		return err
	}
	return &c
}

// responseOf returns the response for a result. An error of the agent is an answer like any other.
func responseOf(o *agent.AgentStepOutput) response {
	a := response{Output: o.Output, SessionID: o.SessionID, TurnID: o.TurnID}
	if n := len(o.ToolCalls); n > 0 {
		a.ToolName = &o.ToolCalls[n-1].Tool
	}
	if o.Status == agent.TurnCompleted {
		a.Output = cmp.Or(a.Output, agent.NormalizeOutput(o.Blocks))
		if cut := o.StopReason.CutShort(); cut != "" {
			a.Error = &cut
		}
		return a
	}
	why := fmt.Sprintf("the turn failed: %s", o.StopReason)
	switch {
	case o.Error != nil && o.Error.Message != "":
		why = o.Error.Message
	case o.Status == agent.TurnCancelled:
		why = "the turn was cancelled"
	}
	a.Error = &why
	return a
}

// waitingText says what the turn waits for.
func waitingText(pending []agent.Approval) string {
	var what []string
	for i := range pending {
		what = append(what, pending[i].ToolName)
	}
	return "This waits for a person to decide: " + strings.Join(what, ", ") + "."
}

// toolInput returns the arguments of a tool call from the turn's events; null if they have expired.
func toolInput(ctx context.Context, v *gateway.Call, turn agent.TurnID, call agent.CallID) json.RawMessage {
	var args json.RawMessage
	for e, err := range v.Follow(ctx, turn, 0) {
		if err != nil || e.Terminal() {
			break
		}
		if e.Type == agent.EventToolStart && e.ToolCallID == call && json.Valid(e.Input) {
			args = e.Input
		}
	}
	return args
}
