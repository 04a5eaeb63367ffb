package inbox

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"slices"
	"time"

	"go.uber.org/zap"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/telemetry/logs"
)

// Admission decides whether a turn may begin; admission.Gate does. A refusal is [agent.CodeRateLimited]. leave, never nil, gives back the
// place of a turn that does not begin after all.
type Admission interface {
	Admit(
		ctx context.Context, turn agent.TurnID, tenant, user, agentName string, doc agent.RateLimits,
	) (leave func(context.Context), err error)
}

// Audit keeps the trail; it never blocks.
type Audit interface {
	Record(r agent.AuditRecord)
}

// Who said how a turn is driven.
const (
	modeRequest  = "request"
	modeAgent    = "agent"
	modeChannel  = "channel"
	modeDefault  = "default"
	modeFallback = "fallback" // it was to be direct and could not be
)

// chooseMode decides how the turn is driven: as the request says, else the agent, else the channel, else as a workflow.
func (s *submission) chooseMode(ofAgent agent.Mode) {
	switch {
	case s.req.Mode != "":
		s.mode, s.modeBy = s.req.Mode, modeRequest
	case ofAgent != "":
		s.mode, s.modeBy = ofAgent, modeAgent
	case slices.Contains(s.DirectChannels, s.req.Channel):
		s.mode, s.modeBy = agent.ModeDirect, modeChannel
	default:
		s.mode, s.modeBy = agent.ModeDurable, modeDefault
	}
	if s.mode == agent.ModeDirect && s.Direct == nil {
		s.mode, s.modeBy, s.fallback = agent.ModeDurable, modeFallback, agent.FallbackWorker
	}
}

// authorise asks whether the caller may have turns of an agent in the request's tenant. A door has asked what it could before; which agent
// answers is known only here.
func (s *submission) authorise(name string) error {
	tenant := s.req.Context.TenantName()
	if !s.caller.Trusted() && s.caller.Tenant != agent.AnyTenant && s.caller.Tenant != tenant {
		return agent.FieldErrorf(agent.CodeDenied, "context.tenant", "is %q, which is not the credential's", tenant)
	}
	if !s.caller.May(agent.ActionTurnsRun, name) {
		return agent.Errorf(agent.CodeDenied, "", "the credential does not allow %s of %.140q", agent.ActionTurnsRun, name)
	}
	return nil
}

// limitTools bounds the request to the tools that the credential allows.
func (s *submission) limitTools() {
	allowed := s.caller.ToolLimits()
	if allowed == nil {
		return
	}
	var limits agent.Limits
	if s.req.Limits != nil {
		limits = *s.req.Limits
	}
	limits = limits.Lower(&agent.Limits{Tools: allowed})
	s.req.Limits = &limits
}

// takePlace asks the limits for a place. It comes last before the turn is recorded, so that nothing counts that is refused for another reason.
func (s *submission) takePlace(ctx context.Context) (leave func(context.Context), err error) {
	if s.Admission == nil {
		return func(context.Context) {}, nil
	}
	user := cmp.Or(s.caller.Subject, s.req.Context.UserID)
	return s.Admission.Admit(ctx, s.req.TurnID, s.req.Context.TenantName(), user, s.agent, s.checked.Plan.RateLimits)
}

// isFinal reports whether an error says that the turn does not begin, and not only that nobody knows.
func isFinal(err error) bool {
	switch agent.CodeOf(err) {
	case agent.CodeInvalid, agent.CodeNotFound, agent.CodeDenied, agent.CodeConflict, agent.CodeRateLimited, agent.CodeOverflow:
		return true
	default:
		return false
	}
}

// turnNote is what the trail says of a request for a turn.
type turnNote struct {
	TurnID    agent.TurnID    `json:"turn_id,omitempty"` // empty where none began: a new id would mean nothing
	SessionID agent.SessionID `json:"session_id,omitempty"`
	UserID    string          `json:"user_id,omitempty"`
	Mode      agent.Mode      `json:"mode,omitempty"`
	ModeBy    string          `json:"mode_by,omitempty"` // request, agent, channel, default, fallback
	Joined    bool            `json:"joined,omitempty"`

	Error agent.Code `json:"error,omitempty"`
	Field string     `json:"field,omitempty"`
	Bound string     `json:"bound,omitempty"` // of limits: "tenant requests_per_minute"
}

// audit records a turn that was accepted, or refused for want of a right or a place.
func (s *submission) audit(receipt agent.Receipt, err error) {
	if s.Audit == nil {
		return
	}
	r := agent.AuditRecord{
		At: time.Now().UTC(), Tenant: s.req.Context.TenantName(), Subject: cmp.Or(s.caller.Subject, s.sender), Method: s.caller.Method,
		Credential: s.caller.Credential, Action: agent.ActionTurnsRun, Resource: "agent/" + s.agent, Outcome: agent.AuditAllowed,
		Channel: s.door, RequestID: s.requestID, Remote: s.remote,
	}
	note := turnNote{UserID: s.req.Context.UserID, Mode: s.mode, ModeBy: s.modeBy}
	switch code := agent.CodeOf(err); code {
	case "":
		note.TurnID, note.SessionID, note.Joined = receipt.TurnID, receipt.SessionID, receipt.Joined
	case agent.CodeDenied, agent.CodeRateLimited:
		r.Outcome, note.Error, note.SessionID = agent.AuditDenied, code, s.req.SessionID
		if e, ok := errors.AsType[*agent.Error](err); ok {
			note.Field = e.Field
		}
		if refused, ok := errors.AsType[agent.AdmissionRefused](err); ok {
			note.Bound = refused.Kind + " " + refused.Bound
		}
	default:
		return // refused for what it says, or broken: nobody was denied anything
	}
	if r.Detail, err = json.Marshal(note); err != nil {
		s.Logger.Error("audit a turn", logs.Turn(s.req.TurnID, r.Tenant, ""), zap.String(logs.KeyRequest, s.requestID), zap.Error(err))
	}
	s.Audit.Record(r)
}

// EndOrphan ends a turn that nobody drives any more, and reports whether it has ended. One that is not recorded has not.
func (b *Inbox) EndOrphan(ctx context.Context, id agent.TurnID) (bool, error) {
	t, err := b.Store.Turn(ctx, id)
	switch {
	case agent.CodeOf(err) == agent.CodeNotFound:
		return false, nil
	case err != nil:
		return false, err
	case t.Output != nil:
		return true, nil
	}
	return b.endOrphan(ctx, id, &t)
}
