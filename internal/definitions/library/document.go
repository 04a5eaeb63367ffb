package library

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/clip"
	"github.com/turnstone-run/turnstone/internal/strictjson"
)

// Bounds of a definition.
const (
	MaxDocument  = 256 << 10 // bytes
	maxDepth     = 64        // nesting of objects and arrays
	maxNodes     = 256
	maxEdges     = 1_024
	maxSchedules = 32
)

// Parse decodes and validates a definition. The returned definition is valid only if there are no faults.
func Parse(raw json.RawMessage) (agent.WorkflowDefinition, agent.Faults) {
	var d agent.WorkflowDefinition
	if len(raw) > MaxDocument {
		return d, singleFault("", "is %d bytes, at most %d", len(raw), MaxDocument)
	}
	if isTooDeep(raw) {
		return d, singleFault("", "is deeper than %d", maxDepth)
	}
	if err := strictjson.Decode(raw, &d); err != nil {
		return d, decodeFaults("", err)
	}
	return d, validate(&d)
}

// isTooDeep reports whether JSON is nested deeper than maxDepth. It stops at the first syntax error.
func isTooDeep(raw []byte) bool {
	d := jsontext.NewDecoder(bytes.NewReader(raw), jsontext.AllowDuplicateNames(true))
	for {
		if _, err := d.ReadToken(); err != nil {
			return false
		}
		if d.StackDepth() > maxDepth {
			return true
		}
	}
}

// Canonical returns the canonical JSON of a definition: sorted members, no spaces, numbers unchanged. Equal definitions have equal bytes.
func Canonical(d *agent.WorkflowDefinition) (json.RawMessage, error) {
	out := *d
	if out.Nodes == nil {
		out.Nodes = []agent.WorkflowNode{}
	}
	if out.Edges == nil {
		out.Edges = []agent.WorkflowEdge{}
	}
	return canonicalJSON("write definition", &out)
}

// canonicalJSON returns the canonical JSON of a value. op is the operation for the error.
func canonicalJSON(op string, v any) (json.RawMessage, error) {
	raw, err := json.Marshal(v)
	if err != nil {
		return nil, agent.Errorf(agent.CodeInternal, op, "%w", err)
	}
	canonical := jsontext.Value(raw)
	if err := canonical.Canonicalize(jsontext.CanonicalizeRawInts(false), jsontext.CanonicalizeRawFloats(false)); err != nil {
		return nil, agent.Errorf(agent.CodeInternal, op, "%w", err)
	}
	return json.RawMessage(canonical), nil
}

// Hash returns the hash of a canonical definition as sha256:<hex>.
func Hash(canonical json.RawMessage) string {
	sum := sha256.Sum256(canonical)
	return "sha256:" + hex.EncodeToString(sum[:])
}

// Normalize returns the canonical form of a definition. Its error is [agent.CodeInvalid] wrapping [agent.Faults] if the definition is invalid.
func Normalize(raw json.RawMessage) (json.RawMessage, error) {
	d, faults := Parse(raw)
	if err := FaultsError(faults); err != nil {
		return nil, err
	}
	return Canonical(&d)
}

// FaultsError returns faults as an error with [agent.CodeInvalid], nil for no faults.
func FaultsError(faults agent.Faults) error {
	if len(faults) == 0 {
		return nil
	}
	return &agent.Error{Code: agent.CodeInvalid, Op: "check definition", Err: faults}
}

// decodeFaults returns the fault of a strict decoding error. path is the path of the decoded value.
func decodeFaults(path string, err error) agent.Faults {
	e, ok := errors.AsType[*agent.Error](err)
	if !ok {
		return singleFault(path, "%s", err.Error())
	}
	switch {
	case e.Field == "":
	case path == "":
		path = e.Field
	default:
		path += "." + e.Field
	}
	return singleFault(path, "%s", clip.Bytes(e.Err.Error(), maxQuoted))
}

// isNull reports whether a member is absent or null.
func isNull(raw json.RawMessage) bool { return len(raw) == 0 || bytes.Equal(raw, []byte("null")) }
