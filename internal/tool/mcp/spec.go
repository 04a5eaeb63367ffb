package mcp

import (
	"bytes"
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
	maxServerName  = 256  // bytes of a tool's name at its server
	maxName        = 64   // bytes of a name that providers accept
	maxDescription = 1024 // runes
	maxDepth       = 64   // of a schema
	hashDigits     = 8    // of the hash that tells names apart
)

var unsupportedChars = regexp.MustCompile(`[^a-zA-Z0-9_-]+`)

// serverTool is a tool as its server describes it, cleaned.
type serverTool struct {
	name        string // the server's own
	description string
	schema      json.RawMessage // of an object
	readOnly    bool            // the server says so
	idempotent  bool            // the server says so
}

// newServerTool cleans a tool's description. why is the reason if the tool cannot be used, else "".
func newServerTool(t *sdk.Tool, label string, hidden *secrets) (made serverTool, why string) {
	if t.Name == "" || len(t.Name) > maxServerName {
		return made, "its name is empty or too long"
	}
	schema, why := objectSchema(t.InputSchema, hidden)
	if why != "" {
		return made, why
	}
	made = serverTool{name: t.Name, schema: schema, description: hidden.displayText(t.Description, maxDescription)}
	if made.description == "" {
		made.description = hidden.displayText(t.Title, maxDescription)
	}
	if made.description == "" {
		made.description = fmt.Sprintf("A tool of the MCP server %s.", label)
	}
	if t.Annotations != nil {
		made.readOnly, made.idempotent = t.Annotations.ReadOnlyHint, t.Annotations.IdempotentHint
	}
	return made, ""
}

// objectSchema returns the schema of the arguments, which are an object. A schema of something else is replaced by one that allows any
// object.
func objectSchema(from any, hidden *secrets) (schema json.RawMessage, why string) {
	object, ok := from.(map[string]any)
	if !ok {
		object = map[string]any{}
	}
	if kind, given := object["type"]; given && kind != "object" {
		object = map[string]any{}
	}
	object["type"] = "object"
	if !cleanSchema(object, hidden, maxDepth) {
		return nil, fmt.Sprintf("its schema is nested deeper than %d levels", maxDepth)
	}
	schema, err := json.Marshal(object)
	if err != nil {
		return nil, "its schema is no JSON"
	}
	if len(schema) > maxSchema {
		return nil, fmt.Sprintf("its schema is larger than %d bytes", maxSchema)
	}
	return hidden.maskJSON(schema), ""
}

// cleanSchema cleans titles and descriptions in a schema, at every level. It returns false if there are too many levels.
func cleanSchema(value any, hidden *secrets, levels int) bool {
	if levels == 0 {
		return false
	}
	switch v := value.(type) {
	case map[string]any:
		for key, member := range v {
			if text, ok := member.(string); ok && (key == "description" || key == "title") {
				v[key] = hidden.displayText(text, maxDescription)
			} else if !cleanSchema(member, hidden, levels-1) {
				return false
			}
		}
	case []any:
		for _, member := range v {
			if !cleanSchema(member, hidden, levels-1) {
				return false
			}
		}
	}
	return true
}

// handle is what a call needs to know of a listed tool. [agent.ListedTool.Handle] holds it as JSON.
type handle struct {
	Name       string `json:"name"`             // the server's own
	Schema     string `json:"schema,omitempty"` // begins the hash of the schema that the model was shown
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

// listTools returns the tools of a server as a binding offers them, in the server's order.
func listTools(b *binding, tools []serverTool) ([]agent.ListedTool, error) {
	names := offeredNames(b.Prefix, tools)
	out := make([]agent.ListedTool, 0, len(tools))
	for i := range tools {
		t := &tools[i]
		sum := sha256.Sum256(t.schema)
		h := handle{
			Name: t.name, Schema: hex.EncodeToString(sum[:hashDigits]),
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

// offeredNames returns names that providers accept. A tool keeps a name that providers accept. If several tools would get the same name,
// the others end in a hash of the server's name, so that a name depends neither on the order nor on other tools.
func offeredNames(prefix string, tools []serverTool) []string {
	names, count := make([]string, len(tools)), map[string]int{}
	for i := range tools {
		names[i] = offeredName(prefix, tools[i].name)
		count[names[i]]++
	}
	for i := range tools {
		if own := prefixedName(prefix, tools[i].name); count[names[i]] > 1 && names[i] != own {
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

// hashedName returns a name that ends in a hash of the server's name.
func hashedName(name, own string) string {
	sum := sha256.Sum256([]byte(own))
	return name[:min(len(name), maxName-hashDigits-1)] + "_" + hex.EncodeToString(sum[:hashDigits/2])
}
