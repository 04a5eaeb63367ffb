package catalog

import (
	"fmt"

	"github.com/turnstone-run/turnstone/agent"
)

// The rules of docs/wiring.md that are checked here; a refusal begins with "rule" and the name. Those about the order of middleware are
// the middleware's own.
const (
	ruleNativeExecution = "native-execution"
	ruleNoExecution     = "no-execution"
	ruleFixedStack      = "fixed-stack"
)

// claim is a model that says that it invokes tools by itself.
type claim struct{ path, profile string }

// invokesTools reports whether the model of a profile claims to invoke tools by itself; it is asked once, for all agents that may use it.
// Where that cannot be said it is no claim: nor can the model be asked anything then, and the turn that tries says why.
func (p *Parts) invokesTools(e *entry) bool {
	if p.Claims == nil {
		return false
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.claims == nil {
		can, err := p.Claims.Capabilities(p.model(e))
		if err != nil {
			can = agent.Capabilities{}
		}
		e.claims = &can
	}
	return e.claims.InvokesTools
}

// wiring refuses models that invoke tools by themselves: here the runtime does, for every model, and knows of no other
// calls. With tools the calls would never reach it; without, nothing that the claim speaks of is there.
func (c *compiler) wiring() {
	for _, m := range c.alone {
		if len(c.in.grants) > 0 {
			c.fault(m.path, "rule %s: model profile %q claims to invoke tools by itself, so calls of the tools granted here would never reach "+
				"the runtime, its approvals and its limits", ruleNativeExecution, m.profile)
			continue
		}
		c.fault(m.path, "rule %s: model profile %q claims to invoke tools by itself, and the agent has none", ruleNoExecution, m.profile)
	}
}

// fixedStack says why a name cannot stand in a list of middleware, "" when it can.
func fixedStack(name string) string {
	if name != "observability" && name != "tool_invocation" {
		return ""
	}
	return fmt.Sprintf("rule %s: %s is a layer of the runtime, which has it around all middleware: middleware (inner), observability, "+
		"tool invocation (outer)", ruleFixedStack, name)
}
