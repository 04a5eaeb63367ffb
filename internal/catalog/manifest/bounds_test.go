package manifest_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/catalog/manifest"
)

const modelText = "kind: ModelProfile\nprovider: offline\nmodel: m\nname: "

// Text that is too large or too deep is refused, with a message that says so.
func TestTextLimit(t *testing.T) {
	params := func(s string) string {
		return "kind: AgentInstance\nname: a\nnode_id: n\nnode_version: 1\nparameters: " + s
	}
	cases := map[string]struct{ text, want string }{
		"a file of 1 MiB and a byte": {strings.Repeat("#", 1<<20+1), "f.yaml: the file has 1048577 bytes, at most 1048576 are read"},
		"deep flow":                  {params("{a: " + strings.Repeat("[", 63) + strings.Repeat("]", 63) + "}"), "f.yaml:5:79: AgentInstance default/a: parameters.a" + strings.Repeat("[0]", 62) + ": is nested deeper than 64 levels"},
		"deep JSON":                  {`{"a":` + strings.Repeat("[", 65) + strings.Repeat("]", 65) + `,"kind":"X"}`, "f.yaml:1:69: a" + strings.Repeat("[0]", 63) + ": is nested deeper than 64 levels\nf.yaml:1:144: kind: unknown kind \"X\": want one of"},
		"many values":                {params("{a: [" + strings.Repeat("1,", 60_000) + "]}"), "parameters.a[49993]: the document has more than 50000 values"},
		"a long name":                {params("{" + strings.Repeat("n", 257) + ": 1}"), "f.yaml:5:14: AgentInstance default/a: parameters: a name is longer than 256 bytes"},
		"a name with control":        {params(`{"a\e[31mb": 1}`), "f.yaml:5:14: AgentInstance default/a: parameters: a name holds a control character"},
		"a long number":              {`{"kind":"AgentInstance","n":` + strings.Repeat("1", 1001) + `}`, "n: has too many digits"},
		"a long kind":                {"kind: " + strings.Repeat("é", 100), `unknown kind "` + strings.Repeat("é", 32) + `…": want`},
		"a long name of a document":  {modelText + strings.Repeat("x", 129), "name: has 129 characters, at most 128"},
		"many labels":                {modelText + "x\nlabels: {" + manyMembers(65) + "}", "labels: want at most 64 labels"},
		"many models":                {"kind: AgentInstance\nname: a\nnode_id: n\nnode_version: 1\nmodels: [" + strings.Repeat("m,", 101) + "]", "models: has 101 entries, at most 100 are allowed"},
		"a long description":         {modelText + "x\ndescription: " + strings.Repeat("d", 4097), "description: has 4097 characters, at most 4096 are allowed"},
		"YAML bomb":                  {"a: &a [x,x]\nb: &b [*a,*a]\nkind: [*b,*b]", "f.yaml:1:4: a: anchors and aliases are not supported\nf.yaml:2:4: b: anchors"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			require.Contains(t, strings.Join(faultsOf(c.text), "\n"), c.want)
		})
	}
}

func manyMembers(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "k%d: v, ", i)
	}
	return b.String()
}

func TestDepthLimit(t *testing.T) {
	parseOne(t, "kind: AgentInstance\nname: a\nnode_id: n\nnode_version: 1\nparameters: {a: "+strings.Repeat("[", 62)+"1"+strings.Repeat("]", 62)+"}")
}

// The sizes are checked before anything else.
func TestCallLimits(t *testing.T) {
	huge := make([]byte, 100<<20)
	allocated := testing.AllocsPerRun(1, func() {
		defs, faults := manifest.Parse([]agent.ManifestFile{{Name: "ok", Data: []byte(modelText + "a")}, {Name: "huge", Data: huge}})
		require.Empty(t, defs)
		require.EqualError(t, faults, "huge: the files have more than 64 MiB in all")
	})
	require.Less(t, allocated, 100.0)

	many := strings.Repeat("---\n", 5001)
	_, faults := manifest.Parse([]agent.ManifestFile{{Name: "a", Data: []byte(many)}, {Name: "b", Data: []byte(many + modelText + "x")}})
	require.EqualError(t, faults, "b: more than 10000 documents: the rest is not read")
	list := "[" + strings.Repeat(`1,`, 10_000) + "1]"
	_, faults = manifest.Parse([]agent.ManifestFile{{Name: "a.json", Data: []byte(list)}})
	require.Len(t, faults, 1001)
	require.Equal(t, "and 9001 more faults", faults[1000].String())

	_, faults = manifest.Parse([]agent.ManifestFile{{Name: "a", Data: []byte(modelText + "x\nlabels: 7\n" + strings.ReplaceAll(manyMembers(150), ", ", "\n"))}})
	require.Len(t, faults, 101)
	require.Equal(t, "a: ModelProfile default/x: and 51 more faults", faults[100].String())
}

// Hostile text takes no longer than other text: about 10 ms for 1 MiB of brackets. The limit leaves room for the race detector
// on a loaded machine; a parser with quadratic time would need minutes.
func TestHostileTextIsFast(t *testing.T) {
	const bound = 20 * time.Second
	for part, size := range map[string]int{
		"[": 1 << 20, "{": 1 << 20, "- ": 1 << 20, "? ": 1 << 20, "{a: ": 1 << 20, "{\"a\":": 1 << 20, "[[": 1 << 20, "&a ": 1 << 20, "*a ": 1 << 20, "\"": 1 << 20,
		"!!str ": 1 << 20, "%a\n": 1 << 20, "[[],": 1 << 16, "- |\n": 1 << 16, "a: #c\n": 1 << 16,
	} {
		t.Run(part, func(t *testing.T) {
			text := []byte(strings.Repeat(part, size/len(part)))
			start := time.Now()
			defs, faults := manifest.Parse([]agent.ManifestFile{{Name: "hard", Data: text}})
			require.Less(t, time.Since(start), bound)
			require.Empty(t, defs)
			require.NotEmpty(t, faults)
		})
	}
}

// An accepted document decodes to itself from its stored form and from its text, and satisfies the published schema.
func FuzzParse(f *testing.F) {
	f.Add(validText(f))
	files, err := filepath.Glob("testdata/bad/*.*")
	require.NoError(f, err)
	for _, file := range files {
		data, err := os.ReadFile(file)
		require.NoError(f, err)
		f.Add(data)
	}
	for _, s := range []string{
		`{"kind":"ModelProfile","name":"m","provider":"offline","model":"\ud83d\ude00"}`, "- a\n- kind: RouteTable\n  name: x\n", "a: &x [*x]", "? [a]\n: b", "%YAML 1.1\n---\n!!map {}",
		"kind: AgentInstance\nname: a\nnode_id: n\nnode_version: 1\nparameters: {f: 1e21, i: 100000000000000000000, z: -0, e: -0.0, o: 0o7}",
		"kind: NodeDefinition\nnode_id: n\nversion: 1\ntype: agent\nproperties: {type: object, properties: {a: {default: 1, type: integer, $ref: '#/$defs/b'}}, $defs: {b: {}}}\nprompt: '{{a}}'",
	} {
		f.Add([]byte(s))
	}
	editor := compiled(f)
	f.Fuzz(func(t *testing.T, data []byte) {
		defs, faults := manifest.Parse([]agent.ManifestFile{{Name: "f.yaml", Data: data}})
		for i := range faults {
			require.NotEmpty(t, faults[i].Message)
		}
		for _, d := range defs {
			again, err := manifest.Decode(agent.Document{DocumentKey: d.Key, Body: d.Body})
			require.NoError(t, err, "%s", d.Body)
			require.Equal(t, d.Value, again.Value)
			require.Equal(t, string(d.Body), string(again.Body))
			twice, faults := manifest.Parse([]agent.ManifestFile{{Data: d.Body}})
			require.NoError(t, faults.Err(), "%s", d.Body)
			require.Len(t, twice, 1)
			require.Equal(t, string(d.Body), string(twice[0].Body))
			var doc any
			require.NoError(t, json.Unmarshal(d.Body, &doc))
			require.NoError(t, editor.Validate(doc), "%s", d.Body)
		}
	})
}

// Accepted parameters are accepted again and get no further defaults.
func FuzzParameters(f *testing.F) {
	f.Add([]byte(propertySchema), []byte(`{"model":"m","tools":[{"name":"a"}]}`))
	f.Add([]byte(exponential(3)), []byte(`{"a":{}}`))
	f.Add([]byte(`{"type":"object","$ref":"#/$defs/x","$defs":{"x":{"properties":{"a":{"default":{}}}}}}`), []byte(`{}`))
	f.Add([]byte(`{"type":"object","properties":{"a":{"$anchor":"x","$ref":"#/properties/b"},"b":{"default":null,"items":[{}]}}}`), []byte(`{"a":null}`))
	f.Add([]byte(`{"$schema":"http://json-schema.org/draft-07/schema#","type":"object","dependencies":{"a":["b"],"c":{"properties":{"d":{"default":1}}}}}`), []byte(`{"a":1,"c":2}`))
	f.Add([]byte(`{"type":"object","if":{"required":["a"]},"then":{"required":["b"]},"else":false,"dependentRequired":{"a":["c"]},"unevaluatedProperties":false}`), []byte(`{"a":1}`))
	f.Fuzz(func(t *testing.T, schema, parameters []byte) {
		manifest.CheckSchema(schema)
		out, faults := manifest.Parameters(schema, parameters)
		if faults != nil {
			require.Nil(t, out)
			return
		}
		require.True(t, json.Valid(out))
		again, faults := manifest.Parameters(schema, out)
		require.NoError(t, faults.Err(), "%s", out)
		require.Equal(t, string(out), string(again))
	})
}
