// Package clients_test keeps the types and examples of the clients in this folder up to date.
package clients_test

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "write the types of the clients anew")

// roots are the schemas that the clients use. What they refer to is generated too.
var roots = []string{
	"TurnRequest", "TurnState", "AgentStepOutput", "EndedTurn", "Event", "Decision", "ProvidedResult", "CancelRequest", "MessagePage", "ErrorBody",
	"RerunRequest", "ForkRequest", "SessionForked", "SessionSummary",
}

// TestTypes: the clients' types are those of the OpenAPI document. With -update it writes them.
func TestTypes(t *testing.T) {
	schemas := reachable(readSchemas(t), roots)
	for path, generate := range map[string]func([]schema) string{"typescript/src/types.ts": typescript, "python/turnstone/types.py": python} {
		want := generate(schemas)
		if *update {
			require.NoError(t, os.WriteFile(path, []byte(want), 0o644))
		}
		have, err := os.ReadFile(path)
		require.NoError(t, err)
		require.Equal(t, want, string(have), "run: go test ./clients -run TestTypes -update")
	}
}

// example matches the example of a page, with the file that it is taken from if that is not a README.
var example = regexp.MustCompile("(?s)(?:<!-- ([a-z/_]+\\.go) -->\n)?```(?:go|js|python)\n(?:func|import|from) .*?```")

// TestExamples: docs/guides/clients.md has the example of each README, and that in Go is the one that runs as a test.
func TestExamples(t *testing.T) {
	page, err := os.ReadFile("../docs/guides/clients.md")
	require.NoError(t, err)
	for _, path := range []string{"../client/README.md", "typescript/README.md", "python/README.md"} {
		readme, err := os.ReadFile(path)
		require.NoError(t, err)
		found := example.FindSubmatch(readme)
		require.NotNil(t, found, path)
		require.Contains(t, string(page), string(found[0]), path)
		if len(found[1]) > 0 {
			source, err := os.ReadFile("../" + string(found[1]))
			require.NoError(t, err)
			_, code, _ := bytes.Cut(found[0], []byte("```go\n"))
			require.Contains(t, string(source), string(bytes.TrimSuffix(code, []byte("```"))))
		}
	}
}

// schema is one entry of components.schemas.
type schema struct {
	name string
	yaml.MapSlice
}

// readSchemas returns the schemas of the OpenAPI document in its order.
func readSchemas(t *testing.T) []schema {
	t.Helper()
	names, err := filepath.Glob("../internal/gateway/apidoc/document/*.yaml") // sorted: the order in which they are joined
	require.NoError(t, err)
	var whole bytes.Buffer
	for _, name := range names {
		part, err := os.ReadFile(name)
		require.NoError(t, err)
		whole.Write(part)
	}
	var document yaml.MapSlice
	require.NoError(t, yaml.UnmarshalWithOptions(whole.Bytes(), &document, yaml.UseOrderedMap()))
	var schemas []schema
	for _, entry := range object(object(document, "components"), "schemas") {
		schemas = append(schemas, schema{entry.Key.(string), entry.Value.(yaml.MapSlice)})
	}
	require.NotEmpty(t, schemas)
	return schemas
}

// member returns the value of a key, nil if there is none.
func member(m yaml.MapSlice, key string) any {
	for _, entry := range m {
		if entry.Key == key {
			return entry.Value
		}
	}
	return nil
}

func object(m yaml.MapSlice, key string) yaml.MapSlice {
	value, _ := member(m, key).(yaml.MapSlice)
	return value
}

func text(m yaml.MapSlice, key string) string {
	value, _ := member(m, key).(string)
	return value
}

// list returns the texts of a list.
func list(m yaml.MapSlice, key string) (texts []string) {
	values, _ := member(m, key).([]any)
	for _, v := range values {
		texts = append(texts, fmt.Sprint(v))
	}
	return texts
}

// reference returns the name of the schema that m refers to, or "".
func reference(m yaml.MapSlice) string {
	if all, _ := member(m, "allOf").([]any); len(all) == 1 {
		m, _ = all[0].(yaml.MapSlice)
	}
	return strings.TrimPrefix(text(m, "$ref"), "#/components/schemas/")
}

// reachable returns the named schemas and all that they refer to, in the order of the document.
func reachable(all []schema, names []string) []schema {
	used := map[string]bool{}
	var visit func(any)
	visit = func(node any) {
		switch node := node.(type) {
		case []any:
			for _, n := range node {
				visit(n)
			}
		case yaml.MapSlice:
			if name := reference(node); name != "" && !used[name] {
				used[name] = true
				visit(all[slices.IndexFunc(all, func(s schema) bool { return s.name == name })].MapSlice)
			}
			for _, entry := range node {
				visit(entry.Value)
			}
		}
	}
	for _, name := range names {
		visit(yaml.MapSlice{{Key: "$ref", Value: "#/components/schemas/" + name}})
	}
	return slices.DeleteFunc(slices.Clone(all), func(s schema) bool { return !used[s.name] })
}

// language is how a language writes types.
type language struct {
	scalars         map[string]string // by the type's name in OpenAPI; "" is any value
	list, dict, nil string            // formats of a list and of an object with any members; the null type
	choice          func([]string) string
}

func (l language) typeOf(m yaml.MapSlice) string {
	written := l.scalars[text(m, "type")]
	switch {
	case reference(m) != "":
		written = reference(m)
	case member(m, "enum") != nil:
		written = l.choice(list(m, "enum"))
	case text(m, "type") == "array":
		written = fmt.Sprintf(l.list, l.typeOf(object(m, "items")))
	case text(m, "type") == "object":
		written = l.dict
	}
	if member(m, "nullable") == true && written != l.scalars[""] {
		written += " | " + l.nil
	}
	return written
}

func typescript(schemas []schema) string {
	l := language{
		scalars: map[string]string{"": "unknown", "string": "string", "boolean": "boolean", "integer": "number", "number": "number"},
		list:    "%s[]", dict: "Record<string, unknown>", nil: "null",
		choice: func(values []string) string { return "'" + strings.Join(values, "' | '") + "'" },
	}
	var out strings.Builder
	out.WriteString("// Generated from the OpenAPI document by: go test ./clients -run TestTypes -update\n")
	comment := func(indent, words string) {
		if words != "" {
			fmt.Fprintf(&out, "%s/** %s */\n", indent, words)
		}
	}
	for _, s := range schemas {
		out.WriteByte('\n')
		comment("", text(s.MapSlice, "description"))
		properties := object(s.MapSlice, "properties")
		if properties == nil {
			fmt.Fprintf(&out, "export type %s = %s;\n", s.name, l.typeOf(s.MapSlice))
			continue
		}
		fmt.Fprintf(&out, "export interface %s {\n", s.name)
		for _, p := range properties {
			m, optional := p.Value.(yaml.MapSlice), "?"
			if slices.Contains(list(s.MapSlice, "required"), p.Key.(string)) {
				optional = ""
			}
			comment("  ", text(m, "description"))
			fmt.Fprintf(&out, "  %s%s: %s;\n", p.Key, optional, l.typeOf(m))
		}
		out.WriteString("}\n")
	}
	return out.String()
}

func python(schemas []schema) string {
	l := language{
		scalars: map[string]string{"": "Any", "string": "str", "boolean": "bool", "integer": "int", "number": "float"},
		list:    "list[%s]", dict: "dict[str, Any]", nil: "None",
		choice: func(values []string) string { return `Literal["` + strings.Join(values, `", "`) + `"]` },
	}
	var out strings.Builder
	out.WriteString(`"""Generated from the OpenAPI document by: go test ./clients -run TestTypes -update"""` + "\n\n")
	out.WriteString("from __future__ import annotations\n\nfrom typing import Any, Literal, TypedDict\n\n__all__ = [\n")
	for _, s := range schemas {
		fmt.Fprintf(&out, "    %q,\n", s.name)
	}
	out.WriteString("]\n")
	for _, s := range schemas {
		properties := object(s.MapSlice, "properties")
		if properties == nil {
			written := l.typeOf(s.MapSlice)
			if text(s.MapSlice, "type") == "array" { // evaluated, unlike an annotation
				written = strings.NewReplacer("list[", `list["`, "]", `"]`).Replace(written)
			}
			fmt.Fprintf(&out, "\n%s = %s\n", s.name, written)
			continue
		}
		// Members that may be left out are those of a class with total=False: Python 3.10 has no NotRequired.
		required := list(s.MapSlice, "required")
		base := "TypedDict"
		class := func(name, arguments string, want bool) {
			fmt.Fprintf(&out, "\n\nclass %s(%s):\n", name, arguments)
			if description := text(s.MapSlice, "description"); name == s.name && description != "" {
				fmt.Fprintf(&out, "    \"\"\"%s\"\"\"\n\n", strings.ReplaceAll(description, `"`, "'"))
			}
			for _, p := range properties {
				if m := p.Value.(yaml.MapSlice); slices.Contains(required, p.Key.(string)) == want {
					fmt.Fprintf(&out, "    %s: %s", p.Key, l.typeOf(m))
					if description := text(m, "description"); description != "" {
						out.WriteString("  # " + description)
					}
					out.WriteByte('\n')
				}
			}
		}
		if len(required) == len(properties) {
			class(s.name, base, true)
			continue
		}
		if len(required) > 0 {
			base = "_" + s.name
			class(base, "TypedDict", true)
		}
		class(s.name, base+", total=False", false)
	}
	return out.String()
}
