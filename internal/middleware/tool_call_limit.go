package middleware

import (
	"encoding/json"

	"github.com/turnstone-run/turnstone/agent"
)

// toolCallLimit bounds calls of one tool, or of all together. It is data as well.
type toolCallLimit struct {
	agent.Pass
	options toolCallLimitOptions
}

type toolCallLimitOptions struct {
	callLimitOptions

	ToolName *string `json:"tool_name"` // default: calls of any tool, counted together
}

func newToolCallLimit(options json.RawMessage) (agent.Middleware, error) {
	m := &toolCallLimit{options: toolCallLimitOptions{callLimitOptions: callLimitOptions{ExitBehavior: agent.ExitContinue}}}
	if err := decode(options, &m.options); err != nil {
		return nil, err
	}
	o := &m.options
	if err := o.check(agent.ExitContinue, agent.ExitEnd, agent.ExitError); err != nil {
		return nil, err
	}
	if o.ToolName != nil {
		if err := checkName("tool_name", *o.ToolName); err != nil {
			return nil, err
		}
	}
	if o.RunLimit != nil && o.ThreadLimit != nil && *o.RunLimit > *o.ThreadLimit {
		return nil, agent.Invalid("run_limit", "is %d, want at most thread_limit, which is %d", *o.RunLimit, *o.ThreadLimit)
	}
	return m, nil
}

// CheckPlan implements [agent.PlanChecker].
func (m *toolCallLimit) CheckPlan(p *agent.Plan) error {
	return checkTool(p, "tool_name", valueOr(m.options.ToolName, ""))
}

// Rule implements [agent.Ruler].
func (m *toolCallLimit) Rule(r *agent.Rules) {
	r.ToolCalls = append(r.ToolCalls, m.options.limit(valueOr(m.options.ToolName, "")))
}

// checkTool refuses the name of a tool that a plan does not have; no name is none.
func checkTool(p *agent.Plan, field, name string) error {
	if _, ok := p.Tool(name); !ok && name != "" {
		return ruleViolation(ruleKnownTool, field, "the agent has no tool %.50q", name)
	}
	return nil
}
