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

// modelProfile returns a model profile whose model the test provider knows.
func modelProfile(model string) string {
	return "kind: ModelProfile\nname: " + model + "\nprovider: offline\nmodel: " + model + "\n---\n"
}

func TestWiringRules(t *testing.T) {
	cases := map[string]struct{ yaml, want string }{
		"tools for a model that has its own loop": {
			modelProfile("alone") + agentDoc("", "a", "models: [default, alone]\ntools: [mail]"),
			`models[1]: rule native-execution: model profile "alone" claims to invoke tools by itself, so calls of the tools granted here`,
		},
		"tools that come by need": {modelProfile("alone") + agentDoc("", "a", "models: [alone]\ndelegates: [analyst]"), "models[0]: rule native-execution: "},
		"a loop without tools": {
			modelProfile("alone") + agentDoc("", "a", "models: [alone]"),
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

func TestValidWiring(t *testing.T) {
	w := newWorld(t)
	w.apply(modelProfile("away") + agentDoc("", "a", "models: [default, away]\ntools: [mail]"))
	p := w.plan("default", "a")
	require.Len(t, p.Models, 2, "a model that cannot be created claims nothing")

	silent := newWorld(t, func(c *catalog.Config) { c.Parts.Claims = nil })
	silent.apply(modelProfile("alone") + agentDoc("", "a", "models: [alone]\ntools: [mail]"))
}

// A profile may name any provider of this process.
func TestUnknownProvider(t *testing.T) {
	w := newWorld(t, func(c *catalog.Config) {
		c.Parts.Providers, c.Shipped = []string{"acme", "offline"}, nodesOnly(c.Shipped)
	})
	w.apply("kind: ModelProfile\nname: m\nprovider: acme\nmodel: x\n")
	_, err := w.try("kind: ModelProfile\nname: n\nprovider: acne\nmodel: x\n")
	require.ErrorContains(t, err, `provider: unknown provider "acne": want one of acme, offline`)
}

// userMiddleware is a user-defined middleware with the name of a layer.
type userMiddleware struct{ testMiddleware }

func (userMiddleware) Added() []string { return []string{"observability"} }

func TestAddedLayerOutsideStack(t *testing.T) {
	w := newWorld(t, func(c *catalog.Config) { c.Parts.Middleware, c.Shipped = userMiddleware{}, nodesOnly(c.Shipped) })
	_, err := w.try(agentDoc("", "a", "middleware: [{name: '*'}]"))
	require.ErrorContains(t, err, "middleware[0].name: rule fixed-stack: observability")
}

// changingModels is a model checker whose claims change, as if processes with other models started and stopped.
type changingModels struct{ alone bool }

func (c *changingModels) Capabilities(agent.PlanModel) (agent.Capabilities, error) {
	return agent.Capabilities{InvokesTools: c.alone}, nil
}

// A plan that was published by a process with other model claims is not used.
func TestPublishedPlanIsRechecked(t *testing.T) {
	w := newWorld(t)
	w.apply(agentDoc("", "a", "tools: [mail]"))
	_, err := w.Publish(t.Context(), "default", "a", "")
	require.NoError(t, err)
	claims := &changingModels{}
	other := w.another(func(c *catalog.Config) { c.Parts.Claims, c.Shipped = claims, nodesOnly(c.Shipped) })
	_, _, err = other.Resolve(t.Context(), "default", "a")
	require.NoError(t, err)
	claims.alone = true
	other = w.another(func(c *catalog.Config) { c.Parts.Claims, c.Shipped = claims, nodesOnly(c.Shipped) })
	_, _, err = other.Resolve(t.Context(), "default", "a")
	require.ErrorContains(t, err, "rule native-execution")
}

// countingModels counts its calls.
type countingModels struct{ asked map[string]int }

func (c countingModels) Capabilities(m agent.PlanModel) (agent.Capabilities, error) {
	c.asked[m.Model]++
	return agent.Capabilities{}, nil
}

func TestModelsAreCheckedOnce(t *testing.T) {
	claims := countingModels{map[string]int{}}
	w := newWorld(t, func(c *catalog.Config) { c.Parts.Claims = claims })
	w.apply(modelProfile("x"))
	before := claims.asked["m"]
	for i := range 5 {
		w.apply(agentDoc("", fmt.Sprint("a", i), "models: [default, x]"))
	}
	require.Equal(t, map[string]int{"m": before, "x": 1}, claims.asked)
}

// nodesOnly removes agents and routes from the shipped documents.
func nodesOnly(files []agent.ManifestFile) []agent.ManifestFile {
	return slices.DeleteFunc(files, func(f agent.ManifestFile) bool { return !strings.HasPrefix(f.Name, "catalog/nodes/") })
}

// Tools that a middleware requires are granted last and once, before the middleware checks the plan.
func TestMiddlewareBringsTools(t *testing.T) {
	w := newWorld(t)
	w.apply("kind: NodeDefinition\nnode_id: planner\nversion: '1'\ntype: agent\nmiddleware: [{name: todo}]\n---\n" +
		"kind: AgentInstance\nname: by-node\nnode_id: planner\nnode_version: '1'\ntools: ['*']\n---\n" +
		"kind: ToolBinding\nname: todo\nnode_id: mail\nnode_version: '1'\n---\n" + // a binding of the same name for another node
		"kind: ToolBinding\nname: lists\nnode_id: todo\nnode_version: '1'\napproval: always\n---\n" +
		agentDoc("", "by-list", "tools: [mail]\nmiddleware: [{name: todo}, {name: todo}]") +
		agentDoc("", "by-itself", "tools: [lists, mail]\nmiddleware: [{name: todo}]") +
		agentDoc("", "by-all", "tools: ['*']"))
	p := w.plan("default", "by-node")
	require.Equal(t, []string{"execute_pipeline", "send", "search", "write_todos"}, toolNames(&p))
	p = w.plan("default", "by-list")
	require.Equal(t, []string{"send", "search", "write_todos"}, toolNames(&p))
	require.Equal(t, agent.ApproveNever, p.Tools[2].Approval, "the policy of the middleware")
	require.Equal(t, "todo", p.Tools[2].Binding)
	require.Equal(t, "todo@1", p.Tools[2].Node)
	p = w.plan("default", "by-itself")
	require.Equal(t, []string{"write_todos", "send", "search"}, toolNames(&p))
	require.Equal(t, agent.ApproveAlways, p.Tools[0].Approval, "the policy of the binding")
	require.Equal(t, "lists", p.Tools[0].Binding)
	p = w.plan("default", "by-all")
	require.Equal(t, []string{"execute_pipeline", "send", "search"}, toolNames(&p))
}

// strictMiddleware requires an approval for the tools that it grants.
type strictMiddleware struct{ testMiddleware }

func (strictMiddleware) Grants(m agent.PlanMiddleware) []agent.ToolGrant {
	grants := testMiddleware{}.Grants(m)
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
	p, _, err := w.another(func(c *catalog.Config) { c.Parts.Middleware = strictMiddleware{} }).Resolve(t.Context(), "default", "a")
	require.NoError(t, err)
	require.Equal(t, agent.ApproveAlways, p.Tools[0].Approval)
}

// rivalTools adds a toolkit with a tool of the same name as an implicitly granted one.
type rivalTools struct{ testTools }

func (rivalTools) Kits() []string { return append(testTools{}.Kits(), "notes") }

func (rivalTools) Specs(kit string) ([]agent.ToolSpec, error) {
	if kit == "notes" {
		kit = "todo"
	}
	return testTools{}.Specs(kit)
}

func TestImplicitGrantDoesNotReplaceTool(t *testing.T) {
	w := newWorld(t, func(c *catalog.Config) { c.Parts.Tools = rivalTools{} })
	_, err := w.try(agentDoc("", "a", "tools: [notes]\nmiddleware: [{name: todo}]"))
	require.ErrorContains(t, err, `middleware[0]: tool "write_todos" comes from "notes" (node notes@1) and from "todo" (node todo@1)`)
}

// bareTools lacks the two toolkits that are granted implicitly.
type bareTools struct{ testTools }

func (bareTools) Kits() []string { return []string{"pipeline", "mail"} }

func TestUnmetNeeds(t *testing.T) {
	w := newWorld(t, func(c *catalog.Config) {
		c.Parts.Tools, c.Shipped = bareTools{}, nodesOnly(c.Shipped)
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
