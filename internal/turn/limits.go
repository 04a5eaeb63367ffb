package turn

import (
	"fmt"
	"strings"

	"github.com/turnstone-run/turnstone/agent"
)

// exhausted ends the turn when a limit forbids another model call.
func (s State) exhausted() State {
	switch {
	case s.Step >= hardModelCalls, s.over(int64(s.Limits.Iterations), int64(s.Step)):
		return s.stopAt(agent.StopIterations)
	case s.over(int64(s.Limits.ModelCalls), int64(s.ModelCalls)):
		return s.stopAt(agent.StopModelCalls)
	case s.over(s.Limits.Tokens, s.Usage.InputTokens+s.Usage.OutputTokens):
		return s.stopAt(agent.StopTokens)
	case s.Limits.CostUSD > 0 && s.Usage.CostUSD >= s.Limits.CostUSD:
		return s.stopAt(agent.StopCost)
	case s.over(s.Limits.WallTimeSec*1000, s.ElapsedMS):
		return s.stopAt(agent.StopWallTime)
	}
	for i := range s.Rules.ModelCalls {
		r := &s.Rules.ModelCalls[i]
		if words := reachedLimit(r, s.Step, s.Step); words != "" {
			return s.exit(agent.StopModelCalls, r.Exit, "Model call limit reached: "+words+".")
		}
	}
	return s
}

// over reports whether spent has reached a bound; a bound of 0 is none.
func (State) over(bound, spent int64) bool { return bound > 0 && spent >= bound }

// stopAt ends the turn at a limit, with the figure in the message.
func (s State) stopAt(stop agent.StopReason) State {
	var what string
	switch stop {
	case agent.StopIterations:
		what = allowed(fmt.Sprintf("%d iterations", s.Step), s.Limits.Iterations)
	case agent.StopModelCalls:
		what = allowed(fmt.Sprintf("%d model calls", s.ModelCalls), s.Limits.ModelCalls)
	case agent.StopToolCalls:
		what = fmt.Sprintf("%d tool calls asked for, %d allowed", s.ToolCalls, s.Limits.ToolCalls)
	case agent.StopTokens:
		what = allowed(fmt.Sprintf("%d tokens", s.Usage.InputTokens+s.Usage.OutputTokens), s.Limits.Tokens)
	case agent.StopCost:
		what = fmt.Sprintf("USD %.4f", s.Usage.CostUSD)
	case agent.StopWallTime:
		what = allowed(fmt.Sprintf("%d s", s.ElapsedMS/1000), s.Limits.WallTimeSec)
	case agent.StopEndTurn, agent.StopMaxTokens, agent.StopFiltered, agent.StopCancelled, agent.StopModelError, agent.StopTerminated, agent.StopRefused,
		agent.StopInternal, agent.StopStructured, agent.StopApprovalExpired, agent.StopApprovalRequired:
		what = string(stop)
	}
	return s.Fail(stop, &agent.Failure{Type: string(stop), Message: "the turn reached its limit: " + what})
}

// allowed says what was allowed where it is another figure than what was used.
func allowed[N int | int64](used string, bound N) string {
	if bound == 0 || strings.HasPrefix(used, fmt.Sprintf("%d ", bound)) {
		return used
	}
	return fmt.Sprintf("%s, %d allowed", used, bound)
}

// status is the end that the turn has come to: whatever went wrong has left a failure.
func (s State) status() agent.TurnStatus {
	switch {
	case s.Stop == agent.StopCancelled:
		return agent.TurnCancelled
	case s.Failure != nil:
		return agent.TurnFailed
	default:
		return agent.TurnCompleted
	}
}

// Remaining is what a turn has left for n child turns that run side by side, each an equal part.
func (s State) Remaining(n int) agent.Limits {
	l := s.Limits
	l.Iterations = 0 // of each turn's own loop
	l.ModelCalls = part(l.ModelCalls, s.ModelCalls, n)
	l.ToolCalls = part(l.ToolCalls, s.ToolCalls, n)
	l.Tokens = part(l.Tokens, s.Usage.InputTokens+s.Usage.OutputTokens, int64(n))
	if l.CostUSD > 0 {
		l.CostUSD = max((l.CostUSD-s.Usage.CostUSD)/float64(n), leastCost)
	}
	if l.WallTimeSec > 0 {
		l.WallTimeSec = max(l.WallTimeSec-s.ElapsedMS/1000, 1) // side by side they take the same time
	}
	return l
}

// leastCost bounds a child of a turn that has nothing left: 0 would be no bound.
const leastCost = 1e-9

// part returns the n-th part of what is left of a bound, at least 1. A bound of 0 means no bound, and stays 0.
func part[N int | int64](bound, spent, n N) N {
	if bound == 0 {
		return 0
	}
	return max((bound-spent)/n, 1)
}
