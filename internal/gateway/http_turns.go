package gateway

import (
	"context"
	"net/http"
	"strconv"
	"strings"
	"time"

	"go.uber.org/zap"

	"github.com/turnstone-run/turnstone/agent"
)

// turnState is a turn that has not ended as JSON, and the body of a 202. Status repeats State so that a client may poll one
// field, whether or not the turn has ended.
type turnState struct {
	TurnID         agent.TurnID     `json:"turn_id"`
	SessionID      agent.SessionID  `json:"session_id"`
	StreamID       string           `json:"stream_id"`
	Agent          string           `json:"agent,omitempty"`
	Mode           agent.Mode       `json:"mode,omitempty"`
	Fallback       agent.Fallback   `json:"fallback,omitempty"`
	State          string           `json:"state,omitempty"`
	Status         string           `json:"status,omitempty"`
	StartedAt      *time.Time       `json:"started_at,omitempty"`
	LastEventIndex int64            `json:"last_event_index,omitempty"`
	Position       *int             `json:"position,omitempty"` // messages: 0 runs at once, 1 is next in line
	Pending        []agent.Approval `json:"pending,omitempty"`
}

// turnResult is a turn that has ended as JSON: its output, and State besides.
type turnResult struct {
	agent.AgentStepOutput

	State    string         `json:"state"`
	Mode     agent.Mode     `json:"mode,omitempty"`
	Fallback agent.Fallback `json:"fallback,omitempty"`
}

// outputBody returns a copy of an output in which every list is present, as [agent.AgentStepOutput] promises.
func outputBody(o *agent.AgentStepOutput) *agent.AgentStepOutput {
	c := *o
	if c.Blocks == nil {
		c.Blocks = []agent.Block{}
	}
	if c.ToolCalls == nil {
		c.ToolCalls = []agent.ToolCallNote{}
	}
	return &c
}

// postTurn is POST /v1/turns: submit, then wait, stream, or do neither.
func (s *httpServer) postTurn(w http.ResponseWriter, r *http.Request) error {
	caller, err := readCaller(r, "wait", "after_index")
	if err != nil {
		return err
	}
	wait, err := wantsWait(r)
	if err != nil {
		return err
	}
	after, err := resumeOffset(r)
	if err != nil {
		return err
	}
	var req agent.TurnRequest
	if err := s.decodeBody(w, r, &req); err != nil {
		return err
	}
	if err := applyIdempotencyKey(r, &req); err != nil {
		return err
	}
	if wait {
		// Before the turn exists: a refusal must mean that nothing runs.
		leave, err := s.enter()
		if err != nil {
			return err
		}
		defer leave()
	}
	ctx, cancel := s.call(r)
	receipt, err := s.submit(ctx, caller, "http", &req)
	cancel()
	if err != nil {
		return err
	}
	if caller.tenant == "" {
		caller.tenant = req.Context.Tenant
	}
	w.Header().Set(turnIDHeader, string(receipt.TurnID))
	w.Header().Set("Location", pathTurns+"/"+string(receipt.TurnID))
	switch {
	case !wait:
		s.write(w, http.StatusAccepted, acceptedState(receipt, ""))
		return nil
	case wantsEvents(r):
		return s.streamSubmitted(w, r, caller, receipt, after)
	default:
		return s.awaitSubmitted(w, r, caller, receipt)
	}
}

func stateOf(r agent.Receipt, state string) turnState {
	return turnState{TurnID: r.TurnID, SessionID: r.SessionID, StreamID: r.StreamID, State: state, Status: state}
}

// acceptedState is the state of a turn that the caller does not wait for; known is what is known of one that was started.
func acceptedState(r agent.Receipt, known string) turnState {
	if r.StartUnknown {
		known = agent.StateQueued
	}
	return stateOf(r, known)
}

// awaitSubmitted answers with the output, or with 202 when a person is needed, the wait was long enough, the gateway closes, or the events
// cannot be read: the turn was accepted and goes on in all of them.
func (s *httpServer) awaitSubmitted(w http.ResponseWriter, r *http.Request, caller identity, receipt agent.Receipt) error {
	ctx, cancel := s.whileOpen(r.Context())
	defer cancel()
	ctx, cancelWait := context.WithTimeout(ctx, s.cfg.Limits.WaitTimeout)
	defer cancelWait()

	end, err := s.await(ctx, caller, receipt)
	switch {
	case err != nil:
		if !isOver(err) {
			s.cfg.Logger.Warn("wait for a turn", zap.String("turn", string(receipt.TurnID)), zap.Error(err))
		}
		s.write(w, http.StatusAccepted, acceptedState(receipt, agent.StateRunning))
	case end.Output != nil:
		s.write(w, http.StatusOK, outputBody(end.Output))
	default:
		body := stateOf(receipt, StateWaiting)
		body.Pending = end.Pending
		s.write(w, http.StatusAccepted, body)
	}
	return nil
}

// streamSubmitted serves the events of a turn just submitted. A client that repeats its request resumes where it was.
func (s *httpServer) streamSubmitted(w http.ResponseWriter, r *http.Request, caller identity, receipt agent.Receipt, after int64) error {
	view := TurnView{TurnID: receipt.TurnID}
	if receipt.Joined {
		ctx, cancel := s.call(r)
		defer cancel()
		var err error
		if view, err = s.turn(ctx, caller, receipt.TurnID, ""); err != nil {
			return err
		}
	} else {
		after = 0 // a new turn has no past to skip
	}
	return s.serveEvents(w, r, &view, after)
}

// getTurn is GET /v1/turns/{id}: the state of a turn, or its output with the state once it has ended.
func (s *httpServer) getTurn(w http.ResponseWriter, r *http.Request) error {
	caller, err := readCaller(r)
	if err != nil {
		return err
	}
	ctx, cancel := s.call(r)
	defer cancel()
	v, err := s.turn(ctx, caller, agent.TurnID(r.PathValue("id")), agent.ActionTurnsRead)
	if err != nil {
		return err
	}
	w.Header().Set(turnIDHeader, string(v.TurnID))
	s.write(w, http.StatusOK, v.Body())
	return nil
}

// Body is the turn as JSON, as GET /v1/turns/{id} answers: its output once it has ended, its state before.
func (v *TurnView) Body() any {
	if v.Output != nil {
		return turnResult{AgentStepOutput: *outputBody(v.Output), State: v.State, Mode: v.Mode, Fallback: v.Fallback}
	}
	body := turnState{
		TurnID: v.TurnID, SessionID: v.SessionID, StreamID: v.StreamID, Agent: v.Agent, Mode: v.Mode, Fallback: v.Fallback, State: v.State,
		Status:         v.State,
		LastEventIndex: v.Tail.LastIndex, Pending: v.Pending,
	}
	if !v.StartedAt.IsZero() {
		body.StartedAt = &v.StartedAt
	}
	return body
}

func wantsWait(r *http.Request) (bool, error) {
	value := r.URL.Query().Get("wait")
	if value == "" {
		return true, nil
	}
	wait, err := strconv.ParseBool(value)
	if err != nil {
		return false, agent.Invalid("wait", "want true or false, got %.60q", value)
	}
	return wait, nil
}

// wantsEvents reports whether the client accepts an event stream. One that accepts JSON first, or anything, gets JSON.
func wantsEvents(r *http.Request) bool {
	for _, accept := range r.Header.Values("Accept") {
		for part := range strings.SplitSeq(accept, ",") {
			media, _, _ := strings.Cut(part, ";")
			switch strings.ToLower(strings.TrimSpace(media)) {
			case "text/event-stream":
				return true
			case "application/json":
				return false
			}
		}
	}
	return false
}

// applyIdempotencyKey takes the key from the header; header and body must not disagree.
func applyIdempotencyKey(r *http.Request, req *agent.TurnRequest) error {
	key := r.Header.Get("Idempotency-Key")
	if key == "" {
		return nil
	}
	if req.IdempotencyKey != "" && req.IdempotencyKey != key {
		return agent.Invalid("idempotency_key", "differs from the header Idempotency-Key")
	}
	req.IdempotencyKey = key
	return nil
}

// resumeOffset reads the last event that the client has seen. The header wins: an EventSource repeats its first URL and adds the
// header.
func resumeOffset(r *http.Request) (int64, error) {
	if id := r.Header.Get("Last-Event-ID"); id != "" {
		return wholeNumber("Last-Event-ID", id)
	}
	return queryInt(r, "after_index")
}

// getEvents is GET /v1/turns/{id}/events.
func (s *httpServer) getEvents(w http.ResponseWriter, r *http.Request) error {
	caller, err := readCaller(r, "after_index")
	if err != nil {
		return err
	}
	after, err := resumeOffset(r)
	if err != nil {
		return err
	}
	ctx, cancel := s.call(r)
	v, err := s.turn(ctx, caller, agent.TurnID(r.PathValue("id")), agent.ActionTurnsRead)
	cancel()
	if err != nil {
		return err
	}
	w.Header().Set(turnIDHeader, string(v.TurnID))
	leave, err := s.enter()
	if err != nil {
		return err
	}
	defer leave()
	return s.serveEvents(w, r, &v, after)
}

// serveEvents streams the events of a turn behind an offset; its caller has taken a place.
func (s *httpServer) serveEvents(w http.ResponseWriter, r *http.Request, v *TurnView, after int64) error {
	over, err := resumable(v, after)
	if err != nil {
		return err
	}
	if over {
		w.WriteHeader(http.StatusNoContent) // makes an EventSource stop
		return nil
	}
	ctx, cancel := s.whileOpen(r.Context())
	defer cancel()
	out := eventWriter{w: w, control: http.NewResponseController(w), timeout: s.cfg.Limits.WriteTimeout}
	if err := out.begin(); err != nil || r.Method == http.MethodHead {
		return quietly(err)
	}
	l := &s.cfg.Limits
	return quietly(out.follow(ctx, framesOf(s.cfg.Runtime.Follow(ctx, v.TurnID, after), eventFrame), l.StreamBuffer, l.Heartbeat))
}
