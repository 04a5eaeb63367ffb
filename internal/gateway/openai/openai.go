package openai

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/gateway"
)

// channel is this door's name in envelopes.
const channel = "openai"

// Turnstone's headers in this API.
const (
	headerTurn       = "Turnstone-Turn-Id"       // of the response
	headerSession    = "Turnstone-Session-Id"    // of the request and the response
	headerDisconnect = "Turnstone-On-Disconnect" // of the request: cancel or continue
)

// Door is the OpenAI-compatible API. Create it with [New].
type Door struct{ attempts attempts }

var _ gateway.Door = (*Door)(nil)

// New returns the door.
func New() *Door { return &Door{} }

// Routes implements [gateway.Door].
func (d *Door) Routes() []gateway.Route {
	return []gateway.Route{
		{Method: http.MethodPost, Path: "/v1/chat/completions", Action: agent.ActionTurnsRun, Handle: d.postCompletion, ErrorBody: errorBody},
		{Method: http.MethodGet, Path: "/v1/models", Action: agent.ActionTurnsRun, Handle: d.getModels, ErrorBody: errorBody},
		{Method: http.MethodGet, Path: "/v1/models/{model...}", Action: agent.ActionTurnsRun, Handle: d.getModel, ErrorBody: errorBody},
	}
}

// postCompletion is POST /v1/chat/completions. It runs one turn and answers with its text, streamed or not.
func (d *Door) postCompletion(w http.ResponseWriter, r *http.Request, v *gateway.Call) error {
	if err := gateway.CheckContentType(r); err != nil {
		return err
	}
	body, err := v.ReadBody()
	if err != nil {
		return err
	}
	q, err := parse(body)
	if err != nil {
		return err
	}
	if err := q.readHeaders(r); err != nil {
		return err
	}
	if v.Principal().Subject == "" {
		q.turn.Context.UserID = q.user
	}
	if err := v.Allow(agent.ActionTurnsRun, q.turn.Agent); err != nil {
		return err
	}
	leave, err := v.Enter() // before there is a turn, so that a refused request has none
	if err != nil {
		return err
	}
	defer leave()
	f := fingerprintOf(v, r, body)
	c := completion{call: v, q: &q, created: time.Now().Unix()}
	defer func() {
		if q.derivedKey != "" {
			d.attempts.finish(f, q.derivedKey, c.outcome, time.Now())
		}
	}()
	resumed, err := c.resume(d, r)
	if err == nil && !resumed {
		err = c.begin(d, r, f)
	}
	if err != nil {
		if _, status, _ := gateway.FailureOf(err); status < http.StatusInternalServerError && r.Context().Err() == nil {
			c.outcome = answered // no turn was started
		}
		return refuse(w.Header(), v.WriteJSON, renameField(err))
	}
	w.Header().Set(headerTurn, string(c.receipt.TurnID))
	w.Header().Set(headerSession, string(c.receipt.SessionID))
	if q.stream {
		err = c.stream(w, r)
	} else {
		err = c.answer(w, r)
	}
	if q.cancelOnDisconnect && r.Context().Err() != nil {
		c.outcome = withdrawn
		return errors.Join(err, c.cancel(r.Context()))
	}
	return err
}

// begin submits the request as a turn.
func (c *completion) begin(d *Door, r *http.Request, f fingerprint) (err error) {
	if c.q.turn.SessionID != "" {
		if err := c.q.dropKnownMessages(); err != nil {
			return err
		}
	}
	c.receipt, err = d.submit(r, c.call, c.q, f)
	return err
}

// completion is the handling of one request.
type completion struct {
	call    *gateway.Call
	q       *request
	receipt agent.Receipt
	after   int64 // index of the event after which the answer begins, for a request that resumes a turn; else 0
	created int64 // Unix seconds
	outcome outcome
}

func (c *completion) id() string { return "chatcmpl-" + string(c.receipt.TurnID) }

// answer waits until the turn has ended or pauses, and writes the whole answer.
func (c *completion) answer(w http.ResponseWriter, r *http.Request) error {
	ctx, cancel := c.call.StreamContext(r.Context())
	defer cancel()
	ctx, cancelWait := context.WithTimeout(ctx, c.call.Limits().WaitTimeout)
	defer cancelWait()

	state := answerState{sendsAtEnd: true}
	err := state.readAll(ctx, c)
	switch {
	case r.Context().Err() != nil:
		return nil // the client has disconnected
	case err != nil && gateway.TurnGoesOn(err):
		return c.writeProblem(w, c.runningProblem(err))
	case err != nil:
		return c.writeProblem(w, c.internalProblem(err))
	}
	if p := c.problem(&state); p != nil {
		return c.writeProblem(w, p)
	}
	c.outcome = answered
	c.call.WriteJSON(http.StatusOK, c.fullAnswer(&state))
	return nil
}

// cancel cancels the turn after its client has disconnected.
func (c *completion) cancel(ctx context.Context) error {
	err := c.call.Cancel(context.WithoutCancel(ctx), c.receipt.TurnID, agent.CancelRequest{
		Reason: "the client disconnected", By: c.q.turn.Context.UserID,
	})
	if agent.CodeOf(err) == agent.CodeConflict { // it has ended
		return nil
	}
	return err
}
