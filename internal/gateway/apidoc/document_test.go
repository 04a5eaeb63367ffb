package apidoc_test

import (
	"encoding/json"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/goccy/go-yaml"
	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/gateway"
)

// load reads the document as a server serves it, and validates it with its examples.
func load(t *testing.T, d *server) *openapi3.T {
	t.Helper()
	a := d.send("", "GET", "/v1/openapi.json", "")
	require.Equal(t, 200, a.status)
	doc, err := openapi3.NewLoader().LoadFromData(a.body)
	require.NoError(t, err)
	require.NoError(t, doc.Validate(t.Context(), openapi3.EnableExamplesValidation(), openapi3.EnableSchemaDefaultsValidation(),
		openapi3.EnableSchemaPatternValidation()))
	return doc
}

// each calls f with every operation.
func each(doc *openapi3.T, f func(what, path, method string, op *openapi3.Operation)) {
	for path, item := range doc.Paths.Map() {
		for method, op := range item.Operations() {
			f(method+" "+path, path, method, op)
		}
	}
}

func extension[T any](t *testing.T, extensions map[string]any, name string) (v T) {
	t.Helper()
	raw, err := json.Marshal(extensions[name])
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(raw, &v), name)
	return v
}

// What operations are called, which tags they have, and what they may answer.
func TestOperations(t *testing.T) {
	doc := load(t, open(t))
	tags := map[string]bool{}
	for _, tag := range doc.Tags {
		tags[tag.Name] = false
	}
	names := map[string]string{}
	each(doc, func(what, _, _ string, op *openapi3.Operation) {
		require.Regexp(t, `^[a-z][A-Za-z]+$`, op.OperationID, what)
		require.Empty(t, names[op.OperationID], "%s has the name of another operation", what)
		names[op.OperationID] = what
		require.Len(t, op.Tags, 1, what)
		_, known := tags[op.Tags[0]]
		require.True(t, known, "%s has the tag %q, which is described nowhere", what, op.Tags[0])
		tags[op.Tags[0]] = true
		require.NotEmpty(t, op.Summary, what)
		for status, r := range op.Responses.Map() {
			require.Contains(t, r.Value.Headers, "X-Request-Id", "%s: %s", what, status)
		}
	})
	for tag, used := range tags {
		require.True(t, used, "no operation has the tag %q", tag)
	}
	require.Equal(t, "1", doc.Info.Version)
	require.Equal(t, "/", doc.Servers[0].URL)
}

// Everything that is described is used, event schemas included.
func TestComponentsAreUsed(t *testing.T) {
	d := open(t)
	doc := load(t, d)
	text := string(d.send("", "GET", "/v1/openapi.yaml", "").body)
	each(doc, func(what, _, _ string, op *openapi3.Operation) {
		for _, r := range op.Responses.Map() {
			for media, m := range r.Value.Content {
				events := extension[[]string](t, m.Extensions, "x-turnstone-events")
				require.Equal(t, media == "text/event-stream", len(events) > 0, "%s says what its events hold", what)
				for _, name := range events {
					require.Contains(t, doc.Components.Schemas, name, what)
					text += `"#/components/schemas/` + name + `"`
				}
			}
		}
	})
	references := map[string]bool{}
	for _, reference := range regexp.MustCompile(`"#/components/[^"]+"`).FindAllString(text, -1) {
		references[reference] = true
	}
	used := func(kind, name string) {
		require.True(t, references[`"#/components/`+kind+`/`+name+`"`], "%s %s is used nowhere", kind, name)
	}
	for name := range doc.Components.Schemas {
		used("schemas", name)
	}
	for name := range doc.Components.Parameters {
		used("parameters", name)
	}
	for name := range doc.Components.Headers {
		used("headers", name)
	}
	for name := range doc.Components.Responses {
		used("responses", name)
	}
}

func TestServing(t *testing.T) {
	d := open(t)
	for path, media := range map[string]string{"/v1/openapi.json": "application/json", "/v1/openapi.yaml": "application/yaml"} {
		a := d.send("", "GET", path, "")
		require.Equal(t, 200, a.status, path)
		require.Equal(t, media, a.header.Get("Content-Type"))
		require.Contains(t, a.header.Get("Cache-Control"), "max-age=300")
		tag := a.header.Get("ETag")
		require.Regexp(t, `^"[0-9a-f]{32}"$`, tag)
		head := d.send("", "HEAD", path, "")
		require.Equal(t, 200, head.status)
		require.Empty(t, head.body)
		require.Equal(t, a.header.Get("Content-Length"), head.header.Get("Content-Length"))
		require.Equal(t, 304, d.send("", "GET", path, "", "If-None-Match", tag).status)
		require.Equal(t, 200, d.send("", "GET", path, "", "If-None-Match", `"older"`).status)
		require.Equal(t, 405, d.send("", "POST", path, "").status)
	}
	asJSON, asYAML := d.send("", "GET", "/v1/openapi.json", ""), d.send("", "GET", "/v1/openapi.yaml", "")
	require.NotEqual(t, asJSON.header.Get("ETag"), asYAML.header.Get("ETag"))
	converted, err := yaml.YAMLToJSON(asYAML.body)
	require.NoError(t, err)
	require.JSONEq(t, string(asJSON.body), string(converted))
}

// templates turns what the mux calls a parameter into what OpenAPI does.
var templates = regexp.MustCompile(`\{(\w+)\.\.\.\}`)

// described are the operations that stand for a route: one path of the mux may be several of the document.
func described(doc *openapi3.T, r gateway.ServedRoute) map[string]*openapi3.Operation {
	path := templates.ReplaceAllString(r.Path, "{$1}")
	found := map[string]*openapi3.Operation{}
	add := func(path string) {
		if item := doc.Paths.Find(path); item != nil && item.GetOperation(r.Method) != nil {
			found[r.Method+" "+path] = item.GetOperation(r.Method)
		}
	}
	switch {
	case r.Path == "/v1/workflows/{tag}" && r.Method == http.MethodPost:
		for _, action := range []string{":patch", ":revert", ":run"} {
			add(path + action)
		}
	case r.Path == "/v1/results/{ref...}":
		add(path)
		add(path + "/data")
	default:
		add(path)
	}
	return found
}

// Every route is described, with what it wants of its caller, and nothing is described that is not there.
func TestEveryRouteIsDescribed(t *testing.T) {
	d := open(t)
	doc := load(t, d)
	routes := d.Routes()
	require.Greater(t, len(routes), 55)
	left := map[string]bool{}
	each(doc, func(what, _, _ string, _ *openapi3.Operation) { left[what] = true })
	for _, r := range routes {
		what := r.Method + " " + r.Path
		operations := described(doc, r)
		require.NotEmpty(t, operations, "%s is not described", what)
		var actions []agent.Action
		for name, op := range operations {
			delete(left, name)
			action := extension[string](t, op.Extensions, "x-turnstone-action")
			every := extension[bool](t, op.Extensions, "x-turnstone-every-tenant")
			require.Equal(t, r.EveryTenant, every, what)
			switch {
			case r.Public:
				require.Equal(t, "none", action, what)
			case r.AnyCredential:
				require.Equal(t, "any", action, what)
			default:
				require.Contains(t, r.Actions, agent.Action(action), what)
				actions = append(actions, agent.Action(action))
			}
		}
		for _, a := range r.Actions {
			require.Contains(t, actions, a, "%s: no operation says that it needs this", what)
		}
	}
	require.Empty(t, left, "described, but not served")
}

// Two paths that differ in their parameters' names alone would be one to a router.
func TestPathsDiffer(t *testing.T) {
	seen := map[string]string{}
	for path := range load(t, open(t)).Paths.Map() {
		bare := regexp.MustCompile(`\{\w+\}`).ReplaceAllString(path, "{}")
		require.Empty(t, seen[bare], path)
		seen[bare] = path
		require.False(t, strings.HasSuffix(path, "/"), path)
	}
}
