package mcp

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"regexp"
	"strings"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/strictjson"
)

const (
	maxServerName   = 256  // bytes of a tool's name at its server
	maxName         = 64   // bytes of a name that providers accept
	maxDescription  = 1024 // runes
	maxDepth        = 64   // of a schema
	nameHashDigits  = 8    // of the hash at the end of a name
	schemaHashBytes = 8    // of the hash in a handle
)

var unsupportedChars = regexp.MustCompile(`[^a-zA-Z0-9_-]+`)

// serverTool is a tool of a server: what the server says about it, cleaned.
type serverTool struct {
	name        string // at the server
	description string
	schema      json.RawMessage // of an object
	readOnly    bool            // according to the server
	idempotent  bool            // according to the server
}

// newServerTool cleans what a server says about a tool. If the tool cannot be used, reason says why, else it is empty.
func newServerTool(raw *sdk.Tool, label string, masker *secretMasker) (t serverTool, reason string) {
	if raw.Name == "" || len(raw.Name) > maxServerName {
		return t, "its name is empty or too long"
	}
	schema, reason := objectSchema(raw.InputSchema, masker)
	if reason != "" {
		return t, reason
	}
	t = serverTool{name: raw.Name, schema: schema}
	t.description = cmp.Or(
		masker.displayText(raw.Description, maxDescription),
		masker.displayText(raw.Title, maxDescription),
		fmt.Sprintf("A tool of the MCP server %s.", label),
	)
	if raw.Annotations != nil {
		t.readOnly, t.idempotent = raw.Annotations.ReadOnlyHint, raw.Annotations.IdempotentHint
	}
	return t, ""
}

// objectSchema returns the schema of a tool's arguments. A schema that is not one of an object is replaced by one that allows any object. If
// the schema cannot be used, reason says why.
func objectSchema(raw any, masker *secretMasker) (schema json.RawMessage, reason string) {
	object, ok := raw.(map[string]any)
	if !ok {
		object = map[string]any{}
	}
	if kind, ok := object["type"]; ok && kind != "object" {
		object = map[string]any{}
	}
	object["type"] = "object"
	if !cleanSchema(object, masker, maxDepth) {
		return nil, fmt.Sprintf("its schema is nested deeper than %d levels", maxDepth)
	}
	schema, err := json.Marshal(object)
	if err != nil {
		return nil, "its schema is no JSON"
	}
	if len(schema) > maxSchema {
		return nil, fmt.Sprintf("its schema is larger than %d bytes", maxSchema)
	}
	return masker.maskJSON(schema), ""
}

// cleanSchema cleans the titles and descriptions in a schema, at every level. It returns false if the schema has too many levels.
func cleanSchema(value any, masker *secretMasker, levels int) bool {
	if levels == 0 {
		return false
	}
	switch v := value.(type) {
	case map[string]any:
		for key, member := range v {
			if text, ok := member.(string); ok && (key == "description" || key == "title") {
				v[key] = masker.displayText(text, maxDescription)
			} else if !cleanSchema(member, masker, levels-1) {
				return false
			}
		}
	case []any:
		for _, member := range v {
			if !cleanSchema(member, masker, levels-1) {
				return false
			}
		}
	}
	return true
}

// handle is what a call needs to know about a listed tool. [agent.ListedTool.Handle] holds it as JSON.
type handle struct {
	Name       string `json:"name"`             // at the server
	Schema     string `json:"schema,omitempty"` // the first bytes of the hash of the schema that the model sees, in hex
	ReadOnly   bool   `json:"read_only,omitempty"`
	Idempotent bool   `json:"idempotent,omitempty"`
}

func parseHandle(text string) (handle, error) {
	var h handle
	if err := strictjson.Decode([]byte(text), &h); err != nil || h.Name == "" {
		return h, agent.Errorf(agent.CodeNotFound, "find MCP tool", "its handle cannot be read")
	}
	return h, nil
}

// listTools returns the tools of a server with the names and trust of a binding, in the server's order.
func listTools(b *binding, tools []serverTool) ([]agent.ListedTool, error) {
	names := offeredNames(b.Prefix, tools)
	out := make([]agent.ListedTool, 0, len(tools))
	for i := range tools {
		t := &tools[i]
		sum := sha256.Sum256(t.schema)
		h := handle{
			Name: t.name, Schema: hex.EncodeToString(sum[:schemaHashBytes]),
			ReadOnly: b.TrustAnnotations && t.readOnly, Idempotent: b.TrustAnnotations && t.idempotent,
		}
		text, err := json.Marshal(h)
		if err != nil {
			return nil, agent.Errorf(agent.CodeInternal, "list MCP tools", "encode handle: %w", err)
		}
		out = append(out, agent.ListedTool{Spec: h.spec(names[i], t), Handle: string(text), Kind: "mcp"})
	}
	return out, nil
}

func (h *handle) spec(name string, t *serverTool) agent.ToolSpec {
	return agent.ToolSpec{
		Name: name, Description: t.description, Parameters: bytes.Clone(t.schema), Idempotent: h.Idempotent, InherentlySafe: h.ReadOnly,
	}
}

// offeredNames returns names that providers accept. Names that already are such names stay. If several tools would get the same name, all
// whose names were changed end in a hash of the original name, so that names do not depend on the order of the tools.
func offeredNames(prefix string, tools []serverTool) []string {
	names, count := make([]string, len(tools)), map[string]int{}
	for i := range tools {
		names[i] = offeredName(prefix, tools[i].name)
		count[names[i]]++
	}
	for i := range tools {
		if isChanged := names[i] != prefixedName(prefix, tools[i].name); isChanged && count[names[i]] > 1 {
			names[i] = hashedName(names[i], tools[i].name)
		}
	}
	return names
}

func prefixedName(prefix, name string) string {
	if prefix == "" {
		return name
	}
	return prefix + "_" + name
}

func offeredName(prefix, name string) string {
	clean := unsupportedChars.ReplaceAllString(name, "_")
	if strings.Trim(clean, "_") == "" {
		clean = "tool"
	}
	out := prefixedName(prefix, clean)
	if len(out) > maxName {
		return hashedName(out, name)
	}
	return out
}

// hashedName returns a name that ends in a hash of the original name.
func hashedName(name, original string) string {
	sum := sha256.Sum256([]byte(original))
	return name[:min(len(name), maxName-nameHashDigits-1)] + "_" + hex.EncodeToString(sum[:])[:nameHashDigits]
}
