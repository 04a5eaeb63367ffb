package catalog_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/catalog"
)

// profile is a model profile of a model that the provider double knows.
func profile(model string) string {
	return "kind: ModelProfile\nname: " + model + "\nprovider: offline\nmodel: " + model + "\n---\n"
}

func TestWiringRules(t *testing.T) {
	cases := map[string]struct{ yaml, want string }{
		"tools for a model that has its own loop": {
			profile("alone") + agentDoc("", "a", "models: [default, alone]\ntools: [mail]"),
			`models[1]: rule native-execution: model profile "alone" claims to invoke tools by itself, so calls of the tools granted here`,
		},
		"tools that come by need": {profile("alone") + agentDoc("", "a", "models: [alone]\ndelegates: [analyst]"), "models[0]: rule native-execution: "},
		"a loop without tools": {
			profile("alone") + agentDoc("", "a", "models: [alone]"),
			`models[0]: rule no-execution: model profile "alone" claims to invoke tools by itself, and the agent has none`,
		},
		"a layer as middleware": {
			agentDoc("", "a", "middleware: [{name: house}, {name: observability}]"),
			"middleware[1].name: rule fixed-stack: observability is a layer of the runtime, which has it around all middleware: middleware (inner), observability, tool invocation (outer)",
		},
		"the other layer": {agentDoc("", "a", "middleware: [{name: tool_invocation}]"), "middleware[0].name: rule fixed-stack: tool_invocation"},
		"a node's layer": {
			"kind: NodeDefinition\nnode_id: n\nversion: '1'\ntype: agent\nmiddleware: [{name: observability}]\n", "NodeDefinition n@1: middleware[0].name: rule fixed-stack: ",
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			_, err := w.try(c.yaml)
			require.ErrorContains(t, err, c.want)
			require.Equal(t, agent.CodeInvalid, agent.CodeOf(err))
			require.Len(t, agent.FailureOf(err).Faults, 1, "%v", err)
		})
	}
}

func TestWiringThatHolds(t *testing.T) {
	w := newWorld(t)
	w.apply(profile("away") + agentDoc("", "a", "models: [default, away]\ntools: [mail]"))
	p := w.plan("default", "a")
	require.Len(t, p.Models, 2, "what cannot be said is no claim")

	silent := newWorld(t, func(c *catalog.Config) { c.Parts.Claims = nil })
	silent.apply(profile("alone") + agentDoc("", "a", "models: [alone]\ntools: [mail]"))
}

// A profile names a provider of this process, whichever those are.
func TestUnknownProviderIsRefused(t *testing.T) {
	w := newWorld(t, func(c *catalog.Config) {
		c.Parts.Providers, c.Shipped = []string{"acme", "offline"}, nodesOnly(c.Shipped)
	})
	w.apply("kind: ModelProfile\nname: m\nprovider: acme\nmodel: x\n")
	_, err := w.try("kind: ModelProfile\nname: n\nprovider: acne\nmodel: x\n")
	require.ErrorContains(t, err, `provider: unknown provider "acne": want one of acme, offline`)
}

// observed has middleware of the user's that calls itself as a layer.
type observed struct{ chains }

func (observed) Added() []string { return []string{"observability"} }

func TestAddedLayerIsRefused(t *testing.T) {
	w := newWorld(t, func(c *catalog.Config) { c.Parts.Middleware, c.Shipped = observed{}, nodesOnly(c.Shipped) })
	_, err := w.try(agentDoc("", "a", "middleware: [{name: '*'}]"))
	require.ErrorContains(t, err, "middleware[0].name: rule fixed-stack: observability")
}

// claiming changes its claims while processes come and go.
type claiming struct{ alone bool }

func (c *claiming) Capabilities(agent.PlanModel) (agent.Capabilities, error) {
	return agent.Capabilities{InvokesTools: c.alone}, nil
}

// A plan that was published by a process whose models claimed nothing is not taken by one whose models do.
func TestPublishedPlanIsCheckedAgain(t *testing.T) {
	w := newWorld(t)
	w.apply(agentDoc("", "a", "tools: [mail]"))
	_, err := w.Publish(t.Context(), "default", "a", "")
	require.NoError(t, err)
	claims := &claiming{}
	other := w.another(func(c *catalog.Config) { c.Parts.Claims, c.Shipped = claims, nodesOnly(c.Shipped) })
	_, _, err = other.Resolve(t.Context(), "default", "a")
	require.NoError(t, err)
	claims.alone = true
	other = w.another(func(c *catalog.Config) { c.Parts.Claims, c.Shipped = claims, nodesOnly(c.Shipped) })
	_, _, err = other.Resolve(t.Context(), "default", "a")
	require.ErrorContains(t, err, "rule native-execution")
}

// counting counts what it is asked.
type counting struct{ asked map[string]int }

func (c counting) Capabilities(m agent.PlanModel) (agent.Capabilities, error) {
	c.asked[m.Model]++
	return agent.Capabilities{}, nil
}

func TestModelsAreAskedOnce(t *testing.T) {
	claims := counting{map[string]int{}}
	w := newWorld(t, func(c *catalog.Config) { c.Parts.Claims = claims })
	w.apply(profile("x"))
	before := claims.asked["m"]
	for i := range 5 {
		w.apply(agentDoc("", fmt.Sprint("a", i), "models: [default, x]"))
	}
	require.Equal(t, map[string]int{"m": before, "x": 1}, claims.asked)
}

// nodesOnly leaves agents and routes out of the shipped documents.
func nodesOnly(files []agent.ManifestFile) []agent.ManifestFile {
	var out []agent.ManifestFile
	for _, f := range files {
		if len(f.Name) > len("catalog/nodes/") && f.Name[:len("catalog/nodes/")] == "catalog/nodes/" {
			out = append(out, f)
		}
	}
	return out
}

// What middleware brings along is granted last, once, and before any middleware is asked about the plan.
func TestMiddlewareBringsTools(t *testing.T) {
	w := newWorld(t)
	w.apply("kind: NodeDefinition\nnode_id: planner\nversion: '1'\ntype: agent\nmiddleware: [{name: todo}]\n---\n" +
		"kind: AgentInstance\nname: by-node\nnode_id: planner\nnode_version: '1'\ntools: ['*']\n---\n" +
		"kind: ToolBinding\nname: todo\nnode_id: mail\nnode_version: '1'\n---\n" + // of another thing altogether
		"kind: ToolBinding\nname: lists\nnode_id: todo\nnode_version: '1'\napproval: always\n---\n" +
		agentDoc("", "by-list", "tools: [mail]\nmiddleware: [{name: todo}, {name: todo}]") +
		agentDoc("", "by-itself", "tools: [lists, mail]\nmiddleware: [{name: todo}]") +
		agentDoc("", "by-all", "tools: ['*']"))
	p := w.plan("default", "by-node")
	require.Equal(t, []string{"execute_pipeline", "send", "search", "write_todos"}, toolNames(&p))
	p = w.plan("default", "by-list")
	require.Equal(t, []string{"send", "search", "write_todos"}, toolNames(&p))
	require.Equal(t, agent.ApproveNever, p.Tools[2].Approval, "as the middleware says")
	require.Equal(t, "todo", p.Tools[2].Binding)
	require.Equal(t, "todo@1", p.Tools[2].Node)
	p = w.plan("default", "by-itself")
	require.Equal(t, []string{"write_todos", "send", "search"}, toolNames(&p))
	require.Equal(t, agent.ApproveAlways, p.Tools[0].Approval, "as the agent says")
	require.Equal(t, "lists", p.Tools[0].Binding)
	p = w.plan("default", "by-all")
	require.Equal(t, []string{"execute_pipeline", "send", "search"}, toolNames(&p))
}

// strict grants what the others do, and wants a person to be asked.
type strict struct{ chains }

func (strict) Grants(m agent.PlanMiddleware) []agent.ToolGrant {
	grants := chains{}.Grants(m)
	for i := range grants {
		grants[i].Approval = agent.ApproveAlways
	}
	return grants
}

func TestPublishedPlanHasTheToolsOfThisBuild(t *testing.T) {
	w := newWorld(t)
	w.apply(agentDoc("", "a", "middleware: [{name: todo}]"))
	_, err := w.Publish(t.Context(), "default", "a", "")
	require.NoError(t, err)
	p, _, err := w.another(func(c *catalog.Config) { c.Parts.Middleware = strict{} }).Resolve(t.Context(), "default", "a")
	require.NoError(t, err)
	require.Equal(t, agent.ApproveAlways, p.Tools[0].Approval)
}

// rivals have another toolkit with a tool of the name that a middleware brings.
type rivals struct{ kits }

func (rivals) Kits() []string { return append(kits{}.Kits(), "notes") }

func (rivals) Specs(kit string) ([]agent.ToolSpec, error) {
	if kit == "notes" {
		kit = "todo"
	}
	return kits{}.Specs(kit)
}

func TestNeededToolIsNotAnother(t *testing.T) {
	w := newWorld(t, func(c *catalog.Config) { c.Parts.Tools = rivals{} })
	_, err := w.try(agentDoc("", "a", "tools: [notes]\nmiddleware: [{name: todo}]"))
	require.ErrorContains(t, err, `middleware[0]: tool "write_todos" comes from "notes" (node notes@1) and from "todo" (node todo@1)`)
}

// bare has neither of the toolkits that come by need.
type bare struct{ kits }

func (bare) Kits() []string { return []string{"pipeline", "mail"} }

func TestNeedsThatCannotBeMet(t *testing.T) {
	w := newWorld(t, func(c *catalog.Config) {
		c.Parts.Tools = bare{}
		c.Shipped = slices.DeleteFunc(c.Shipped, func(f agent.ManifestFile) bool { return !strings.HasPrefix(f.Name, "catalog/nodes/") })
	})
	_, err := w.try(agentDoc("", "a", "middleware: [{name: todo}]"))
	require.ErrorContains(t, err, `middleware[0]: needs the toolkit "todo", which this server does not have`)
	_, err = w.try(agentDoc("", "a", "delegates: [analyst]"))
	require.ErrorContains(t, err, `delegates: needs the toolkit "delegate", which this server does not have`)

	w = newWorld(t)
	_, err = w.try("kind: NodeDefinition\nnode_id: write_todos\nversion: '1'\ntype: tool\ntoolkit: clash\ntool: write_todos\n")
	require.ErrorContains(t, err, `toolkit: this server has no toolkit "clash"`)
	_, err = w.try("kind: NodeDefinition\nnode_id: delegate\nversion: '1'\ntype: toolkit\ntoolkit: mail\n---\n" + agentDoc("", "a", "delegates: [analyst]"))
	require.ErrorContains(t, err, `delegates: need the tool "delegate_to_agent" of toolkit "delegate", which node delegate@1 does not give`)
}
