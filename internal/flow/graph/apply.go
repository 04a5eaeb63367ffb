package graph

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	jsonpatch "github.com/evanphx/json-patch/v5"

	"github.com/turnstone-run/turnstone/agent"
)

// Apply patches a definition and checks what comes out, which is canonical. All operations apply, or none does. For them the members
// description and schedules are always there, empty where the definition has none.
//
// Its errors are [agent.CodeInvalid] with the place as their Field: operations[2].path for an operation that does not apply, else, with
// [agent.Faults], for what the definition would be; [agent.CodeConflict] for a test that finds another value.
func Apply(document json.RawMessage, operations []Operation) (json.RawMessage, error) {
	patched, err := whole(document)
	if err != nil {
		return nil, err
	}
	for i := range operations {
		if patched, err = operations[i].apply(patched); err != nil {
			at := fmt.Sprintf("operations[%d]", i)
			if e, ok := errors.AsType[*agent.Error](err); ok {
				e.Field = at + e.Field
				return nil, e
			}
			return nil, agent.Invalid(at, "%w", err)
		}
		if len(patched) > MaxDocument {
			at := fmt.Sprintf("operations[%d]", i)
			return nil, agent.FieldErrorf(agent.CodeOverflow, at, "the definition becomes %d bytes, at most %d", len(patched), MaxDocument)
		}
	}
	return Clean(patched)
}

// whole adds the members that a canonical definition leaves out when they are empty.
func whole(document json.RawMessage) (json.RawMessage, error) {
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
		if null(*list) {
			*list = json.RawMessage("[]")
		}
	}
	raw, err := json.Marshal(&d)
	if err != nil {
		return nil, agent.Errorf(agent.CodeInternal, "patch definition", "%w", err)
	}
	return raw, nil
}

// apply returns the document as one operation makes it. An error is an [agent.Error] whose Field goes on behind the operation's own.
func (o *Operation) apply(document json.RawMessage) (json.RawMessage, error) {
	if o.Path == "" && o.Op != "test" {
		return o.Value, nil
	}
	out, err := o.try(document)
	switch {
	case errors.Is(err, jsonpatch.ErrTestFailed):
		return nil, agent.FieldErrorf(agent.CodeConflict, "", "test %s: the value there is another one", clip(o.Path))
	case err != nil:
		return nil, o.misses(document, err)
	default:
		return out, nil
	}
}

// try has the library do it; its errors are the library's.
func (o *Operation) try(document json.RawMessage) (json.RawMessage, error) {
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

// misses says why an operation does not apply, in words that help whoever wrote it without seeing the document.
func (o *Operation) misses(document json.RawMessage, err error) error {
	field, pointer := ".path", o.Path
	if o.From != "" && !there(document, o.From) {
		field, pointer = ".from", o.From
	}
	return agent.Invalid(field, "%s %s does not apply: %s%s", o.Op, clip(o.Path), reason(err), inventory(document, pointer))
}

func reason(err error) string {
	switch {
	case errors.Is(err, jsonpatch.ErrMissing), errors.Is(err, jsonpatch.ErrInvalidIndex):
		return "there is no such place"
	default:
		return clip(err.Error())
	}
}

// there reports whether a pointer leads to something.
func there(document json.RawMessage, pointer string) bool {
	probe := Operation{Op: "copy", From: pointer, Path: "/description"}
	_, err := probe.try(document)
	return err == nil
}

// maxListed bounds how much of a definition a refusal tells.
const maxListed = 40

// inventory lists what is where a pointer begins: nodes and schedules by id, edges by their ends.
func inventory(document json.RawMessage, pointer string) string {
	var d struct {
		Nodes     []struct{ ID string }       `json:"nodes"`
		Edges     []struct{ From, To string } `json:"edges"`
		Schedules []struct{ ID string }       `json:"schedules"`
	}
	if json.Unmarshal(document, &d) != nil {
		return ""
	}
	first, _, _ := strings.Cut(strings.TrimPrefix(pointer, "/"), "/")
	var names []string
	switch first {
	case "nodes":
		for _, n := range d.Nodes {
			names = append(names, n.ID)
		}
	case "edges":
		for _, e := range d.Edges {
			names = append(names, e.From+" → "+e.To)
		}
	case "schedules":
		for _, s := range d.Schedules {
			names = append(names, s.ID)
		}
	default:
		return ""
	}
	if len(names) == 0 {
		return "; there are no " + first
	}
	var b strings.Builder
	for i, name := range names {
		if i == maxListed {
			fmt.Fprintf(&b, " and %d more", len(names)-i)
			break
		}
		if i > 0 {
			b.WriteString(", ")
		}
		fmt.Fprintf(&b, "%d %s", i, clip(name))
	}
	return "; the " + first + " are: " + b.String()
}
