package catalog

import (
	"fmt"

	"github.com/turnstone-run/turnstone/agent"
)

// The rules of docs/design/wiring.md that are checked here; a refusal begins with "rule" and the name. Those about the order of middleware are
// the middleware's own.
const (
	ruleNativeExecution = "native-execution"
	ruleNoExecution     = "no-execution"
	ruleFixedStack      = "fixed-stack"
)

// claim is a model that claims to invoke tools by itself.
type claim struct{ path, profile string }

// invokesTools reports whether the model of a profile claims to invoke tools by itself. The answer is cached for all agents. An error is no
// claim: the model cannot be used then, and the turn that tries reports why.
func (p *Parts) invokesTools(e *entry) bool {
	if p.Claims == nil {
		return false
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.claims == nil {
		can, err := p.Claims.Capabilities(p.planModel(e))
		if err != nil {
			can = agent.Capabilities{}
		}
		e.claims = &can
	}
	return e.claims.InvokesTools
}

// checkWiring adds a fault for each model that invokes tools by itself, because the runtime does that for every model. The rule depends on
// whether the agent has tools.
func (c *compiler) checkWiring() {
	for _, m := range c.alone {
		if len(c.in.grants) > 0 {
			c.addFault(m.path, "rule %s: model profile %q claims to invoke tools by itself, so calls of the tools granted here would never reach "+
				"the runtime, its approvals and its limits", ruleNativeExecution, m.profile)
			continue
		}
		c.addFault(m.path, "rule %s: model profile %q claims to invoke tools by itself, and the agent has none", ruleNoExecution, m.profile)
	}
}

// fixedStackProblem says why a name cannot be in a list of middleware, empty if it can.
func fixedStackProblem(name string) string {
	if name != "observability" && name != "tool_invocation" {
		return ""
	}
	return fmt.Sprintf("rule %s: %s is a layer of the runtime, which has it around all middleware: middleware (inner), observability, "+
		"tool invocation (outer)", ruleFixedStack, name)
}
