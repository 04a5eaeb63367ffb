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
	switch {
	case o.Op == "test":
		return document, o.holds(document)
	case o.Path == "":
		return o.Value, nil
	case o.Op == "move", o.Op == "copy":
		return o.transfer(document)
	case o.Op == "add":
		if why := room(document, o.Path); why != "" {
			return nil, o.misses(document, why)
		}
	default:
		if _, why := lookup(document, o.Path); why != "" {
			return nil, o.misses(document, why)
		}
	}
	out, err := o.try(document)
	if err != nil {
		return nil, o.misses(document, nowhere(clip(err.Error())))
	}
	return out, nil
}

// holds makes a test. What is not there is a test that fails, whatever value it names.
func (o *Operation) holds(document json.RawMessage) error {
	value, why := lookup(document, o.Path)
	switch {
	case why != "":
		return agent.FieldErrorf(agent.CodeConflict, "", "test %s: %s%s", clip(o.Path), why, inventory(document, o.Path))
	case !same(value, o.Value):
		return agent.FieldErrorf(agent.CodeConflict, "", "test %s: the value there is another one", clip(o.Path))
	default:
		return nil
	}
}

// transfer copies or moves, which is to add what was found, and was removed before (RFC 6902 §4.4, §4.5).
func (o *Operation) transfer(document json.RawMessage) (json.RawMessage, error) {
	value, why := lookup(document, o.From)
	if why != "" {
		return nil, agent.Invalid(".from", "%s from %s to %s does not apply: %s%s", o.Op, clip(o.From), clip(o.Path), why, inventory(document, o.From))
	}
	left := document
	if o.Op == "move" {
		var err error
		if left, err = (&Operation{Op: "remove", Path: o.From}).apply(document); err != nil {
			return nil, err
		}
	}
	if why := room(left, o.Path); why != "" {
		return nil, o.misses(left, why)
	}
	return (&Operation{Op: "add", Path: o.Path, Value: value}).apply(left)
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
func (o *Operation) misses(document json.RawMessage, why nowhere) error {
	return agent.Invalid(".path", "%s %s does not apply: %s%s", o.Op, clip(o.Path), why, inventory(document, o.Path))
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
