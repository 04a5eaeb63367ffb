package manifest_test

import (
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/catalog/manifest"
)

func parse(t *testing.T, name, text string) []*manifest.Document {
	t.Helper()
	defs, faults := manifest.Parse([]agent.ManifestFile{{Name: name, Data: []byte(text)}})
	require.NoError(t, faults.Err())
	return defs
}

func parseOne(t *testing.T, text string) *manifest.Document {
	t.Helper()
	defs := parse(t, "f.yaml", text)
	require.Len(t, defs, 1)
	return defs[0]
}

func faultsOf(text string) []string {
	_, faults := manifest.Parse([]agent.ManifestFile{{Name: "f.yaml", Data: []byte(text)}})
	out := make([]string, len(faults))
	for i := range faults {
		out[i] = faults[i].String()
	}
	return out
}

func validText(t testing.TB) []byte {
	t.Helper()
	data, err := os.ReadFile("testdata/good/catalog.yaml")
	require.NoError(t, err)
	return data
}

func TestParseReadsEveryKind(t *testing.T) {
	defs := parse(t, "catalog.yaml", string(validText(t)))
	keys := make([]string, len(defs))
	for i, d := range defs {
		keys[i] = d.Key.String()
		require.Equal(t, "catalog.yaml", d.File)
		require.Positive(t, d.Line)
	}
	require.Equal(t, []string{
		"NodeDefinition agent@1", "NodeDefinition research@1.2.0", "NodeDefinition ask@1", "AgentInstance default/analyst", "AgentInstance acme/helper", "ToolBinding */web",
		"ModelProfile default/fast", "RouteTable default/main", "AuthProfile default/crm", "AuthProfile default/idp", "AuthProfile default/protected", "AuthProfile default/old",
		"AuthProfile default/gh", "KnowledgeCollection default/handbook",
	}, keys)

	a, ok := defs[3].Value.(*agent.AgentInstance)
	require.True(t, ok)
	require.Equal(t, "default", a.Tenant)
	require.Equal(t, "3", a.Version)
	require.Equal(t, "1", a.NodeVersion)
	require.Equal(t, []agent.ToolGrant{
		{Toolkit: "research"},
		{Toolkit: "pipeline", Tools: []string{"execute_pipeline"}, Approval: agent.ApproveNever},
	}, a.Tools)
	require.JSONEq(t, `{"system_message":"You analyse.\n","at":"2026-01-02","yes":"no","octal":15,"hex":255,"float":1.5,"big":123456789012345680000}`, string(a.Parameters))
	require.Equal(t, agent.Limits{Iterations: 8, ModelCalls: 20, CostUSD: 0.5, WallTimeSec: 600}, a.Limits)
	m, ok := defs[6].Value.(*agent.ModelProfile)
	require.True(t, ok)
	require.NotNil(t, m.Temperature)
	require.Zero(t, *m.Temperature)
	require.Equal(t, 400_000, m.ContextTokens)
	n, ok := defs[2].Value.(*agent.NodeDefinition)
	require.True(t, ok)
	require.Equal(t, &agent.AskPrompts{
		Classify: "One word. {{hint}}", Reformulate: "Rewrite the question.", Retrieval: "Answer from the context.", Code: "Answer in code.", Conversational: "Talk.",
	}, n.Ask)
}

// Every way to write a document gives the same body, which is stored and hashed.
func TestBodyIsCanonical(t *testing.T) {
	want := `{"kind":"AgentInstance","name":"a","node_id":"agent","node_version":"1","tenant":"default","tools":[{"toolkit":"research"}]}`
	for name, text := range map[string]string{
		"block":    "name: a\nkind: AgentInstance\nnode_version: 1\nnode_id: agent\ntools:\n  - research\ndescription:\n",
		"flow":     `{kind: AgentInstance, name: a, node_id: agent, node_version: '1', tools: [{toolkit: research}], tenant: ""}`,
		"json":     `{"kind":"AgentInstance","name":"a","node_id":"agent","node_version":1,"tools":["research"],"limits":null}`,
		"list":     `[{"kind":"AgentInstance","name":"\u0061","node_id":"agent","node_version":"1","tools":["research"]}]`,
		"sequence": "- kind: AgentInstance\n  name: a\n  node_id: agent\n  node_version: 0x1\n  tools: [research]\n",
		"itself":   want,
	} {
		require.Equal(t, want, string(parseOne(t, text).Body), name)
	}
}

func TestDecodeReadsWhatWasStored(t *testing.T) {
	for _, d := range parse(t, "catalog.yaml", string(validText(t))) {
		again, err := manifest.Decode(agent.Document{DocumentKey: d.Key, Body: d.Body})
		require.NoError(t, err)
		require.Equal(t, d.Key, again.Key)
		require.Equal(t, d.Value, again.Value)
		require.Equal(t, string(d.Body), string(again.Body))
		require.Zero(t, again.Line)

		made, faults := manifest.New(d.Value)
		require.Empty(t, faults)
		require.Equal(t, d.Key, made.Key)
		require.Equal(t, d.Value, made.Value)
	}
}

func TestDecodeRefuses(t *testing.T) {
	d := parseOne(t, "{kind: ModelProfile, name: m, provider: offline, model: x}")
	cases := map[string]struct {
		key  agent.DocumentKey
		body string
		want string
	}{
		"another key": {agent.DocumentKey{Kind: agent.KindModel, Tenant: "acme", Name: "m"}, string(d.Body), `load definition "ModelProfile acme/m": its body is ModelProfile default/m`},
		"malformed":   {d.Key, `{"kind":`, `load definition "ModelProfile default/m": malformed JSON: ends too early`},
		"invalid":     {d.Key, `{"kind":"ModelProfile","name":"m","model":"x"}`, `load definition "ModelProfile default/m": ModelProfile default/m: provider: is required`},
		"two":         {d.Key, string(d.Body) + string(d.Body), `load definition "ModelProfile default/m": want one document`},
		"none":        {d.Key, "", `load definition "ModelProfile default/m": want one document`},
		"large":       {d.Key, strings.Repeat(" ", 1<<20+1), `load definition "ModelProfile default/m": the document has 1048577 bytes, at most 1048576 are read`},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			_, err := manifest.Decode(agent.Document{DocumentKey: c.key, Body: json.RawMessage(c.body)})
			require.EqualError(t, err, c.want)
			require.Equal(t, agent.CodeInvalid, agent.CodeOf(err))
		})
	}
}

func TestNewFillsInTheKind(t *testing.T) {
	for _, value := range []any{agent.ModelProfile{Name: "m", Provider: "offline", Model: "x"}, &agent.ModelProfile{Name: "m", Provider: "offline", Model: "x"}} {
		d, faults := manifest.New(value)
		require.Empty(t, faults)
		require.Equal(t, agent.DocumentKey{Kind: agent.KindModel, Tenant: "default", Name: "m"}, d.Key)
		require.JSONEq(t, `{"kind":"ModelProfile","tenant":"default","name":"m","provider":"offline","model":"x"}`, string(d.Body))
		require.Equal(t, &agent.ModelProfile{Kind: agent.KindModel, Tenant: "default", Name: "m", Provider: "offline", Model: "x"}, d.Value)
	}
	d, faults := manifest.New(agent.AgentInstance{Name: "off", Disabled: true})
	require.Empty(t, faults)
	require.JSONEq(t, `{"kind":"AgentInstance","tenant":"default","name":"off","disabled":true}`, string(d.Body))
}

func TestNewRefuses(t *testing.T) {
	cases := map[string]struct {
		value any
		want  string
	}{
		"no document":  {7, "a int is no catalog document"},
		"nil":          {nil, "a <nil> is no catalog document"},
		"nil pointer":  {(*agent.RouteTable)(nil), "a *agent.RouteTable is no catalog document"},
		"another kind": {agent.RouteTable{Kind: agent.KindAuth}, "RouteTable: kind: want RouteTable"},
		"no name":      {agent.RouteTable{}, "RouteTable: name: is required"},
		"bad field":    {agent.ModelProfile{Name: "m", Provider: "offline", Model: "x", MaxTokens: -1}, "ModelProfile default/m: max_tokens: want 1 to 1000000, got -1"},
		"bad JSON":     {agent.AgentInstance{Name: "a", Parameters: json.RawMessage("{")}, "AgentInstance: cannot be written as JSON: json: error calling MarshalJSON for type json.RawMessage: unexpected end of JSON input"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			d, faults := manifest.New(c.value)
			require.Nil(t, d)
			require.EqualError(t, faults, c.want)
		})
	}
}

func TestAskNeedsNoMoreThanTwoBranches(t *testing.T) {
	for _, branch := range []string{"code", "conversational"} {
		parseOne(t, "{kind: NodeDefinition, node_id: n, version: 1, type: agent, ask: {classify: Choose., retrieval: Answer., "+branch+": Do.}}")
	}
	parseOne(t, "{kind: NodeDefinition, node_id: n, version: 1, type: agent, ask: {retrieval: Answer., reformulate: Write.}}")
}

func TestFaultHasTheNearestPosition(t *testing.T) {
	d := parseOne(t, `# a comment
kind: RouteTable
name: main
labels: {a.b: x, a: y}
rules:
  - name: first
    agent: x
    when:
      metadata:
        user.plan: gold
  - name: second
    agent: y
`)
	for path, want := range map[string]string{
		"":                                 "f.yaml:2:1: RouteTable default/main: no",
		"rules[1].agent":                   "f.yaml:12:12: RouteTable default/main: rules[1].agent: no",
		"rules[1]":                         "f.yaml:11:5: RouteTable default/main: rules[1]: no",
		"rules[1].when.expression":         "f.yaml:11:5: RouteTable default/main: rules[1].when.expression: no",
		"rules[7].agent":                   "f.yaml:5:1: RouteTable default/main: rules[7].agent: no",
		"rules[0].when.expression":         "f.yaml:8:5: RouteTable default/main: rules[0].when.expression: no",
		"rules[0].when.metadata.user.plan": "f.yaml:10:20: RouteTable default/main: rules[0].when.metadata.user.plan: no",
		"labels.a.b":                       "f.yaml:4:15: RouteTable default/main: labels.a.b: no",
		"default_agent":                    "f.yaml:2:1: RouteTable default/main: default_agent: no",
	} {
		require.Equal(t, want, d.Fault(path, "n%s", "o").String(), path)
	}
	within := d.Within("rules", agent.Faults{{Path: "[1].agent", Message: "100%"}, {Message: "all"}})
	require.Equal(t, "f.yaml:12:12: RouteTable default/main: rules[1].agent: 100%\nf.yaml:5:1: RouteTable default/main: rules: all", within.Error())

	again, err := manifest.Decode(agent.Document{DocumentKey: d.Key, Body: d.Body})
	require.NoError(t, err)
	require.Equal(t, "RouteTable default/main: rules[1].agent: no", again.Fault("rules[1].agent", "no").String())
}

// JSON that a YAML parser would refuse: surrogate pairs and long names.
func TestJSONIsNotReadAsYAML(t *testing.T) {
	long := strings.Repeat("k", 200)
	d := parseOne(t, `{"kind":"AgentInstance","name":"a","node_id":"n","node_version":"1","description":"\ud83d\ude00 \/",
	"parameters":{"`+long+`":{"é":1}}}`)
	a, ok := d.Value.(*agent.AgentInstance)
	require.True(t, ok)
	require.Equal(t, "😀 /", a.Description)
	require.Equal(t, 2, d.Fault("parameters."+long+".é", "x").Line)
	require.Equal(t, 214, d.Fault("parameters."+long+".é", "x").Column-10, "columns count characters")
	require.Len(t, parse(t, "a.json", `{"kind":"ModelProfile","name":"a","provider":"offline","model":"x"}
	{"kind":"ModelProfile","name":"b","provider":"offline","model":"x"}`), 2, "a stream of values")
	require.Empty(t, parse(t, "empty.json", ""))
	require.Empty(t, parse(t, "empty.yaml", "\ufeff# nothing\n---\n---\n# nothing\n"))
	require.Equal(t, []string{"f.yaml:1:25: malformed JSON: invalid character '\"' after object value (expecting ',' or '}')"}, faultsOf(`{"kind": "ModelProfile" "name": "x"}`))
	require.Len(t, parse(t, "f.yaml", "{\"kind\": ModelProfile, name: x, provider: offline, model: m,}\n---\n"), 1, "YAML in flow style")
}

var update = flag.Bool("update", false, "write the files that the tests compare with, docs/schemas included")

// Beside each file of testdata/bad, a file lists all its faults, one per line.
func TestFaultPositions(t *testing.T) {
	files, err := filepath.Glob("testdata/bad/*.*")
	require.NoError(t, err)
	tested := 0
	for _, file := range files {
		if filepath.Ext(file) == ".want" {
			continue
		}
		tested++
		t.Run(filepath.Base(file), func(t *testing.T) {
			data, err := os.ReadFile(file)
			require.NoError(t, err)
			_, faults := manifest.Parse([]agent.ManifestFile{{Name: filepath.Base(file), Data: data}})
			got := strings.Join(strings.SplitAfter(faults.Error()+"\n", "\n"), "")
			require.NotContains(t, got, "hunter2", "a value is repeated")
			golden := file + ".want"
			if *update {
				require.NoError(t, os.WriteFile(golden, []byte(got), 0o644))
			}
			want, err := os.ReadFile(golden)
			require.NoError(t, err)
			require.Equal(t, string(want), got)
		})
	}
	require.GreaterOrEqual(t, tested, 10)
	_, faults := manifest.Parse([]agent.ManifestFile{{Name: "a.yaml"}, {Data: []byte("kind: Poem\n")}})
	require.Equal(t, "files[1]", faults[0].File, "a file without a name gets a name from its index")
}
