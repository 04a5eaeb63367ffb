package catalog_test

import (
	"encoding/json"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/catalog"
)

func TestShippedCatalog(t *testing.T) {
	w := newWorld(t)
	p := w.plan("anybody", "analyst")
	require.Equal(t, "analyst@1", p.InstanceID)
	require.Equal(t, "agent@1", p.Node)
	require.Contains(t, p.System, "You are a data analyst")
	require.Equal(t, []string{"execute_pipeline", "send", "search", "delegate_to_agent"}, toolNames(&p), "all toolkits of the process and delegation")
	require.Equal(t, []string{"researcher"}, p.Delegates)
	require.Equal(t, 3, strings.Count(p.System, "\nExample "))
	require.Greater(t, words(t, p.System), 1024, "providers cache prefixes of at least 1,024 tokens, and no token has two words")
	require.Equal(t, []agent.PlanMiddleware{{Name: "model_retry"}, {Name: "house"}}, p.Middleware)
	require.Equal(t, "offline", p.Models[0].Provider)
	require.JSONEq(t, `{"max_rows":1000}`, string(p.Tools[0].Parameters))
	_, hash, err := w.Resolve(t.Context(), "anybody", "analyst")
	require.NoError(t, err)
	require.Equal(t, "sha256:613d0906a998a5a56fc95feb1cf08eef817076c3249f80470af427f063664612", hash, "change the expected hash only if there is a reason")

	researcher := w.plan("anybody", "researcher")
	require.Equal(t, []string{"search_research"}, toolNames(&researcher))
	ask := w.plan("anybody", "ask")
	require.Len(t, ask.Prepare, 3)
	require.Equal(t, []string{"default", "*"}, []string{ask.Prepare[2].Collection, ask.Prepare[2].Tenant})

	d, err := w.Choose(t.Context(), agent.RouteContext{})
	require.NoError(t, err)
	require.Equal(t, "analyst", d.Agent)
	require.Equal(t, agent.RouteDefault, d.Reason)
}

// words counts the words and numbers of a prompt and of the parameter schemas of built-in tools.
func words(t *testing.T, prompt string) int {
	t.Helper()
	text := []byte(prompt)
	for _, kit := range []string{"pipeline", "patch", "toolsearch", "openapi", "delegate"} {
		schema, err := os.ReadFile("../tool/" + kit + "/schema.json")
		require.NoError(t, err)
		text = append(text, schema...)
	}
	return len(regexp.MustCompile(`[A-Za-z]+|[0-9]+`).FindAll(text, -1))
}

func toolNames(p *agent.Plan) []string {
	var out []string
	for _, t := range p.Tools {
		out = append(out, t.Spec.Name)
	}
	return out
}

const allDocuments = `
kind: NodeDefinition
node_id: support
version: "2"
type: agent
properties:
  type: object
  required: [product]
  properties:
    product: {type: string}
    tone: {type: string, default: friendly}
    max_iterations: {type: integer, default: 4}
    return_intermediate_steps: {type: boolean}
    temperature: {type: number}
prompt: "You support {{product}} and are {{tone}}."
middleware: [{name: model_retry, options: {max_retries: 1}}]
---
kind: AuthProfile
tenant: acme
name: key
type: bearer
secret: env:ACME_KEY
---
kind: ModelProfile
tenant: acme
name: fast
provider: openai
model: gpt-fast
base_url: https://models.acme.example/v1
auth: key
price: {input_per_mtok: 1.5}
---
kind: ToolBinding
tenant: acme
name: small
node_id: pipeline
node_version: "1"
parameters: {max_rows: 10}
approval: always
---
kind: NodeDefinition
node_id: find_mail
version: "1"
type: tool
toolkit: mail
tool: search
---
kind: KnowledgeCollection
tenant: acme
name: manuals
sources: [{text: "Press the red button."}]
---
kind: AgentInstance
tenant: acme
name: helper
version: "7"
description: Helps.
labels: {team: care}
node_id: support
node_version: "2"
parameters: {product: Roadrunner, temperature: 0.5, return_intermediate_steps: true}
models: [fast, default]
tools: [small, {toolkit: find_mail, approval: never}]
middleware: [{name: house}]
limits: {tool_calls: 3}
rate_limits: {requests_per_minute: 6}
knowledge: [manuals]
delegates: [analyst]
output_schema: {type: object}
`

func TestCompile(t *testing.T) {
	w := newWorld(t)
	w.apply(allDocuments)
	p := w.plan("acme", "helper")
	require.Equal(t, "acme/helper@7", p.InstanceID)
	require.Equal(t, "support@2", p.Node)
	require.Equal(t, "You support Roadrunner and are friendly.", p.System)
	half := 0.5
	require.Equal(t, []agent.PlanModel{
		{
			Profile: "fast", Provider: "openai", Model: "gpt-fast", BaseURL: "https://models.acme.example/v1", Temperature: &half, InputPerMTok: 1.5,
			Auth: &agent.PlanAuth{Tenant: "acme", Name: "key", Type: agent.AuthBearer, Secret: "env:ACME_KEY"},
		},
		{Profile: "default", Provider: "offline", Model: "m", Temperature: &half},
	}, p.Models)
	require.Equal(t, []string{"execute_pipeline", "search", "delegate_to_agent"}, toolNames(&p))
	require.Equal(t, "small", p.Tools[0].Binding)
	require.Equal(t, agent.ApproveAlways, p.Tools[0].Approval)
	require.JSONEq(t, `{"max_rows":10}`, string(p.Tools[0].Parameters))
	require.True(t, p.Tools[0].IsFromToolkit)
	require.Equal(t, "pipeline", p.Tools[0].SourceNodeName)
	require.Equal(t, "search", p.Tools[1].Spec.Name)
	require.Equal(t, "mail", p.Tools[1].Toolkit)
	require.Equal(t, "find_mail", p.Tools[1].SourceNodeName)
	require.False(t, p.Tools[1].IsFromToolkit)
	require.Equal(t, agent.ApproveNever, p.Tools[1].Approval)
	require.Equal(t, []string{"model_retry", "house"}, []string{p.Middleware[0].Name, p.Middleware[1].Name}, "the middleware of the node is the outermost")
	require.Equal(t, agent.Limits{Iterations: 4, ModelCalls: 25, ToolCalls: 3}, p.Limits)
	require.Equal(t, []agent.PlanStep{{Kind: "retrieve", Collection: "manuals", Tenant: "acme", TopK: 4}}, p.Prepare)
	require.Equal(t, []string{"analyst"}, p.Delegates)
	require.JSONEq(t, `{"type":"object"}`, string(p.OutputSchema))
	require.True(t, p.ReturnSteps)

	w.requireNoAgent("other", "helper", "a tenant's agent is its own")
}

const editorBinding = "kind: ToolBinding\nname: editor\napproval: always\nclient_side:\n" +
	"  - {name: open_file, description: the file, parameters: {type: object}, expires_sec: 60}\n  - {name: pick}\n---\n"

func TestClientSideBinding(t *testing.T) {
	w := newWorld(t)
	w.apply(editorBinding + agentDoc("", "a", "tools: [editor]") + agentDoc("", "b", "tools: [{toolkit: editor, tools: [pick], approval: never}]"))
	p := w.plan("default", "a")
	require.Equal(t, []agent.PlanTool{{
		Spec:    agent.ToolSpec{Name: "open_file", Description: "the file", Parameters: json.RawMessage(`{"type":"object"}`), ClientSide: true},
		Binding: "editor", SourceNodeName: "editor", IsFromToolkit: true, Approval: agent.ApproveAlways, ExpiresSec: 60,
	}, {
		Spec:    agent.ToolSpec{Name: "pick", Parameters: json.RawMessage(`{"properties":{},"type":"object"}`), ClientSide: true},
		Binding: "editor", SourceNodeName: "editor", IsFromToolkit: true, Approval: agent.ApproveAlways, ExpiresSec: agent.DefaultClientToolWait,
	}}, p.Tools)
	p = w.plan("default", "b")
	require.Equal(t, []string{"pick"}, toolNames(&p))
	require.Equal(t, agent.ApproveNever, p.Tools[0].Approval)
}

func TestSameDocumentsSameHash(t *testing.T) {
	a, b := newWorld(t), newWorld(t)
	a.apply(allDocuments)
	b.apply(agentDoc("x", "first", ""))
	b.apply(allDocuments) // the same documents at another revision
	_, ha, err := a.Resolve(t.Context(), "acme", "helper")
	require.NoError(t, err)
	_, hb, err := b.Resolve(t.Context(), "acme", "helper")
	require.NoError(t, err)
	require.Equal(t, ha, hb)

	body, hash, err := a.AgentPlan(t.Context(), "acme", "helper")
	require.NoError(t, err)
	require.Equal(t, ha, hash)
	var p agent.Plan
	require.NoError(t, json.Unmarshal(body, &p))
	_, again, err := catalog.Encode(&p)
	require.NoError(t, err)
	require.Equal(t, ha, again, "a decoded plan has the same hash")
}

func TestRefusals(t *testing.T) {
	cases := map[string]struct{ yaml, want string }{
		"no node":             {"kind: AgentInstance\nname: a\nnode_id: nope\nnode_version: '1'\n", "test.yaml:3:10: AgentInstance default/a: node_id: there is no node nope@1"},
		"a node that is none": {"kind: AgentInstance\nname: a\nnode_id: mail\nnode_version: '1'\n", "node_id: node mail@1 is a toolkit, want an agent node"},
		"property": {
			"kind: AgentInstance\nname: a\nnode_id: agent\nnode_version: '1'\nparameters:\n  system_message: x\n  temperature: 9\n",
			"test.yaml:7:16: AgentInstance default/a: parameters.temperature: ",
		},
		"model":      {agentDoc("", "a", "models: [default, nope]"), `models[1]: there is no model profile "nope"`},
		"tool":       {agentDoc("", "a", "tools: [nope]"), `tools[0].toolkit: there is no tool binding and no tool node "nope"`},
		"one tool":   {agentDoc("", "a", "tools: [{toolkit: mail, tools: [send, fax]}]"), `tools[0].tools[1]: there is no tool "fax" here: there are send, search`},
		"agent node": {agentDoc("", "a", "tools: [agent]"), "tools[0].toolkit: node agent@1 is an agent, no tool"},
		"twice": {
			"kind: ToolBinding\nname: post\nnode_id: mail\nnode_version: '1'\ntools: [send]\n---\n" + agentDoc("", "a", "tools: [mail, post]"),
			`tools[1]: tool "send" comes from "mail" (node mail@1) and from "post" (node mail@1)`,
		},
		"binding node":     {"kind: ToolBinding\nname: b\nnode_id: pipeline\nnode_version: '9'\n", "node_id: there is no node pipeline@9"},
		"binding property": {"kind: ToolBinding\nname: b\nnode_id: pipeline\nnode_version: '1'\nparameters: {max_rows: 0}\n", "parameters.max_rows: "},
		"binding of both":  {"kind: ToolBinding\nname: b\nnode_id: mail\nnode_version: '1'\nclient_side: [{name: f}]\n", "client_side: tools that run at the caller have no node"},
		"client tools":     {"kind: ToolBinding\nname: b\nclient_side: [{name: f}, {name: f}]\n", "client_side[1]: is the same as client_side[0]"},
		"client schema":    {"kind: ToolBinding\nname: b\nclient_side: [{name: f, parameters: {type: 7}}]\n", "client_side[0].parameters"},
		"no client tool":   {editorBinding + agentDoc("", "a", "tools: [{toolkit: editor, tools: [fax]}]"), `there is no tool "fax" here: there are open_file, pick`},
		"binding auth":     {"kind: ToolBinding\nname: b\nnode_id: pipeline\nnode_version: '1'\nauth: [k]\n", `auth[0]: there is no auth profile "k"`},
		"toolkit":          {"kind: NodeDefinition\nnode_id: x\nversion: '1'\ntype: toolkit\n", `toolkit: this server has no toolkit "x"`},
		"tool of toolkit":  {"kind: NodeDefinition\nnode_id: fax\nversion: '1'\ntype: tool\ntoolkit: mail\ntool: fax\n", `tool: toolkit "mail" has no tool "fax"`},
		"middleware":       {agentDoc("", "a", "middleware: [{name: nope}]"), `middleware[0].name: there is no middleware "nope"`},
		"model auth":       {"kind: ModelProfile\nname: m\nprovider: openai\nmodel: x\nauth: k\n", `auth: there is no auth profile "k"`},
		"knowledge":        {agentDoc("", "a", "knowledge: [k]"), `knowledge[0]: there is no knowledge collection "k"`},
		"delegate":         {agentDoc("", "a", "delegates: [b]"), `delegates[0]: there is no agent "b"`},
		"circle": {
			agentDoc("", "a", "delegates: [b]") + agentDoc("", "b", "delegates: [c]") + agentDoc("", "c", "delegates: [a]"),
			"delegates[0]: agents delegate in a circle: a → b → c → a",
		},
		"route":       {"kind: RouteTable\nname: r\nrules: [{name: x, agent: nope}]\n", `rules[0].agent: there is no agent "nope"`},
		"route model": {"kind: RouteTable\nname: r\nrules: [{name: x, agent: analyst, model: big}]\n", `rules[0].model: agent "analyst" has no model "big"`},
		"route cel":   {"kind: RouteTable\nname: r\nrules: [{name: x, agent: analyst, when: {expression: role + 1}}]\n", "rules[0].when.expression: "},
		"two defaults": {
			"kind: RouteTable\nname: r\ndefault_agent: analyst\n---\nkind: RouteTable\nname: s\ndefault_agent: analyst\n",
			"default_agent: RouteTable default/r names a default agent for the same tenant: one is enough",
		},
		"default":            {"kind: RouteTable\nname: r\ndefault_agent: nope\n", `default_agent: there is no agent "nope"`},
		"middleware options": {agentDoc("", "a", "middleware: [{name: house, options: {bad: 1}}]"), "middleware[0].options.bad: unknown field"},
		"every middleware": {
			agentDoc("", "a", "middleware: [{name: house, options: {bad: 1}}, {name: nope}]"), `middleware[1].name: there is no middleware "nope"`,
		},
		"own secret": {"kind: AuthProfile\nname: k\ntype: bearer\nsecret: env:DATABASE_URL\n", "secret: read secret env:DATABASE_URL: the variable is the runtime's own"},
		"ungranted secret": {
			"kind: AuthProfile\ntenant: acme\nname: k\ntype: basic\nusername: u\npassword: env:NEW\n",
			`password: read secret env:NEW: catalog.secret_env grants no such variable to documents of tenant "acme"`,
		},
		"private model": {
			"kind: ModelProfile\nname: m\nprovider: openai\nmodel: x\nbase_url: http://[::ffff:169.254.169.254]/v1\n",
			"base_url: request ::ffff:169.254.169.254: ::ffff:169.254.169.254 is not a public address; egress.allow_hosts",
		},
		"a number as host": {"kind: ModelProfile\nname: m\nprovider: openai\nmodel: x\nbase_url: http://2130706433/v1\n", "base_url: the host \"2130706433\" is not a valid name"},
		"private token_url": {
			"kind: AuthProfile\nname: k\ntype: oauth2_client_credentials\nclient_id: i\nclient_secret: env:X\ntoken_url: https://10.0.0.1/token\n",
			"token_url: request 10.0.0.1: 10.0.0.1 is not a public address",
		},
		"shared key": {
			"kind: AuthProfile\ntenant: '*'\nname: k\ntype: bearer\nsecret: env:X\n---\n" +
				"kind: ModelProfile\ntenant: acme\nname: m\nprovider: openai\nmodel: x\nbase_url: https://acme.example/v1\nauth: k\n",
			`auth: auth profile "k" is shared and lists no hosts: it is not sent to the base_url of a tenant's own profile`,
		},
		"prompt bomb": {
			"kind: NodeDefinition\nnode_id: bomb\nversion: '1'\ntype: agent\nproperties: {type: object, properties: {a: {type: string}}}\nprompt: '" +
				strings.Repeat("{{a}}", 40_000) + "'\n---\nkind: AgentInstance\nname: a\nnode_id: bomb\nnode_version: '1'\nparameters: {a: " +
				strings.Repeat("x", 200_000) + "}\n", "make a system prompt of more than 524288 bytes",
		},
		"special parameters": {
			"kind: NodeDefinition\nnode_id: odd\nversion: '1'\ntype: agent\nproperties: {type: object, properties: {temperature: {type: string}}}\n---\n" +
				"kind: AgentInstance\nname: a\nnode_id: odd\nnode_version: '1'\nparameters: {temperature: hot}\n",
			"parameters.temperature: want a number from 0 to 2",
		},
		"negative iterations": {
			"kind: NodeDefinition\nnode_id: odd\nversion: '1'\ntype: agent\nproperties: {type: object, properties: {max_iterations: {type: integer}}}\n---\n" +
				"kind: AgentInstance\nname: a\nnode_id: odd\nnode_version: '1'\nparameters: {max_iterations: -5}\n",
			"parameters.max_iterations: want a number from 1 to 1000000",
		},
		"steps that are no flag": {
			"kind: NodeDefinition\nnode_id: odd\nversion: '1'\ntype: agent\nproperties: {type: object, properties: {return_intermediate_steps: {type: string}}}\n---\n" +
				"kind: AgentInstance\nname: a\nnode_id: odd\nnode_version: '1'\nparameters: {return_intermediate_steps: all}\n",
			"parameters.return_intermediate_steps: want true or false",
		},
		"no text to say": {
			"kind: NodeDefinition\nnode_id: odd\nversion: '1'\ntype: agent\nproperties: {type: object, properties: {system_message: {type: integer}}}\n---\n" +
				"kind: AgentInstance\nname: a\nnode_id: odd\nnode_version: '1'\nparameters: {system_message: 3}\n",
			"parameters.system_message: want a string",
		},
		"circle through a shared agent": {
			agentDoc("acme", "a", "delegates: [s]") + agentDoc("*", "a", "") + agentDoc("*", "s", "delegates: [a]"), "agents delegate in a circle: s → a → s",
		},
		"two alike": {agentDoc("", "a", "") + agentDoc("", "a", ""), "is given twice: the other one is at test.yaml:1"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			before := w.Status(t.Context())
			for _, dry := range []bool{true, false} {
				_, err := w.try(c.yaml, func(r *agent.ApplyRequest) { r.DryRun = dry })
				require.ErrorContains(t, err, c.want)
				require.Equal(t, agent.CodeInvalid, agent.CodeOf(err))
				require.NotEmpty(t, agent.FailureOf(err).Faults)
			}
			require.Equal(t, before.Revision, w.Status(t.Context()).Revision, "the plan is unchanged")
			require.Equal(t, before.Counts, w.Status(t.Context()).Counts)
		})
	}
}

func TestAllFaultsAreReported(t *testing.T) {
	w := newWorld(t)
	_, err := w.try(agentDoc("", "a", "models: [x, y]\ntools: [z]") + agentDoc("", "b", "delegates: [q]"))
	require.Len(t, agent.FailureOf(err).Faults, 4, "%v", err)
}

func TestLatestNodeVersion(t *testing.T) {
	w := newWorld(t)
	for _, version := range []string{"2", "latest", "10", "9", "11.0.0-rc1"} {
		w.apply("kind: NodeDefinition\nnode_id: post\nversion: '" + version + "'\ntype: toolkit\ntoolkit: mail\n")
	}
	w.apply(agentDoc("", "new", "tools: [post]") + agentDoc("", "old", "tools: ['post@2']"))
	p := w.plan("default", "new")
	require.Equal(t, "post@11.0.0-rc1", p.Tools[0].Node)
	p = w.plan("default", "old")
	require.Equal(t, "post@2", p.Tools[0].Node)
	w.apply("kind: NodeDefinition\nnode_id: post\nversion: '11'\ntype: toolkit\ntoolkit: mail\n")
	p = w.plan("default", "new")
	require.Equal(t, "post@11", p.Tools[0].Node, "agents without a version get the newer one")
	p = w.plan("default", "old")
	require.Equal(t, "post@2", p.Tools[0].Node)
}

func TestToolWildcards(t *testing.T) {
	w := newWorld(t)
	w.apply(agentDoc("", "a", "tools: ['*', {toolkit: mail, tools: [send], approval: always}]"))
	p := w.plan("default", "a")
	require.Equal(t, []string{"execute_pipeline", "send"}, toolNames(&p))
	require.Equal(t, agent.ApproveAlways, p.Tools[1].Approval)
}

// withClock adds a single tool to the toolkits.
type withClock struct{ testTools }

func (withClock) Kits() []string { return []string{"pipeline", "clock", "delegate", "research"} }

func TestSingleToolNode(t *testing.T) {
	w := newWorld(t, func(c *catalog.Config) { c.Parts.Tools = withClock{} })
	nodes, err := w.ListNodes(t.Context(), agent.NodeQuery{Type: agent.NodeTool})
	require.NoError(t, err)
	require.Len(t, nodes.Nodes, 1)
	require.Equal(t, "clock", nodes.Nodes[0].NodeID)
	p := w.plan("default", "analyst")
	require.Equal(t, []string{"execute_pipeline", "clock", "delegate_to_agent"}, toolNames(&p))
	require.False(t, p.Tools[1].IsFromToolkit)
}
