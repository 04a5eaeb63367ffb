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

// program is a call's arguments, checked.
type program struct {
	inputRef string
	steps    []namedStep
	source   []json.RawMessage // the steps as they were given
}

// namedStep is a step with the name of its primitive.
type namedStep struct {
	step

	name string
}

// hasEffects reports whether a step has effects.
func (p *program) hasEffects() bool {
	return slices.ContainsFunc(p.steps, func(s namedStep) bool {
		r, ok := s.step.(*httpRequest)
		return ok && r.method == http.MethodPost
	})
}

// parse reads arguments strictly; its error is a *fault.
func parse(args json.RawMessage) (p *program, err error) {
	defer func() { err = nameField(err) }()
	if len(args) > MaxArgs {
		return nil, faultf("overflow", "", "the arguments are %d bytes, at most %d", len(args), MaxArgs)
	}
	var in struct {
		SessionID *string           `json:"session_id"` // context tracking is the runtime's; any string will do
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
	known := primitives()
	for i, raw := range in.Pipeline {
		s, name, err := parseStep(known, raw)
		if err != nil {
			return nil, locate(err, name, i)
		}
		if err := p.checkSource(s, i); err != nil {
			return nil, locate(err, name, i)
		}
		p.steps = append(p.steps, namedStep{s, name})
	}
	if len(p.steps) == 0 && p.inputRef == "" {
		return nil, invalid("pipeline", "has no steps")
	}
	return p, nil
}

// checkSource checks that rows have one source: the first step or input_ref.
func (p *program) checkSource(s step, position int) error {
	_, fetches := s.(*httpRequest)
	j, joins := s.(*join)
	opens := joins && j.left != ""
	switch {
	case fetches && position > 0:
		return invalid("step", "http_request must be the first step: its rows would replace those before it")
	case fetches && p.inputRef != "":
		return invalid("step", "give http_request or input_ref, not both")
	case opens && (position > 0 || p.inputRef != ""):
		return invalid("left", "there are rows already: leave left out, and they are the left side")
	case !fetches && !opens && position == 0 && p.inputRef == "":
		return invalid("step", "there are no rows yet: start with http_request or a join with left, or give input_ref")
	}
	return nil
}

// parseStep reads one step. The name is returned with an error as well, where it could be read.
func parseStep(known []primitive, raw json.RawMessage) (step, string, error) {
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(raw, &fields); err != nil || fields == nil {
		return nil, "", invalid("", "want an object, got %s", describe(raw))
	}
	var name *string
	if err := json.Unmarshal(fields["step"], &name); err != nil || name == nil {
		if _, given := fields["step"]; !given {
			return nil, "", invalid("step", "is required")
		}
		return nil, "", invalid("step", "want a string, got %s", describe(fields["step"]))
	}
	i := slices.IndexFunc(known, func(k primitive) bool { return k.name == *name })
	if i < 0 {
		names := make([]string, len(known))
		for j := range known {
			names[j] = known[j].name
		}
		return nil, "", invalid("step", "unknown step %q: want one of %s", clip.Bytes(*name, maxQuote), strings.Join(names, ", "))
	}
	k := known[i]
	raw, err := takenFields(known, k, fields)
	if err != nil {
		return nil, k.name, err
	}
	s, err := k.decode(raw)
	return s, k.name, err
}

// takenFields refuses fields that the step does not take and drops those that are null: models in strict mode fill in every optional
// field of the schema that way.
func takenFields(known []primitive, k primitive, fields map[string]json.RawMessage) (json.RawMessage, error) {
	delete(fields, "step")
	for _, name := range sortedKeys(fields) {
		isTaken := func(other primitive) bool { return slices.Contains(other.takes, name) }
		if string(fields[name]) == "null" && slices.ContainsFunc(known, isTaken) {
			delete(fields, name)
			continue
		}
		if !isTaken(k) {
			return nil, invalid(clip.Bytes(name, maxQuote), "%s has no such field: it takes %s", k.name, strings.Join(k.takes, ", "))
		}
	}
	raw, err := json.Marshal(fields)
	if err != nil {
		return nil, fmt.Errorf("encode step: %w", err)
	}
	return raw, nil
}

// decodeStrictly reads a step's fields strictly.
func decodeStrictly(raw json.RawMessage, v any) error {
	if err := strictjson.Decode(raw, v); err != nil {
		return faultOf(err, "")
	}
	return nil
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

// describe names what a JSON value is.
func describe(raw json.RawMessage) string {
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

// maxQuote bounds what a message quotes of the arguments or of a response.
const maxQuote = 80
