package turns

import (
	"cmp"
	"context"
	"slices"

	"github.com/turnstone-run/turnstone/agent"
)

// Admission enforces the limits of tenants, users and agents. It is implemented by admission.Gate.
type Admission interface {
	// Admit takes a place for a turn, or refuses with [agent.CodeRateLimited]. leave, which is never nil, gives the place back if the turn does
	// not begin.
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
	modeByFallback = "fallback" // the turn should be direct, but this process cannot run it
)

// chooseMode sets the mode of the turn: that of the request, else of the agent, else of the channel, else durable.
func (s *submission) chooseMode(agentMode agent.Mode) {
	switch {
	case s.req.Mode != "":
		s.mode, s.modeSource = s.req.Mode, modeByRequest
	case agentMode != "":
		s.mode, s.modeSource = agentMode, modeByAgent
	case slices.Contains(s.DirectChannels, s.req.Channel):
		s.mode, s.modeSource = agent.ModeDirect, modeByChannel
	default:
		s.mode, s.modeSource = agent.ModeDurable, modeByDefault
	}
	if s.mode == agent.ModeDirect && s.Driver == nil {
		s.mode, s.modeSource, s.fallback = agent.ModeDurable, modeByFallback, agent.FallbackWorker
	}
}

// authorise refuses a caller who may not run the chosen agent in the request's tenant. The API has checked all other rights.
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

// limits returns the limits of the request, restricted to the tools that the credential allows. It returns nil if neither sets any.
func (s *submission) limits() *agent.Limits {
	requested, allowed := s.envelope.Request.Limits, s.envelope.Principal.ToolLimits()
	if allowed == nil {
		return requested
	}
	var limits agent.Limits
	if requested != nil {
		limits = *requested
	}
	limits = limits.Lower(&agent.Limits{Tools: allowed})
	return &limits
}

// enterLimits takes a place within the limits. It is the last check before the turn is recorded, so that a request that is refused for another
// reason does not count.
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
