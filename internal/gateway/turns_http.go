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
		http.MethodGet:  requires(s.answer(tenantAgreed, s.getTurns), agent.ActionTurnsRead),
		http.MethodPost: requires(s.serve(tenantAgreed, s.postTurn), agent.ActionTurnsRun),
	})
	s.route(one, methods{http.MethodGet: requires(s.answerPlain(tenantAgreed, s.getTurn), agent.ActionTurnsRead)})
	s.route(one+"/events", methods{http.MethodGet: requires(s.serve(tenantAgreed, s.getEvents), agent.ActionTurnsRead)})
	s.route(one+"/decisions", methods{http.MethodPost: requires(s.answerPlain(tenantAgreed, s.postDecision), agent.ActionApprovalsDecide)})
	s.route(one+"/results", methods{http.MethodPost: requires(s.answerPlain(tenantAgreed, s.postProvided), agent.ActionTurnsRun)})
	s.route(one+"/cancel", methods{http.MethodPost: requires(s.answerPlain(tenantAgreed, s.postCancel), agent.ActionTurnsCancel)})
	s.route(one+"/messages", methods{http.MethodPost: requires(s.answerPlain(tenantAgreed, s.postMessage), agent.ActionTurnsRun)})
	s.route(one+"/rerun", methods{http.MethodPost: requires(s.serve(tenantAgreed, s.postRerun), agent.ActionTurnsRun)})
	s.route(pathTestChat, methods{http.MethodPost: requires(s.serve(tenantAgreed, s.postTestChat), agent.ActionTurnsRun)})
}

// postTurn is POST /v1/turns: submit, then wait, stream, or do neither.
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
		receipt, err := s.submit(c.bounded(), c.caller, "http", &req)
		if c.caller.tenant == "" {
			c.caller.tenant = req.Context.Tenant
		}
		return receipt, err
	})
}

// answerTurn submits a turn, then waits for it, streams its events, or does neither.
func (s *httpServer) answerTurn(c *Call, wait bool, after int64, of turnOrigin, submit func() (agent.Receipt, error)) error {
	if wait {
		// Before the turn exists: a refusal must mean that nothing runs.
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
		body.turnOrigin = of
		s.write(c.w, http.StatusAccepted, body)
		return nil
	case wantsEvents(c.r):
		return s.streamSubmitted(c, receipt, after)
	default:
		return s.awaitSubmitted(c, receipt, of)
	}
}

// turnParameters returns the parameters of POST /v1/turns: whether to wait, and after which event to resume.
func (c *Call) turnParameters() (wait bool, after int64, err error) {
	c.query.text("wait", maxText)
	c.query.text("after_index", maxText)
	if err := c.query.end(); err != nil {
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

// setTurnHeaders sets the headers that name a turn and say where its state is.
func (c *Call) setTurnHeaders(id agent.TurnID) {
	c.w.Header().Set(turnIDHeader, string(id))
	c.w.Header().Set("Location", pathTurns+"/"+string(id))
}

// awaitSubmitted answers with the output, or with 202 when a person is needed, the wait was long enough, the gateway closes, or the events
// cannot be read: the turn was accepted and goes on in all of them.
func (s *httpServer) awaitSubmitted(c *Call, receipt agent.Receipt, of turnOrigin) error {
	ctx, cancel := s.whileOpen(c.r.Context())
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
		body.turnOrigin = of
		s.write(c.w, http.StatusAccepted, body)
	case end.Output != nil:
		s.write(c.w, http.StatusOK, turnAnswer{outputBody(end.Output), of})
	default:
		body := stateOf(receipt, agent.StateWaiting)
		body.Pending, body.turnOrigin = end.Pending, of
		s.write(c.w, http.StatusAccepted, body)
	}
	return nil
}

// streamSubmitted serves the events of a turn just submitted. A client that repeats its request resumes where it was.
func (s *httpServer) streamSubmitted(c *Call, receipt agent.Receipt, after int64) error {
	if !receipt.Joined {
		return s.serveEvents(c, &TurnView{TurnID: receipt.TurnID}, 0) // a new turn has no past to skip
	}
	v, err := c.SubmittedTurn(c.r.Context(), receipt)
	if err != nil {
		return err
	}
	return s.serveEvents(c, &v, after)
}

// getTurn is GET /v1/turns/{id}: the state of a turn, or its output with the state once it has ended.
func (s *httpServer) getTurn(c *Call) (any, error) {
	v, err := s.turn(c.bounded(), c.caller, c.turnID(), agent.ActionTurnsRead)
	if err != nil {
		return nil, err
	}
	return c.aboutTurn(&v, v.Body(), nil)
}

func (c *Call) turnID() agent.TurnID { return agent.TurnID(c.r.PathValue("id")) }

// aboutTurn returns body and err, and names the turn in the header of the response if it was found.
func (c *Call) aboutTurn(v *TurnView, body any, err error) (any, error) {
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

// resumeOffset returns the index of the last event that the client has seen. The header wins: an EventSource repeats its first URL and adds
// the header.
func resumeOffset(r *http.Request) (int64, error) {
	if id := r.Header.Get("Last-Event-ID"); id != "" {
		return wholeNumber("Last-Event-ID", id)
	}
	return wholeNumber("after_index", cmp.Or(r.URL.Query().Get("after_index"), "0"))
}

// getEvents is GET /v1/turns/{id}/events.
func (s *httpServer) getEvents(c *Call) error {
	c.query.text("after_index", maxText)
	if err := c.query.end(); err != nil {
		return err
	}
	after, err := resumeOffset(c.r)
	if err != nil {
		return err
	}
	v, err := s.turn(c.bounded(), c.caller, c.turnID(), agent.ActionTurnsRead)
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

// serveEvents streams the events of a turn after an index. Its caller has taken a place among the followers.
func (s *httpServer) serveEvents(c *Call, v *TurnView, after int64) error {
	over, err := Resumable(v, after)
	if err != nil {
		return err
	}
	if over {
		c.w.WriteHeader(http.StatusNoContent) // makes an EventSource stop
		return nil
	}
	ctx, cancel := s.whileOpen(c.r.Context())
	defer cancel()
	out := newEventWriter(c.w, s.cfg.Limits.WriteTimeout)
	if err := out.begin(); err != nil || c.r.Method == http.MethodHead {
		return Quietly(err)
	}
	return Quietly(out.follow(ctx, s.cfg.Limits.Heartbeat, func(ctx context.Context) iter.Seq2[frame, error] {
		return framesOf(s.cfg.Turns.Follow(ctx, v.TurnID, after), eventFrame)
	}))
}

// postDecision is POST /v1/turns/{id}/decisions.
func (s *httpServer) postDecision(c *Call) (any, error) {
	var d agent.Decision
	if err := c.decode(&d); err != nil {
		return nil, err
	}
	v, err := s.decide(c.bounded(), c.caller, c.turnID(), d)
	return c.aboutTurn(&v, struct {
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
	v, err := s.provide(c.bounded(), c.caller, c.turnID(), p)
	return c.aboutTurn(&v, struct {
		TurnID     agent.TurnID `json:"turn_id"`
		ToolCallID agent.CallID `json:"tool_call_id"`
	}{v.TurnID, p.ToolCallID}, err)
}

// postCancel is POST /v1/turns/{id}/cancel; the body may be left out. The turn ends a moment later, as its events show.
func (s *httpServer) postCancel(c *Call) (any, error) {
	var r agent.CancelRequest
	if err := c.decodeIfAny(&r); err != nil {
		return nil, err
	}
	v, err := s.cancel(c.bounded(), c.caller, c.turnID(), r)
	c.status = http.StatusAccepted
	return c.aboutTurn(&v, turnState{TurnID: v.TurnID, SessionID: v.SessionID, StreamID: v.StreamID, State: v.State, Status: v.State}, err)
}

// postMessage is POST /v1/turns/{id}/messages: a further message for the session of the turn, which becomes a turn of its own.
func (s *httpServer) postMessage(c *Call) (any, error) {
	var req agent.TurnRequest
	if err := c.decode(&req); err != nil {
		return nil, err
	}
	if err := ApplyIdempotencyKey(c.r, &req.IdempotencyKey); err != nil {
		return nil, err
	}
	receipt, position, err := s.message(c.bounded(), c.caller, "http", c.turnID(), &req)
	if err != nil {
		return nil, err
	}
	c.setTurnHeaders(receipt.TurnID)
	c.status = http.StatusAccepted
	body := stateOf(receipt, "")
	body.Position = &position
	return body, nil
}
