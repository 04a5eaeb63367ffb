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

// Headers of ours in this protocol.
const (
	headerTurn       = "Turnstone-Turn-Id"
	headerSession    = "Turnstone-Session-Id"    // of the request: the conversation; of the answer too
	headerDisconnect = "Turnstone-On-Disconnect" // of the request: cancel, or continue
)

// Door is the OpenAI-compatible API. Create it with [New].
type Door struct{ attempts attempts }

var _ gateway.Door = (*Door)(nil)

// New makes the door.
func New() *Door { return &Door{} }

// Routes implements [gateway.Door].
func (d *Door) Routes() []gateway.Route {
	return []gateway.Route{
		{Method: http.MethodPost, Path: "/v1/chat/completions", Action: agent.ActionTurnsRun, Handle: d.postCompletion, ErrorBody: errorBody},
		{Method: http.MethodGet, Path: "/v1/models", Action: agent.ActionTurnsRun, Handle: d.getModels, ErrorBody: errorBody},
		{Method: http.MethodGet, Path: "/v1/models/{model...}", Action: agent.ActionTurnsRun, Handle: d.getModel, ErrorBody: errorBody},
	}
}

// postCompletion is POST /v1/chat/completions: one turn, its answer whole or streamed.
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
	if err := q.headers(r); err != nil {
		return err
	}
	if v.Principal().Subject == "" {
		q.turn.Context.UserID = q.user
	}
	if err := v.Allow(agent.ActionTurnsRun, q.turn.Agent); err != nil {
		return err
	}
	leave, err := v.Enter() // before the turn exists: a refusal must mean that nothing runs
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
			c.outcome = answered // nothing has started
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
	if q.cancel && r.Context().Err() != nil {
		c.outcome = withdrawn
		return errors.Join(err, c.cancel(r.Context()))
	}
	return err
}

// begin starts a turn of the request's own.
func (c *completion) begin(d *Door, r *http.Request, f fingerprint) (err error) {
	if c.q.turn.SessionID != "" {
		if err := c.q.dropKnownMessages(); err != nil {
			return err
		}
	}
	c.receipt, err = d.submit(r, c.call, c.q, f)
	return err
}

// completion is one request whose turn exists.
type completion struct {
	call    *gateway.Call
	q       *request
	receipt agent.Receipt
	after   int64   // the event behind which the answer begins: the turn goes on with results of the client's tools
	created int64   // Unix seconds
	outcome outcome // so far
}

func (c *completion) id() string { return "chatcmpl-" + string(c.receipt.TurnID) }

// answer waits for the turn and answers with all of it.
func (c *completion) answer(w http.ResponseWriter, r *http.Request) error {
	ctx, cancel := c.call.StreamContext(r.Context())
	defer cancel()
	ctx, cancelWait := context.WithTimeout(ctx, c.call.Limits().WaitTimeout)
	defer cancelWait()

	read := reading{held: true}
	err := read.all(ctx, c)
	switch {
	case r.Context().Err() != nil:
		return nil // nobody is left to tell
	case err != nil && gateway.TurnGoesOn(err):
		return c.failed(w, c.stillRunning(err))
	case err != nil:
		return c.failed(w, c.internalProblem(err))
	}
	if p := c.problem(&read); p != nil {
		return c.failed(w, p)
	}
	c.outcome = answered
	c.call.WriteJSON(http.StatusOK, c.fullAnswer(&read))
	return nil
}

// cancel ends the turn of a client that went away and had asked for that.
func (c *completion) cancel(ctx context.Context) error {
	err := c.call.Cancel(context.WithoutCancel(ctx), c.receipt.TurnID, agent.CancelRequest{
		Reason: "the client disconnected", By: c.q.turn.Context.UserID,
	})
	if agent.CodeOf(err) == agent.CodeConflict { // it is over
		return nil
	}
	return err
}
