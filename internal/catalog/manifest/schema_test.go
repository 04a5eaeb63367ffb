package manifest_test

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/catalog/manifest"
)

const published = "../../../docs/schemas"

// docs/schemas is a copy of the embedded schemas. Update it with: go test -run TestPublishedSchemas -update.
func TestPublishedSchemas(t *testing.T) {
	schemas, err := manifest.Schemas()
	require.NoError(t, err)
	require.Len(t, schemas, len(agent.Kinds())+1)
	for name, data := range schemas {
		path := filepath.Join(published, name)
		if *update {
			require.NoError(t, os.MkdirAll(published, 0o755))
			require.NoError(t, os.WriteFile(path, data, 0o644))
		}
		copied, err := os.ReadFile(path)
		require.NoError(t, err)
		require.Equal(t, string(data), string(copied), "%s differs: run the test with -update", path)
	}
	files, err := os.ReadDir(published)
	require.NoError(t, err)
	require.Len(t, files, len(schemas), "docs/schemas has a file that is not embedded")
	for _, kind := range agent.Kinds() {
		require.True(t, json.Valid(manifest.PublishedSchema(kind)), kind)
	}
	require.Nil(t, manifest.PublishedSchema("Agent"))
}

// compiled compiles the published catalog.json and the files that it refers to, as an editor does.
func compiled(t testing.TB) *jsonschema.Schema {
	t.Helper()
	schemas, err := manifest.Schemas()
	require.NoError(t, err)
	c := jsonschema.NewCompiler()
	for name, data := range schemas {
		doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(data))
		require.NoError(t, err)
		require.NoError(t, c.AddResource("https://example.com/docs/schemas/"+name, doc))
	}
	s, err := c.Compile("https://example.com/docs/schemas/catalog.json")
	require.NoError(t, err)
	return s
}

// The published schemas and the parser must agree on every document, as far as a schema can express the rules.
func TestSchemasAgreeWithParser(t *testing.T) {
	s := compiled(t)
	d := yaml.NewDecoder(bytes.NewReader(validText(t)))
	for range parse(t, "catalog.yaml", string(validText(t))) {
		var doc any
		for doc == nil { // skip the leading comment, which decodes to nil
			require.NoError(t, d.Decode(&doc))
		}
		if m, ok := doc.(map[string]any); ok {
			delete(m, "description") // the parser accepts fields without a value, the schema does not
			delete(m, "parameters")  // holds a date, which JSON does not have
			require.NoError(t, s.Validate(doc), m)
		}
	}
	refused := []string{
		`{}`, `{"kind":"Agent"}`, `7`,
		`{"kind":"AgentInstance","name":"a"}`,
		`{"kind":"AgentInstance","name":"a","node_id":"n"}`,
		`{"kind":"NodeDefinition","node_id":"n","version":"1","type":"tool","toolkit":"k"}`,
		`{"kind":"NodeDefinition","node_id":"n","version":"1","type":"agent","tool":"t"}`,
		`{"kind":"NodeDefinition","node_id":"n","version":"1","type":"agent","toolkit":"t"}`,
		`{"kind":"NodeDefinition","node_id":"n","version":"1","type":"toolkit","prompt":""}`,
		`{"kind":"NodeDefinition","node_id":"n","version":"1","type":"tool","middleware":[]}`,
		`{"kind":"NodeDefinition","node_id":"n","version":"1","type":"toolkit","ask":{"retrieval":"r"}}`,
		`{"kind":"NodeDefinition","node_id":"n","version":"1","type":"agent","ask":{}}`,
		`{"kind":"NodeDefinition","node_id":"n","version":"1","type":"agent","ask":{"retrieval":""}}`,
		`{"kind":"NodeDefinition","node_id":"n","version":"1","type":"agent","ask":{"retrieval":"r","code":"c"}}`,
		`{"kind":"NodeDefinition","node_id":"n","version":"1","type":"agent","ask":{"retrieval":"r","answer":"c"}}`,
		`{"kind":"NodeDefinition","node_id":"n","version":"1","type":"agent","prompt":"p","ask":{"retrieval":"r"}}`,
		`{"kind":"AuthProfile","name":"a","type":"bearer"}`,
		`{"kind":"AuthProfile","name":"a","type":"bearer","secret":"env:X","query":"q"}`,
		`{"kind":"AuthProfile","name":"a","type":"api_key","secret":"env:X"}`,
		`{"kind":"AuthProfile","name":"a","type":"api_key","secret":"env:X","header":"h","query":"q"}`,
		`{"kind":"AuthProfile","name":"a","type":"basic","username":"u"}`,
		`{"kind":"AuthProfile","name":"a","type":"oauth2_client_credentials","client_id":"i","client_secret":"env:X"}`,
		`{"kind":"AuthProfile","name":"a","type":"oauth2_client_credentials","client_id":"i","client_secret":"env:X","token_url":"https://x","password":"env:X"}`,
		`{"kind":"ToolBinding","name":"b","node_id":"n","node_version":"1","tools":["a","a"]}`,
		`{"kind":"KnowledgeCollection","name":"k","sources":[{}]}`,
		`{"kind":"RouteTable","name":"r","rules":[{"name":"x"}]}`,
		`{"kind":"ModelProfile","name":"m","provider":"offline"}`,
		`{"kind":"ModelProfile","name":"m","provider":"offline","model":"x","context_tokens":-1}`,
		`{"kind":"AgentInstance","name":"a","node_id":"n","node_version":"1","limits":{"iterations":-1}}`,
	}
	for _, text := range refused {
		doc, err := jsonschema.UnmarshalJSON(strings.NewReader(text))
		require.NoError(t, err)
		require.Error(t, s.Validate(doc), text)
		require.NotEmpty(t, faultsOf(text), text)
	}
}

// The schemas must have exactly the fields of the Go types: other fields would be refused or lost.
func TestSchemasHaveTheFieldsOfTheTypes(t *testing.T) {
	for kind, value := range map[agent.Kind]any{
		agent.KindNode: agent.NodeDefinition{}, agent.KindAgent: agent.AgentInstance{}, agent.KindBinding: agent.ToolBinding{}, agent.KindModel: agent.ModelProfile{},
		agent.KindRoutes: agent.RouteTable{}, agent.KindAuth: agent.AuthProfile{}, agent.KindKnowledge: agent.KnowledgeCollection{},
	} {
		t.Run(string(kind), func(t *testing.T) {
			var root map[string]any
			require.NoError(t, json.Unmarshal(manifest.PublishedSchema(kind), &root))
			requireSameFields(t, reflect.TypeOf(value), root, root)
			requireDescriptions(t, root, root)
		})
	}
}

func requireSameFields(t *testing.T, typ reflect.Type, schema, root map[string]any) {
	t.Helper()
	if ref, ok := schema["$ref"].(string); ok {
		schema = root["$defs"].(map[string]any)[strings.TrimPrefix(ref, "#/$defs/")].(map[string]any)
	}
	if typ.Kind() == reflect.Pointer {
		typ = typ.Elem()
	}
	switch {
	case typ.Kind() == reflect.Slice && typ.Elem().Kind() == reflect.Struct:
		requireSameFields(t, typ.Elem(), schema["items"].(map[string]any), root)
	case typ.Kind() == reflect.Struct:
		require.Equal(t, false, schema["additionalProperties"], typ)
		properties := schema["properties"].(map[string]any)
		var names []string
		for field := range typ.Fields() {
			name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
			if typ == reflect.TypeFor[agent.Limits]() && name == "tools" {
				require.NotContains(t, properties, name, "a request's alone: an agent's tools are those that it is granted")
				continue
			}
			names = append(names, name)
			require.Contains(t, properties, name, typ)
			requireSameFields(t, field.Type, properties[name].(map[string]any), root)
		}
		for name := range properties {
			require.True(t, slices.Contains(names, name), "%s has no field %s", typ, name)
		}
	}
}

// requireDescriptions requires that every field has a description for editors.
func requireDescriptions(t *testing.T, schema, root map[string]any) {
	t.Helper()
	require.NotEmpty(t, root["title"])
	for name, p := range schema["properties"].(map[string]any) {
		property := p.(map[string]any)
		described := property["description"] != nil
		if ref, ok := property["$ref"].(string); ok && !described {
			described = root["$defs"].(map[string]any)[strings.TrimPrefix(ref, "#/$defs/")].(map[string]any)["description"] != nil
		}
		require.True(t, described, "%s has no description", name)
	}
}
