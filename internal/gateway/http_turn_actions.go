package gateway

import (
	"cmp"
	"context"
	"encoding/json"
	"net/http"

	"github.com/turnstone-run/turnstone/agent"
)

// checkDecision checks the shape of a decision; what it may say is the runtime's to judge.
func checkDecision(d *agent.Decision) error {
	if d.ApprovalID == "" {
		return agent.Invalid("approval_id", "is empty")
	}
	switch d.Decision {
	case agent.DecisionApprove, agent.DecisionReject:
	case agent.DecisionEdit:
		var args map[string]json.RawMessage
		if err := json.Unmarshal(d.Args, &args); err != nil || args == nil {
			return agent.Invalid("args", "edit wants the arguments to run with, a JSON object")
		}
	case agent.DecisionRespond:
		if d.Message == "" {
			return agent.Invalid("message", "respond wants the answer that the model gets")
		}
	default:
		return agent.Invalid("decision", "want approve, edit, reject or respond, got %.60q", d.Decision)
	}
	return nil
}

// onTurn is what the actions on a turn share: it names the caller, decodes the body and looks the turn up in his tenant, in
// this order, so that a malformed request tells nothing about turns. An empty body is accepted where optional.
func (s *httpServer) onTurn(w http.ResponseWriter, r *http.Request, body any, optional bool, do func(context.Context, *TurnView) error) error {
	who, err := caller(r)
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
	v, err := s.turn(ctx, who, agent.TurnID(r.PathValue("id")))
	if err != nil {
		return err
	}
	w.Header().Set(turnIDHeader, string(v.TurnID))
	return do(ctx, &v)
}

// postDecision is POST /v1/turns/{id}/decisions.
func (s *httpServer) postDecision(w http.ResponseWriter, r *http.Request) error {
	var d agent.Decision
	return s.onTurn(w, r, &d, false, func(ctx context.Context, v *TurnView) error {
		if err := checkDecision(&d); err != nil {
			return err
		}
		if err := s.cfg.Runtime.Decide(ctx, v.TurnID, d); err != nil {
			return err
		}
		s.write(w, http.StatusOK, struct {
			TurnID     agent.TurnID       `json:"turn_id"`
			ApprovalID string             `json:"approval_id"`
			Decision   agent.DecisionKind `json:"decision"`
		}{v.TurnID, d.ApprovalID, d.Decision})
		return nil
	})
}

// postProvided is POST /v1/turns/{id}/results.
func (s *httpServer) postProvided(w http.ResponseWriter, r *http.Request) error {
	var p ProvidedResult
	return s.onTurn(w, r, &p, false, func(ctx context.Context, v *TurnView) error {
		if err := p.Validate(); err != nil {
			return err
		}
		if err := s.cfg.Runtime.Provide(ctx, v.TurnID, p); err != nil {
			return err
		}
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
	return s.onTurn(w, r, &c, true, func(ctx context.Context, v *TurnView) error {
		if err := s.cfg.Runtime.Cancel(ctx, v.TurnID, c); err != nil {
			return err
		}
		s.write(w, http.StatusAccepted, turnState{
			TurnID: v.TurnID, SessionID: v.SessionID, StreamID: v.StreamID, State: v.State, Status: v.State,
		})
		return nil
	})
}

// postMessage is POST /v1/turns/{id}/messages: a further message for the session of the turn, which becomes a turn of its own.
func (s *httpServer) postMessage(w http.ResponseWriter, r *http.Request) error {
	var req agent.TurnRequest
	return s.onTurn(w, r, &req, false, func(ctx context.Context, v *TurnView) error {
		if err := applyIdempotencyKey(r, &req); err != nil {
			return err
		}
		if err := s.checkMessage(v, "http", &req); err != nil {
			return err
		}
		receipt, position, err := s.cfg.Runtime.Message(ctx, v.TurnID, req)
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

// checkMessage puts a message into the session and tenant of a turn. Of a turn started a moment ago neither may be known yet; the
// runtime fills them in.
func (g *Gateway) checkMessage(v *TurnView, door string, req *agent.TurnRequest) error {
	switch {
	case req.StreamTo != nil:
		return errStreamTo()
	case req.SessionID != "" && v.SessionID != "" && req.SessionID != v.SessionID:
		return agent.Invalid("session_id", "is %q, but the turn's session is %q", req.SessionID, v.SessionID)
	case req.Context.Tenant != "" && v.Tenant != "" && req.Context.Tenant != v.Tenant:
		return agent.Invalid("context.tenant", "is not the turn's tenant")
	}
	req.SessionID, req.Context.Tenant = cmp.Or(v.SessionID, req.SessionID), cmp.Or(v.Tenant, req.Context.Tenant)
	if req.Channel == "" {
		req.Channel = door
	}
	return req.Validate(int(g.cfg.Limits.BodyBytes))
}
