package gateway

import (
	"cmp"
	"context"
	"iter"
	"net/http"
	"strconv"

	"go.uber.org/zap"

	"github.com/turnstone-run/turnstone/agent"
)

func (s *httpServer) routeTurns() {
	const one = pathTurns + "/{id}"
	s.route(pathTurns, methods{
		http.MethodGet:  requires(answerQuery(s, tenantUnambiguous, readTurnQuery, s.findTurns), agent.ActionTurnsRead),
		http.MethodPost: requires(s.serve(tenantUnambiguous, s.postTurn), agent.ActionTurnsRun),
	})
	s.route(one, methods{http.MethodGet: requires(s.answerWithoutQuery(tenantUnambiguous, s.getTurn), agent.ActionTurnsRead)})
	s.route(one+"/events", methods{http.MethodGet: requires(s.serve(tenantUnambiguous, s.getEvents), agent.ActionTurnsRead)})
	s.route(one+"/decisions", methods{http.MethodPost: requires(s.answerWithoutQuery(tenantUnambiguous, s.postDecision), agent.ActionApprovalsDecide)})
	s.route(one+"/results", methods{http.MethodPost: requires(s.answerWithoutQuery(tenantUnambiguous, s.postProvided), agent.ActionTurnsRun)})
	s.route(one+"/cancel", methods{http.MethodPost: requires(s.answerWithoutQuery(tenantUnambiguous, s.postCancel), agent.ActionTurnsCancel)})
	s.route(one+"/messages", methods{http.MethodPost: requires(s.answerWithoutQuery(tenantUnambiguous, s.postMessage), agent.ActionTurnsRun)})
	s.route(one+"/rerun", methods{http.MethodPost: requires(s.serve(tenantUnambiguous, s.postRerun), agent.ActionTurnsRun)})
	s.route(pathTestChat, methods{http.MethodPost: requires(s.serve(tenantUnambiguous, s.postTestChat), agent.ActionTurnsRun)})
}

// postTurn is POST /v1/turns. It submits a turn, then waits for it, streams its events, or does neither.
func (s *httpServer) postTurn(c *Call) error {
	wait, after, err := c.turnParameters()
	if err != nil {
		return err
	}
	var body agent.TurnBody
	if err := c.decode(&body); err != nil {
		return err
	}
	if err := ApplyIdempotencyKey(c.r, &body.IdempotencyKey); err != nil {
		return err
	}
	req := body.Request()
	return s.answerTurn(c, wait, after, turnOrigin{}, func() (agent.Receipt, error) {
		receipt, err := s.submit(c.callContext(), c.caller, "http", &req)
		c.caller.tenant = cmp.Or(c.caller.tenant, req.Context.Tenant)
		return receipt, err
	})
}

// answerTurn submits a turn, then waits for it, streams its events, or does neither.
func (s *httpServer) answerTurn(c *Call, wait bool, after int64, origin turnOrigin, submit func() (agent.Receipt, error)) error {
	if wait { // enter before submit: if it fails, nothing must run
		leave, err := s.enter()
		if err != nil {
			return err
		}
		defer leave()
	}
	receipt, err := submit()
	if err != nil {
		return err
	}
	c.setTurnHeaders(receipt.TurnID)
	switch {
	case !wait:
		body := acceptedState(receipt, "")
		body.turnOrigin = origin
		s.write(c.w, http.StatusAccepted, body)
		return nil
	case wantsEvents(c.r):
		return s.streamSubmitted(c, receipt, after)
	default:
		return s.awaitSubmitted(c, receipt, origin)
	}
}

// turnParameters returns the parameters of POST /v1/turns: whether to wait, and after which event to resume.
func (c *Call) turnParameters() (wait bool, after int64, err error) {
	c.query.text("wait", maxText)
	c.query.text("after_index", maxText)
	if err := c.query.validate(); err != nil {
		return false, 0, err
	}
	wait = true
	if value := c.query.values.Get("wait"); value != "" {
		if wait, err = strconv.ParseBool(value); err != nil {
			return false, 0, agent.Invalid("wait", "want true or false, got %.60q", value)
		}
	}
	after, err = resumeOffset(c.r)
	return wait, after, err
}

// setTurnHeaders sets the headers with the id and the address of a turn.
func (c *Call) setTurnHeaders(id agent.TurnID) {
	c.w.Header().Set(turnIDHeader, string(id))
	c.w.Header().Set("Location", pathTurns+"/"+string(id))
}

// awaitSubmitted responds with the output of a turn. If the turn waits for a person, or waiting for it fails or ends, it responds with status 202,
// because the turn goes on.
func (s *httpServer) awaitSubmitted(c *Call, receipt agent.Receipt, origin turnOrigin) error {
	ctx, cancel := s.streamContext(c.r.Context())
	defer cancel()
	ctx, cancelWait := context.WithTimeout(ctx, s.cfg.Limits.WaitTimeout)
	defer cancelWait()

	end, err := s.await(ctx, c.caller, receipt)
	switch {
	case err != nil:
		if !TurnGoesOn(err) {
			s.cfg.Logger.Warn("wait for a turn", zap.String("turn", string(receipt.TurnID)), zap.Error(err))
		}
		body := acceptedState(receipt, agent.StateRunning)
		body.turnOrigin = origin
		s.write(c.w, http.StatusAccepted, body)
	case end.Output != nil:
		s.write(c.w, http.StatusOK, turnAnswer{outputBody(end.Output), origin})
	default:
		body := stateOf(receipt, agent.StateWaiting)
		body.Pending, body.turnOrigin = end.Pending, origin
		s.write(c.w, http.StatusAccepted, body)
	}
	return nil
}

// streamSubmitted streams the events of a submitted turn: of a new turn all, of an older one those after an index.
func (s *httpServer) streamSubmitted(c *Call, receipt agent.Receipt, after int64) error {
	if !receipt.Joined {
		return s.serveEvents(c, &TurnView{TurnID: receipt.TurnID}, 0)
	}
	v, err := c.SubmittedTurn(c.r.Context(), receipt)
	if err != nil {
		return err
	}
	return s.serveEvents(c, &v, after)
}

// getTurn is GET /v1/turns/{id}; see [TurnView.Body].
func (s *httpServer) getTurn(c *Call) (any, error) {
	v, err := s.turn(c.callContext(), c.caller, c.turnID(), agent.ActionTurnsRead)
	if err != nil {
		return nil, err
	}
	return c.withTurnHeader(&v, v.Body(), nil)
}

func (c *Call) turnID() agent.TurnID { return agent.TurnID(c.r.PathValue("id")) }

// withTurnHeader returns body and err, and sets the header with the id of the turn if the turn was found.
func (c *Call) withTurnHeader(v *TurnView, body any, err error) (any, error) {
	if v.TurnID != "" {
		c.w.Header().Set(turnIDHeader, string(v.TurnID))
	}
	return body, err
}

// ApplyIdempotencyKey sets the idempotency key of a body to that of the header. They must not differ.
func ApplyIdempotencyKey(r *http.Request, key *string) error {
	header := r.Header.Get("Idempotency-Key")
	if header != "" && *key != "" && *key != header {
		return agent.Invalid("idempotency_key", "differs from the header Idempotency-Key")
	}
	*key = cmp.Or(header, *key)
	return nil
}

// resumeOffset returns the index of the last event that the client has got. The header overrides the parameter, because an EventSource adds it to its
// first URL.
func resumeOffset(r *http.Request) (int64, error) {
	if id := r.Header.Get("Last-Event-ID"); id != "" {
		return wholeNumber("Last-Event-ID", id)
	}
	return wholeNumber("after_index", cmp.Or(r.URL.Query().Get("after_index"), "0"))
}

// getEvents is GET /v1/turns/{id}/events.
func (s *httpServer) getEvents(c *Call) error {
	c.query.text("after_index", maxText)
	if err := c.query.validate(); err != nil {
		return err
	}
	after, err := resumeOffset(c.r)
	if err != nil {
		return err
	}
	v, err := s.turn(c.callContext(), c.caller, c.turnID(), agent.ActionTurnsRead)
	if err != nil {
		return err
	}
	c.w.Header().Set(turnIDHeader, string(v.TurnID))
	leave, err := s.enter()
	if err != nil {
		return err
	}
	defer leave()
	return s.serveEvents(c, &v, after)
}

// serveEvents streams the events of a turn after an index. Its caller must have called enter.
func (s *httpServer) serveEvents(c *Call, v *TurnView, after int64) error {
	isOver, err := Resumable(v, after)
	if err != nil {
		return err
	}
	if isOver {
		c.w.WriteHeader(http.StatusNoContent) // an EventSource then stops
		return nil
	}
	ctx, cancel := s.streamContext(c.r.Context())
	defer cancel()
	return s.streamFrames(ctx, c, func(ctx context.Context) iter.Seq2[frame, error] {
		return framesOf(s.cfg.Turns.Follow(ctx, v.TurnID, after), eventFrame)
	})
}

// postDecision is POST /v1/turns/{id}/decisions.
func (s *httpServer) postDecision(c *Call) (any, error) {
	var d agent.Decision
	if err := c.decode(&d); err != nil {
		return nil, err
	}
	v, err := s.decide(c.callContext(), c.caller, c.turnID(), d)
	return c.withTurnHeader(&v, struct {
		TurnID     agent.TurnID       `json:"turn_id"`
		ApprovalID string             `json:"approval_id"`
		Decision   agent.DecisionKind `json:"decision"`
	}{v.TurnID, d.ApprovalID, d.Decision}, err)
}

// postProvided is POST /v1/turns/{id}/results.
func (s *httpServer) postProvided(c *Call) (any, error) {
	var p agent.ProvidedResult
	if err := c.decode(&p); err != nil {
		return nil, err
	}
	v, err := s.provide(c.callContext(), c.caller, c.turnID(), p)
	return c.withTurnHeader(&v, struct {
		TurnID     agent.TurnID `json:"turn_id"`
		ToolCallID agent.CallID `json:"tool_call_id"`
	}{v.TurnID, p.ToolCallID}, err)
}

// postCancel is POST /v1/turns/{id}/cancel with an optional body. The turn ends a moment later.
func (s *httpServer) postCancel(c *Call) (any, error) {
	var r agent.CancelRequest
	if err := c.decodeIfAny(&r); err != nil {
		return nil, err
	}
	v, err := s.cancel(c.callContext(), c.caller, c.turnID(), r)
	c.status = http.StatusAccepted
	return c.withTurnHeader(&v, turnState{TurnID: v.TurnID, SessionID: v.SessionID, StreamID: v.StreamID, State: v.State, Status: v.State}, err)
}

// postMessage is POST /v1/turns/{id}/messages. The message becomes a new turn of the turn's session.
func (s *httpServer) postMessage(c *Call) (any, error) {
	var req agent.TurnRequest
	if err := c.decode(&req); err != nil {
		return nil, err
	}
	if err := ApplyIdempotencyKey(c.r, &req.IdempotencyKey); err != nil {
		return nil, err
	}
	receipt, position, err := s.message(c.callContext(), c.caller, "http", c.turnID(), &req)
	if err != nil {
		return nil, err
	}
	c.setTurnHeaders(receipt.TurnID)
	c.status = http.StatusAccepted
	body := stateOf(receipt, "")
	body.Position = &position
	return body, nil
}
