package app

import (
	_ "embed"
	"encoding/json"
	"fmt"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/middleware"
	"github.com/turnstone-run/turnstone/internal/tool"
)

// defaultProfile is the name of the model profile under llm.
const defaultProfile = "default"

//go:embed analyst.md
var analystPrompt string

// analyst is the agent that answers when a request names none: with every toolkit, and after model_retry the middleware that the user
// adds. It becomes a catalog document with the catalog.
func analyst(c *Config, profiles []profile, tools *tool.Registry, more []middleware.Named) agent.Plan {
	p := agent.Plan{
		Agent: "analyst", Tenant: agent.DefaultTenant, InstanceID: "analyst@1", System: analystPrompt, Limits: c.Turn.Limits(),
		Models: []agent.PlanModel{}, Tools: []agent.PlanTool{},
		Middleware: []agent.PlanMiddleware{{
			Name: "model_retry", Options: json.RawMessage(fmt.Sprintf(`{"max_retries":%d}`, c.LLM.MaxRetries)),
		}},
	}
	for _, m := range more {
		p.Middleware = append(p.Middleware, agent.PlanMiddleware{Name: m.Name})
	}
	for _, m := range profiles {
		p.Models = append(p.Models, m.model)
	}
	for _, kit := range tools.Toolkits() {
		for _, t := range kit.Tools() {
			p.Tools = append(p.Tools, agent.PlanTool{
				Spec: t.Spec(), Toolkit: kit.Name(), SourceNodeName: kit.Name(), IsFromToolkit: true,
			})
		}
	}
	return p
}
