package manifest_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/catalog/manifest"
)

// What parses reads back as itself, from the store and from text, and satisfies the schema that editors use.
func FuzzParse(f *testing.F) {
	f.Add(good(f))
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

// Parameters that pass once pass again, with nothing more to fill in.
func FuzzParameters(f *testing.F) {
	f.Add([]byte(properties), []byte(`{"model":"m","tools":[{"name":"a"}]}`))
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
