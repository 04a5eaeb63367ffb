package turns

import (
	"cmp"
	"context"
	"slices"

	"github.com/turnstone-run/turnstone/agent"
)

// Admission holds turns to the limits of tenants, users and agents; admission.Gate does.
type Admission interface {
	// Admit takes a place for a turn. A refusal is [agent.CodeRateLimited]. leave, never nil, gives back the place of a turn that does not begin.
	Admit(
		ctx context.Context, turn agent.TurnID, tenant, user, agentName string, doc agent.RateLimits,
	) (leave func(context.Context), err error)
}

// The reasons for a turn's mode.
const (
	modeByRequest  = "request"
	modeByAgent    = "agent"
	modeByChannel  = "channel"
	modeByDefault  = "default"
	modeByFallback = "fallback" // the turn was to be direct and could not be
)

// chooseMode decides how the turn is driven: as the request says, else the agent, else the channel, else as a workflow.
func (s *submission) chooseMode(ofAgent agent.Mode) {
	switch {
	case s.req.Mode != "":
		s.mode, s.modeSource = s.req.Mode, modeByRequest
	case ofAgent != "":
		s.mode, s.modeSource = ofAgent, modeByAgent
	case slices.Contains(s.DirectChannels, s.req.Channel):
		s.mode, s.modeSource = agent.ModeDirect, modeByChannel
	default:
		s.mode, s.modeSource = agent.ModeDurable, modeByDefault
	}
	if s.mode == agent.ModeDirect && s.Driver == nil {
		s.mode, s.modeSource, s.fallback = agent.ModeDurable, modeByFallback, agent.FallbackWorker
	}
}

// authorise refuses a caller who may not run the chosen agent in the request's tenant. The door has checked the rest.
func (s *submission) authorise() error {
	caller, tenant := &s.envelope.Principal, s.req.Context.TenantName()
	if !caller.Trusted() && caller.Tenant != agent.AnyTenant && caller.Tenant != tenant {
		return agent.FieldErrorf(agent.CodeDenied, "context.tenant", "is %q, which is not the credential's", tenant)
	}
	if !caller.May(agent.ActionTurnsRun, s.agent) {
		return agent.Errorf(agent.CodeDenied, "", "the credential does not allow %s of %.140q", agent.ActionTurnsRun, s.agent)
	}
	return nil
}

// limits returns the limits of the request, bounded to the tools that the credential allows; nil if there are none.
func (s *submission) limits() *agent.Limits {
	given, allowed := s.envelope.Request.Limits, s.envelope.Principal.ToolLimits()
	if allowed == nil {
		return given
	}
	var limits agent.Limits
	if given != nil {
		limits = *given
	}
	limits = limits.Lower(&agent.Limits{Tools: allowed})
	return &limits
}

// enterLimits takes a place within the limits. It comes last before the turn is recorded, so that a request refused for another reason does not count.
func (s *submission) enterLimits(ctx context.Context) (leave func(context.Context), err error) {
	user := cmp.Or(s.envelope.Principal.Subject, s.req.Context.UserID)
	return s.Admission.Admit(ctx, s.req.TurnID, s.req.Context.TenantName(), user, s.agent, s.checked.Plan.RateLimits)
}

// isRefusal reports whether an error means that the turn does not begin. After any other error the outcome is unknown.
func isRefusal(err error) bool {
	switch agent.CodeOf(err) {
	case agent.CodeInvalid, agent.CodeNotFound, agent.CodeDenied, agent.CodeConflict, agent.CodeRateLimited, agent.CodeOverflow:
		return true
	default:
		return false
	}
}
