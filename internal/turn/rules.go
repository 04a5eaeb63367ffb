package turn

import (
	"fmt"

	"github.com/turnstone-run/turnstone/agent"
)

// reachedLimit says in words which bound of a rule the next call would exceed, "" when none: run and thread are the calls so far.
func reachedLimit(r *agent.CallLimit, run, thread int) string {
	switch {
	case r.Thread > 0 && r.Before+thread >= r.Thread:
		return fmt.Sprintf("%d calls in this session", r.Thread)
	case r.Run > 0 && run >= r.Run:
		return fmt.Sprintf("%d calls in this turn", r.Run)
	default:
		return ""
	}
}

// exit ends the turn at a rule's limit: completed, with the rule's words as the last ones, or failed.
func (s State) exit(stop agent.StopReason, how agent.Exit, words string) State {
	if how == agent.ExitError {
		return s.Fail(stop, &agent.Failure{Type: string(stop), Message: words})
	}
	s.Stop, s.Closing, s.Calls = stop, words, nil
	return s
}

// bounded counts calls against the rules, in the model's order, and refuses those beyond (LangChain v1's tool_call_limit): a refused
// call counts as asked for, not as run.
func (s State) bounded(calls []Call) State {
	if len(s.Asked) > 0 {
		s.Asked = append([]Asked(nil), s.Asked...)
	}
	for i := range s.Rules.ToolCalls {
		r := &s.Rules.ToolCalls[i]
		for j := range calls {
			c := &calls[j]
			if c.Refused != "" || (r.Tool != "" && r.Tool != c.Name) {
				continue
			}
			words := reachedLimit(r, s.Asked[i].Run, s.Asked[i].Allowed)
			s.Asked[i].Run++
			if words == "" {
				s.Asked[i].Allowed++
				continue
			}
			if r.Exit != agent.ExitContinue {
				return s.exit(agent.StopToolCalls, r.Exit, limitOf(r)+" reached: "+words+".")
			}
			if r.Tool != "" {
				c.refuse("Tool call limit exceeded. Do not call '" + r.Tool + "' again.")
			} else {
				c.refuse("Tool call limit exceeded. Do not make additional tool calls.")
			}
		}
	}
	return s
}

func limitOf(r *agent.CallLimit) string {
	if r.Tool == "" {
		return "Tool call limit"
	}
	return fmt.Sprintf("Call limit of tool %q", r.Tool)
}
