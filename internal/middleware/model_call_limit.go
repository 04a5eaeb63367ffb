package middleware

import (
	"encoding/json"

	"github.com/turnstone-run/turnstone/agent"
)

// callLimitOptions are those that model_call_limit and tool_call_limit share, with LangChain v1's names. A thread is a session here, a
// run a turn.
type callLimitOptions struct {
	ThreadLimit  *int       `json:"thread_limit"` // calls in the session; default: no bound
	RunLimit     *int       `json:"run_limit"`    // calls in the turn; default: no bound
	ExitBehavior agent.Exit `json:"exit_behavior"`
}

func (o *callLimitOptions) check(exits ...agent.Exit) error {
	const maxCount = 1_000_000
	if o.ThreadLimit == nil && o.RunLimit == nil {
		return agent.Invalid("run_limit", "want run_limit, thread_limit or both")
	}
	if n := valueOr(o.ThreadLimit, 1); n < 1 || n > maxCount {
		return agent.Invalid("thread_limit", "want 1 to %d calls", maxCount)
	}
	if n := valueOr(o.RunLimit, 1); n < 1 || n > maxCount {
		return agent.Invalid("run_limit", "want 1 to %d calls", maxCount)
	}
	return oneOf("exit_behavior", o.ExitBehavior, exits...)
}

func (o *callLimitOptions) limit(tool string) agent.CallLimit {
	return agent.CallLimit{Tool: tool, Run: valueOr(o.RunLimit, 0), Thread: valueOr(o.ThreadLimit, 0), Exit: o.ExitBehavior}
}

// modelCallLimit bounds model calls. It is data: the core counts.
type modelCallLimit struct {
	agent.Pass
	options callLimitOptions
}

func newModelCallLimit(options json.RawMessage) (agent.Middleware, error) {
	m := &modelCallLimit{options: callLimitOptions{ExitBehavior: agent.ExitEnd}}
	if err := decode(options, &m.options); err != nil {
		return nil, err
	}
	if err := m.options.check(agent.ExitEnd, agent.ExitError); err != nil {
		return nil, err
	}
	return m, nil
}

// Rule implements [agent.Ruler].
func (m *modelCallLimit) Rule(r *agent.Rules) {
	r.ModelCalls = append(r.ModelCalls, m.options.limit(""))
}
