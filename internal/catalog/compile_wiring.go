package catalog

import (
	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/catalog/manifest"
)

// The rules of docs/design/wiring.md that the catalog checks. A fault begins with "rule" and the name of the rule. [Middleware] checks the
// rules about the order of middleware.
const (
	ruleNativeExecution = "native-execution"
	ruleNoExecution     = "no-execution"
	ruleFixedStack      = "fixed-stack"
)

// selfInvoking is a model that claims to invoke tools by itself.
type selfInvoking struct{ path, profile string }

// invokesTools reports whether the model of a profile claims to invoke tools by itself. The answer is cached for all agents. It is false if
// the model cannot be created: turns that use the model report why.
func (p *Parts) invokesTools(e *entry) bool {
	if p.Claims == nil {
		return false
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.capabilities == nil {
		c, err := p.Claims.Capabilities(p.modelWithoutAuth(e))
		if err != nil {
			c = agent.Capabilities{}
		}
		e.capabilities = &c
	}
	return e.capabilities.InvokesTools
}

// checkWiring adds a fault for each model that invokes tools by itself, because only the runtime may invoke tools. Which rule the model
// breaks depends on whether the agent has tools.
func (c *compiler) checkWiring() {
	for _, m := range c.selfInvoking {
		if len(c.in.grants) > 0 {
			c.addFault(m.path, "rule %s: model profile %q claims to invoke tools by itself, so calls of the tools granted here would never reach "+
				"the runtime, its approvals and its limits", ruleNativeExecution, m.profile)
			continue
		}
		c.addFault(m.path, "rule %s: model profile %q claims to invoke tools by itself, and the agent has none", ruleNoExecution, m.profile)
	}
}

// checkLayerName reports whether a name may be in a list of middleware: it is not a layer of the runtime. Otherwise it adds a fault.
func (c *compiler) checkLayerName(name, path string) bool {
	if name != "observability" && name != "tool_invocation" {
		return true
	}
	c.addFault(manifest.JoinPath(path, "name"), "rule %s: %s is a layer of the runtime, which has it around all middleware: middleware (inner), observability, "+
		"tool invocation (outer)", ruleFixedStack, name)
	return false
}
