package library

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	jsonpatch "github.com/evanphx/json-patch/v5"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/clip"
)

// Apply returns the patched definition, valid and canonical. Either all operations apply or none. Operations always find the members description,
// nodes, edges and schedules, which are empty if the definition lacks them.
//
// The error is [agent.CodeInvalid] with a Field such as operations[2].path if an operation does not apply, [agent.CodeInvalid] wrapping
// [agent.Faults] if the result is not a valid definition, and [agent.CodeConflict] if a test finds another value.
func Apply(document json.RawMessage, operations []Operation) (json.RawMessage, error) {
	patched, err := addEmptyMembers(document)
	if err != nil {
		return nil, err
	}
	for i := range operations {
		path := fmt.Sprintf("operations[%d]", i)
		if patched, err = operations[i].apply(patched); err != nil {
			if e, ok := errors.AsType[*agent.Error](err); ok {
				e.Field = path + e.Field
				return nil, e
			}
			return nil, agent.Invalid(path, "%w", err)
		}
		if len(patched) > MaxDocument {
			return nil, agent.FieldErrorf(agent.CodeOverflow, path, "the definition becomes %d bytes, at most %d", len(patched), MaxDocument)
		}
	}
	return Normalize(patched)
}

// addEmptyMembers adds the members that a canonical definition omits when they are empty.
func addEmptyMembers(document json.RawMessage) (json.RawMessage, error) {
	var d struct {
		Description string          `json:"description"`
		Nodes       json.RawMessage `json:"nodes"`
		Edges       json.RawMessage `json:"edges"`
		Schedules   json.RawMessage `json:"schedules"`
	}
	if err := json.Unmarshal(document, &d); err != nil {
		return nil, agent.Errorf(agent.CodeInternal, "patch definition", "what is stored is none: %w", err)
	}
	for _, list := range []*json.RawMessage{&d.Nodes, &d.Edges, &d.Schedules} {
		if isNull(*list) {
			*list = json.RawMessage("[]")
		}
	}
	raw, err := json.Marshal(&d)
	if err != nil {
		return nil, agent.Errorf(agent.CodeInternal, "patch definition", "%w", err)
	}
	return raw, nil
}

// apply returns the document after the operation. The Field of its error is relative to the operation, such as ".path".
func (o *Operation) apply(document json.RawMessage) (json.RawMessage, error) {
	switch {
	case o.Op == "test":
		return document, o.applyTest(document)
	case o.Path == "":
		return o.Value, nil
	case o.Op == "move", o.Op == "copy":
		return o.applyMoveOrCopy(document)
	case o.Op == "add":
		if problem := checkAddTarget(document, o.Path); problem != "" {
			return nil, o.applyError(document, problem)
		}
	default:
		if _, problem := lookupPointer(document, o.Path); problem != "" {
			return nil, o.applyError(document, problem)
		}
	}
	out, err := o.applyWithLibrary(document)
	if err != nil {
		return nil, o.applyError(document, pointerProblem(clip.Bytes(err.Error(), maxQuoted)))
	}
	return out, nil
}

// applyTest returns an error unless the value at Path exists and equals Value.
func (o *Operation) applyTest(document json.RawMessage) error {
	value, problem := lookupPointer(document, o.Path)
	switch {
	case problem != "":
		return agent.FieldErrorf(agent.CodeConflict, "", "test %s: %s%s", clip.Bytes(o.Path, maxQuoted), problem, listElements(document, o.Path))
	case !equalJSON(value, o.Value):
		return agent.FieldErrorf(agent.CodeConflict, "", "test %s: the value there is another one", clip.Bytes(o.Path, maxQuoted))
	default:
		return nil
	}
}

// applyMoveOrCopy adds the value of From at Path. A move removes it from From first (RFC 6902 §4.4, §4.5).
func (o *Operation) applyMoveOrCopy(document json.RawMessage) (json.RawMessage, error) {
	value, problem := lookupPointer(document, o.From)
	if problem != "" {
		return nil, agent.Invalid(".from", "%s from %s to %s does not apply: %s%s",
			o.Op, clip.Bytes(o.From, maxQuoted), clip.Bytes(o.Path, maxQuoted), problem, listElements(document, o.From))
	}
	if o.Op == "move" {
		var err error
		if document, err = (&Operation{Op: "remove", Path: o.From}).apply(document); err != nil {
			return nil, err
		}
	}
	if problem := checkAddTarget(document, o.Path); problem != "" {
		return nil, o.applyError(document, problem)
	}
	return (&Operation{Op: "add", Path: o.Path, Value: value}).apply(document)
}

// applyWithLibrary applies the operation with the JSON Patch library.
func (o *Operation) applyWithLibrary(document json.RawMessage) (json.RawMessage, error) {
	raw, err := json.Marshal([]*Operation{o})
	if err != nil {
		return nil, err
	}
	patch, err := jsonpatch.DecodePatch(raw)
	if err != nil {
		return nil, err
	}
	options := jsonpatch.NewApplyOptions()
	options.SupportNegativeIndices = false
	options.EscapeHTML = false
	return patch.ApplyWithOptions(document, options)
}

// applyError returns the error for an operation that does not apply. It lists the elements of the list that Path begins with.
func (o *Operation) applyError(document json.RawMessage, problem pointerProblem) error {
	return agent.Invalid(".path", "%s %s does not apply: %s%s", o.Op, clip.Bytes(o.Path, maxQuoted), problem, listElements(document, o.Path))
}

// maxListedElements is the maximum number of elements that an error lists.
const maxListedElements = 40

// listElements describes the elements of the list that a pointer begins with: nodes and schedules by ID, edges by their ends.
func listElements(document json.RawMessage, pointer string) string {
	first, _, _ := strings.Cut(strings.TrimPrefix(pointer, "/"), "/")
	var lists map[string]json.RawMessage
	if (first != "nodes" && first != "edges" && first != "schedules") || json.Unmarshal(document, &lists) != nil {
		return ""
	}
	var elements []struct{ ID, From, To string }
	if raw := lists[first]; !isNull(raw) && json.Unmarshal(raw, &elements) != nil {
		return ""
	}
	if len(elements) == 0 {
		return "; there are no " + first
	}
	var b strings.Builder
	for i, e := range elements {
		if i == maxListedElements {
			fmt.Fprintf(&b, " and %d more", len(elements)-i)
			break
		}
		name := e.ID
		if first == "edges" {
			name = e.From + " → " + e.To
		}
		if i > 0 {
			b.WriteString(", ")
		}
		fmt.Fprintf(&b, "%d %s", i, clip.Bytes(name, maxQuoted))
	}
	return "; the " + first + " are: " + b.String()
}
