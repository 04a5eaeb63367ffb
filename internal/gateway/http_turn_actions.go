package gateway

import (
	"context"
	"net/http"

	"github.com/turnstone-run/turnstone/agent"
)

// onTurn is what the actions on a turn share: it names the caller and decodes the body before it does anything, so that a malformed
// request tells nothing about turns. An empty body is accepted where optional.
func (s *httpServer) onTurn(
	w http.ResponseWriter, r *http.Request, body any, optional bool, do func(ctx context.Context, caller identity, id agent.TurnID) error,
) error {
	caller, err := readCaller(r)
	if err != nil {
		return err
	}
	if !optional || r.ContentLength != 0 {
		if err := s.decodeBody(w, r, body); err != nil {
			return err
		}
	}
	ctx, cancel := s.call(r)
	defer cancel()
	return do(ctx, caller, agent.TurnID(r.PathValue("id")))
}

// postDecision is POST /v1/turns/{id}/decisions.
func (s *httpServer) postDecision(w http.ResponseWriter, r *http.Request) error {
	var d agent.Decision
	return s.onTurn(w, r, &d, false, func(ctx context.Context, caller identity, id agent.TurnID) error {
		v, err := s.decide(ctx, caller, id, d)
		if err != nil {
			return aboutTurn(w, &v, err)
		}
		w.Header().Set(turnIDHeader, string(v.TurnID))
		s.write(w, http.StatusOK, struct {
			TurnID     agent.TurnID       `json:"turn_id"`
			ApprovalID string             `json:"approval_id"`
			Decision   agent.DecisionKind `json:"decision"`
		}{v.TurnID, d.ApprovalID, d.Decision})
		return nil
	})
}

// aboutTurn names in an error's response the turn that it is about, where it was found.
func aboutTurn(w http.ResponseWriter, v *TurnView, err error) error {
	if v.TurnID != "" {
		w.Header().Set(turnIDHeader, string(v.TurnID))
	}
	return err
}

// postProvided is POST /v1/turns/{id}/results.
func (s *httpServer) postProvided(w http.ResponseWriter, r *http.Request) error {
	var p ProvidedResult
	return s.onTurn(w, r, &p, false, func(ctx context.Context, caller identity, id agent.TurnID) error {
		v, err := s.provide(ctx, caller, id, p)
		if err != nil {
			return aboutTurn(w, &v, err)
		}
		w.Header().Set(turnIDHeader, string(v.TurnID))
		s.write(w, http.StatusOK, struct {
			TurnID     agent.TurnID `json:"turn_id"`
			ToolCallID agent.CallID `json:"tool_call_id"`
		}{v.TurnID, p.ToolCallID})
		return nil
	})
}

// postCancel is POST /v1/turns/{id}/cancel; the body may be left out. The turn ends a moment later, as its events tell.
func (s *httpServer) postCancel(w http.ResponseWriter, r *http.Request) error {
	var c agent.CancelRequest
	return s.onTurn(w, r, &c, true, func(ctx context.Context, caller identity, id agent.TurnID) error {
		v, err := s.cancel(ctx, caller, id, c)
		if err != nil {
			return aboutTurn(w, &v, err)
		}
		w.Header().Set(turnIDHeader, string(v.TurnID))
		s.write(w, http.StatusAccepted, turnState{
			TurnID: v.TurnID, SessionID: v.SessionID, StreamID: v.StreamID, State: v.State, Status: v.State,
		})
		return nil
	})
}

// postMessage is POST /v1/turns/{id}/messages: a further message for the session of the turn, which becomes a turn of its own.
func (s *httpServer) postMessage(w http.ResponseWriter, r *http.Request) error {
	var req agent.TurnRequest
	return s.onTurn(w, r, &req, false, func(ctx context.Context, caller identity, id agent.TurnID) error {
		if err := applyIdempotencyKey(r, &req); err != nil {
			return err
		}
		receipt, position, err := s.message(ctx, caller, "http", id, &req)
		if err != nil {
			return err
		}
		w.Header().Set(turnIDHeader, string(receipt.TurnID))
		w.Header().Set("Location", pathTurns+"/"+string(receipt.TurnID))
		body := stateOf(receipt, "")
		body.Position = &position
		s.write(w, http.StatusAccepted, body)
		return nil
	})
}
