package pipeline

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/turnstone-run/turnstone/internal/clip"
	"github.com/turnstone-run/turnstone/internal/strictjson"
)

// program is the checked arguments of a call.
type program struct {
	inputRef string
	steps    []namedStep
	source   []json.RawMessage // the steps as the model has written them
}

// namedStep is a step with the name of its primitive.
type namedStep struct {
	step

	name string
}

// hasEffects reports whether a step posts.
func (p *program) hasEffects() bool {
	return slices.ContainsFunc(p.steps, func(s namedStep) bool {
		r, ok := s.step.(*httpRequest)
		return ok && r.method == http.MethodPost
	})
}

// parse parses arguments strictly. Its error is a *fault.
func parse(args json.RawMessage) (p *program, err error) {
	defer func() { err = prefixField(err) }()
	if len(args) > MaxArgs {
		return nil, faultf("overflow", "", "the arguments are %d bytes, at most %d", len(args), MaxArgs)
	}
	var in struct {
		SessionID *string           `json:"session_id"` // required by the schema, but not used
		Pipeline  []json.RawMessage `json:"pipeline"`
		InputRef  *string           `json:"input_ref"`
	}
	if err := strictjson.Decode(args, &in); err != nil {
		return nil, faultOf(err, "")
	}
	switch {
	case in.SessionID == nil:
		return nil, invalid("session_id", "is required")
	case in.Pipeline == nil:
		return nil, invalid("pipeline", "is required")
	case len(in.Pipeline) > MaxSteps:
		return nil, faultf("overflow", "pipeline", "has %d steps, at most %d", len(in.Pipeline), MaxSteps)
	}
	p = &program{source: in.Pipeline}
	if in.InputRef != nil {
		p.inputRef = *in.InputRef
	}
	all := primitives()
	for i, raw := range in.Pipeline {
		s, name, err := parseStep(all, raw)
		if err != nil {
			return nil, withStep(err, name, i)
		}
		if err := p.checkSource(s, i); err != nil {
			return nil, withStep(err, name, i)
		}
		p.steps = append(p.steps, namedStep{s, name})
	}
	if len(p.steps) == 0 && p.inputRef == "" {
		return nil, invalid("pipeline", "has no steps")
	}
	return p, nil
}

// checkSource returns a fault unless the rows come from exactly one source: the first step or input_ref.
func (p *program) checkSource(s step, position int) error {
	_, isRequest := s.(*httpRequest)
	j, isJoin := s.(*join)
	isJoinWithLeft := isJoin && j.left != ""
	switch {
	case isRequest && position > 0:
		return invalid("step", "http_request must be the first step: its rows would replace those before it")
	case isRequest && p.inputRef != "":
		return invalid("step", "give http_request or input_ref, not both")
	case isJoinWithLeft && (position > 0 || p.inputRef != ""):
		return invalid("left", "there are rows already: leave left out, and they are the left side")
	case !isRequest && !isJoinWithLeft && position == 0 && p.inputRef == "":
		return invalid("step", "there are no rows yet: start with http_request or a join with left, or give input_ref")
	}
	return nil
}

// parseStep parses one step. It returns the step's name even with an error, if it has one.
func parseStep(all []primitive, raw json.RawMessage) (step, string, error) {
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(raw, &fields); err != nil || fields == nil {
		return nil, "", invalid("", "want an object, got %s", kindName(raw))
	}
	var name *string
	if err := json.Unmarshal(fields["step"], &name); err != nil || name == nil {
		if _, ok := fields["step"]; !ok {
			return nil, "", invalid("step", "is required")
		}
		return nil, "", invalid("step", "want a string, got %s", kindName(fields["step"]))
	}
	i := slices.IndexFunc(all, func(p primitive) bool { return p.name == *name })
	if i < 0 {
		names := make([]string, len(all))
		for j := range all {
			names[j] = all[j].name
		}
		return nil, "", invalid("step", "unknown step %q: want one of %s", clip.Bytes(*name, maxQuote), strings.Join(names, ", "))
	}
	p := all[i]
	raw, err := checkFields(all, p, fields)
	if err != nil {
		return nil, p.name, err
	}
	s, err := p.decode(raw)
	return s, p.name, err
}

// checkFields returns the fields of a step, encoded. A field that the primitive does not have is a fault. A null is removed if any primitive
// has the field, because models in strict mode send every field of the schema.
func checkFields(all []primitive, p primitive, fields map[string]json.RawMessage) (json.RawMessage, error) {
	delete(fields, "step")
	for _, name := range sortedKeys(fields) {
		hasField := func(other primitive) bool { return slices.Contains(other.fields, name) }
		if string(fields[name]) == "null" && slices.ContainsFunc(all, hasField) {
			delete(fields, name)
			continue
		}
		if !hasField(p) {
			return nil, invalid(clip.Bytes(name, maxQuote), "%s has no such field: it takes %s", p.name, strings.Join(p.fields, ", "))
		}
	}
	raw, err := json.Marshal(fields)
	if err != nil {
		return nil, fmt.Errorf("encode step: %w", err)
	}
	return raw, nil
}

// decodeFields decodes the fields of a step strictly.
func decodeFields(raw json.RawMessage, v any) error {
	if err := strictjson.Decode(raw, v); err != nil {
		return faultOf(err, "")
	}
	return nil
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

// kindName returns the name of a value's JSON type for messages.
func kindName(raw json.RawMessage) string {
	if len(raw) == 0 {
		return "nothing"
	}
	switch raw[0] {
	case '{':
		return "an object"
	case '[':
		return "an array"
	case '"':
		return "a string"
	case 't', 'f':
		return "a boolean"
	case 'n':
		return "null"
	default:
		return "a number"
	}
}

// maxQuote is the maximum number of bytes that a message quotes of the arguments or of a response.
const maxQuote = 80
