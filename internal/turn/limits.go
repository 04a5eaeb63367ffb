package turn

import (
	"fmt"

	"github.com/turnstone-run/turnstone/agent"
)

// exhausted names the limit that forbids another model call, "" when none does.
func (s State) exhausted() agent.StopReason {
	switch {
	case s.ModelCalls >= hardModelCalls, s.over(int64(s.Limits.ModelCalls), int64(s.ModelCalls)):
		return agent.StopModelCalls
	case s.over(s.Limits.Tokens, s.Usage.InputTokens+s.Usage.OutputTokens):
		return agent.StopTokens
	case s.Limits.CostUSD > 0 && s.Usage.CostUSD >= s.Limits.CostUSD:
		return agent.StopCost
	case s.over(s.Limits.WallTimeSec*1000, s.ElapsedMS):
		return agent.StopWallTime
	default:
		return ""
	}
}

// over reports whether spent has reached a bound; a bound of 0 is none.
func (State) over(bound, spent int64) bool { return bound > 0 && spent >= bound }

func (s State) limit(stop agent.StopReason) Action {
	s = s.stopAt(stop)
	return Action{Kind: Finish, Status: s.status(), Stop: s.Stop, Failure: s.Failure}
}

// stopAt ends the turn at a limit, with the figure in the message.
func (s State) stopAt(stop agent.StopReason) State {
	var what string
	switch stop {
	case agent.StopModelCalls:
		what = fmt.Sprintf("%d model calls", s.ModelCalls)
	case agent.StopToolCalls:
		what = fmt.Sprintf("%d tool calls asked for, %d allowed", s.ToolCalls, s.Limits.ToolCalls)
	case agent.StopTokens:
		what = fmt.Sprintf("%d tokens", s.Usage.InputTokens+s.Usage.OutputTokens)
	case agent.StopCost:
		what = fmt.Sprintf("USD %.4f", s.Usage.CostUSD)
	case agent.StopWallTime:
		what = fmt.Sprintf("%d s", s.ElapsedMS/1000)
	case agent.StopEndTurn, agent.StopMaxTokens, agent.StopCancelled, agent.StopModelError, agent.StopTerminated, agent.StopRefused,
		agent.StopInternal:
		what = string(stop)
	}
	return s.Fail(stop, &agent.Failure{Type: string(stop), Message: "the turn reached its limit: " + what})
}

// status is the end that a stop reason means.
func (s State) status() agent.TurnStatus {
	switch s.Stop {
	case agent.StopEndTurn, agent.StopMaxTokens:
		return agent.TurnCompleted
	case agent.StopCancelled:
		return agent.TurnCancelled
	case agent.StopModelError, agent.StopModelCalls, agent.StopToolCalls, agent.StopTokens, agent.StopCost, agent.StopWallTime,
		agent.StopTerminated, agent.StopRefused, agent.StopInternal:
		return agent.TurnFailed
	default:
		return agent.TurnFailed
	}
}
