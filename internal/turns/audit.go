package turns

import (
	"cmp"
	"encoding/json"
	"errors"
	"time"

	"go.uber.org/zap"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/telemetry/logs"
)

// Audit writes the audit trail.
type Audit interface {
	// Record adds a record without blocking.
	Record(r agent.AuditRecord)
}

// auditDetail is the detail of an audit record about a request for a turn.
type auditDetail struct {
	TurnID    agent.TurnID    `json:"turn_id,omitempty"` // empty if no turn was accepted
	SessionID agent.SessionID `json:"session_id,omitempty"`
	UserID    string          `json:"user_id,omitempty"`
	Mode      agent.Mode      `json:"mode,omitempty"`
	ModeBy    string          `json:"mode_by,omitempty"` // request, agent, channel, default, fallback
	Joined    bool            `json:"joined,omitempty"`
	RerunOf   agent.TurnID    `json:"rerun_of,omitempty"`
	Prompt    bool            `json:"prompt,omitempty"` // the rerun replaces the agent's system prompt
	Draft     bool            `json:"draft,omitempty"`  // the agent is a draft that is not in the catalog

	Error agent.Code `json:"error,omitempty"`
	Field string     `json:"field,omitempty"`
	Bound string     `json:"bound,omitempty"` // the limit that was reached, such as "tenant requests_per_minute"
}

// audit records that a turn was accepted, or denied for lack of rights or by a limit. It does not record other errors.
func (s *submission) audit(receipt agent.Receipt, err error) {
	e, caller := &s.envelope, &s.envelope.Principal
	r := agent.AuditRecord{
		At: time.Now().UTC(), Tenant: s.req.Context.TenantName(), Subject: cmp.Or(caller.Subject, e.Sender), Method: caller.Method,
		Credential: caller.Credential, Action: agent.ActionTurnsRun, Resource: "agent/" + s.agent, Outcome: agent.AuditAllowed,
		Channel: cmp.Or(e.Channel, e.Request.Channel), RequestID: e.RequestID, Remote: e.Remote,
	}
	detail := auditDetail{UserID: s.req.Context.UserID, Mode: s.mode, ModeBy: s.modeSource, RerunOf: rerunOf(&s.req), Draft: s.req.Draft != nil}
	detail.Prompt = detail.RerunOf != "" && s.req.Rerun.Prompt != ""
	switch code := agent.CodeOf(err); code {
	case "":
		detail.TurnID, detail.SessionID, detail.Joined = receipt.TurnID, receipt.SessionID, receipt.Joined
	case agent.CodeDenied, agent.CodeRateLimited:
		r.Outcome, detail.Error, detail.SessionID = agent.AuditDenied, code, s.req.SessionID
		if e, ok := errors.AsType[*agent.Error](err); ok {
			detail.Field = e.Field
		}
		if refused, ok := errors.AsType[agent.AdmissionRefused](err); ok {
			detail.Bound = refused.Kind + " " + refused.Bound
		}
	default:
		return
	}
	if r.Detail, err = json.Marshal(detail); err != nil {
		s.Turns.Logger.Error("audit a turn", logs.Turn(s.req.TurnID, r.Tenant, ""), zap.String(logs.KeyRequest, r.RequestID), zap.Error(err))
	}
	s.Audit.Record(r)
}
