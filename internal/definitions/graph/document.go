package graph

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/strict"
)

// The bounds of a definition.
const (
	MaxDocument  = 256 << 10 // bytes
	MaxDepth     = 64        // of objects and arrays within each other
	MaxNodes     = 256
	MaxEdges     = 1_024
	MaxSchedules = 32
)

// Parse reads a definition. What it returns with faults is not of use.
func Parse(raw json.RawMessage) (agent.WorkflowDefinition, agent.Faults) {
	var d agent.WorkflowDefinition
	if len(raw) > MaxDocument {
		return d, one("", "is %d bytes, at most %d", len(raw), MaxDocument)
	}
	if deep(raw) {
		return d, one("", "is deeper than %d", MaxDepth)
	}
	if err := strict.Decode(raw, &d); err != nil {
		return d, faultsOf("", err)
	}
	return d, Validate(&d)
}

// deep reports whether JSON is deeper than MaxDepth, as far as it is JSON at all.
func deep(raw []byte) bool {
	d := jsontext.NewDecoder(bytes.NewReader(raw), jsontext.AllowDuplicateNames(true))
	for {
		if _, err := d.ReadToken(); err != nil {
			return false
		}
		if d.StackDepth() > MaxDepth {
			return true
		}
	}
}

// Canonical writes a definition so that equal ones are equal bytes: members sorted, no spaces, numbers as they were written.
func Canonical(d *agent.WorkflowDefinition) (json.RawMessage, error) {
	out := *d
	if out.Nodes == nil {
		out.Nodes = []agent.WorkflowNode{}
	}
	if out.Edges == nil {
		out.Edges = []agent.WorkflowEdge{}
	}
	raw, err := json.Marshal(&out)
	if err != nil {
		return nil, agent.Errorf(agent.CodeInternal, "write definition", "%w", err)
	}
	canonical := jsontext.Value(raw)
	if err := canonical.Canonicalize(jsontext.CanonicalizeRawInts(false), jsontext.CanonicalizeRawFloats(false)); err != nil {
		return nil, agent.Errorf(agent.CodeInternal, "write definition", "%w", err)
	}
	return json.RawMessage(canonical), nil
}

// Hash names a canonical definition: sha256:<hex>.
func Hash(canonical json.RawMessage) string {
	sum := sha256.Sum256(canonical)
	return "sha256:" + hex.EncodeToString(sum[:])
}

// Clean checks a definition and writes it canonically. Its error is [agent.CodeInvalid] and wraps [agent.Faults].
func Clean(raw json.RawMessage) (json.RawMessage, error) {
	d, faults := Parse(raw)
	if err := Refused(faults); err != nil {
		return nil, err
	}
	return Canonical(&d)
}

// Refused makes an error of faults: [agent.CodeInvalid], its Field that of the first; nil of none.
func Refused(faults agent.Faults) error {
	if len(faults) == 0 {
		return nil
	}
	return &agent.Error{Code: agent.CodeInvalid, Op: "check definition", Err: faults}
}

// faultsOf makes a fault of an error of strict decoding, its place within path.
func faultsOf(path string, err error) agent.Faults {
	e, ok := errors.AsType[*agent.Error](err)
	if !ok {
		return one(path, "%s", err.Error())
	}
	switch {
	case e.Field == "":
	case path == "":
		path = e.Field
	default:
		path += "." + e.Field
	}
	return one(path, "%s", clip(e.Err.Error()))
}

// null reports whether a member is absent or null.
func null(raw json.RawMessage) bool { return len(raw) == 0 || bytes.Equal(raw, []byte("null")) }
