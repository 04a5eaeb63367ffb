package library

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/clip"
	"github.com/turnstone-run/turnstone/internal/strictjson"
)

// Bounds of a patch.
const (
	MaxPatch      = 256 << 10 // bytes
	maxOperations = 100
	maxPointer    = 1_024 // bytes
)

// Operation is one operation of a JSON Patch (RFC 6902).
type Operation struct {
	Op    string          `json:"op"`
	Path  string          `json:"path"`            // a JSON Pointer (RFC 6901)
	From  string          `json:"from,omitempty"`  // of move and copy
	Value json.RawMessage `json:"value,omitempty"` // of add, replace and test
}

// operationKinds returns the operations of RFC 6902.
func operationKinds() []string { return []string{"add", "remove", "replace", "move", "copy", "test"} }

// ParseOperations decodes and checks a patch. It ignores unknown members of an operation, as RFC 6902 §4 requires. Its error is [agent.CodeInvalid],
// or [agent.CodeOverflow] beyond a bound, with a Field such as operations[2].path.
func ParseOperations(raw json.RawMessage) ([]Operation, error) {
	const field = "operations"
	switch {
	case isNull(raw):
		return nil, agent.Invalid(field, "is required")
	case len(raw) > MaxPatch:
		return nil, agent.FieldErrorf(agent.CodeOverflow, field, "are %d bytes, at most %d", len(raw), MaxPatch)
	case isTooDeep(raw):
		return nil, agent.FieldErrorf(agent.CodeOverflow, field, "are deeper than %d", maxDepth)
	}
	var list []rawOperation
	if err := strictjson.Decode(raw, &list); err != nil {
		if e, ok := errors.AsType[*agent.Error](err); ok {
			return nil, agent.Invalid(operationsField(e.Field), "%s", clip.Bytes(e.Err.Error(), maxQuoted))
		}
		return nil, err
	}
	switch n := len(list); {
	case n == 0:
		return nil, agent.Invalid(field, "are none")
	case n > maxOperations:
		return nil, agent.FieldErrorf(agent.CodeOverflow, field, "are %d, at most %d", n, maxOperations)
	}
	out := make([]Operation, len(list))
	for i := range list {
		op, err := list[i].operation(fmt.Sprintf("%s[%d]", field, i))
		if err != nil {
			return nil, err
		}
		out[i] = op
	}
	return out, nil
}

// rawOperation is an operation as it was written.
type rawOperation struct {
	Op    *string         `json:"op"`
	Path  *string         `json:"path"`
	From  *string         `json:"from"`
	Value json.RawMessage `json:"value"`

	Ignored map[string]json.RawMessage `json:",embed"`
}

// operation checks the members and returns the operation. path is its path in the request.
func (r *rawOperation) operation(path string) (Operation, error) {
	switch {
	case r.Op == nil:
		return Operation{}, agent.Invalid(path+".op", "is required: want one of %s", strings.Join(operationKinds(), ", "))
	case r.Path == nil:
		return Operation{}, agent.Invalid(path+".path", "is required")
	}
	op := Operation{Op: *r.Op, Path: *r.Path}
	switch op.Op { // members of other operations are ignored
	case "add", "replace", "test":
		op.Value = r.Value
	case "move", "copy":
		if r.From == nil {
			return Operation{}, agent.Invalid(path+".from", "is required for %s", op.Op)
		}
		op.From = *r.From
	}
	return op, op.validate(path)
}

// operationsField converts a field of strict decoding, such as 2.path, to operations[2].path.
func operationsField(field string) string {
	if field == "" {
		return "operations"
	}
	end := strings.IndexAny(field, ".[")
	if end < 0 {
		end = len(field)
	}
	return "operations[" + field[:end] + "]" + field[end:]
}

// validate checks the members of the operation. path is its path in the request.
func (o *Operation) validate(path string) error {
	if !slices.Contains(operationKinds(), o.Op) {
		return agent.Invalid(path+".op", "want one of %s, got %q", strings.Join(operationKinds(), ", "), clip.Bytes(o.Op, maxQuoted))
	}
	if err := validatePointer(path+".path", o.Path); err != nil {
		return err
	}
	switch o.Op {
	case "add", "replace", "test":
		if o.Value == nil {
			return agent.Invalid(path+".value", "is required for %s", o.Op)
		}
		if o.Path == "" && o.Op != "test" && o.Value[0] != '{' {
			return agent.Invalid(path+".value", "want an object: it becomes the definition")
		}
	case "remove":
		if o.Path == "" {
			return agent.Invalid(path+".path", "the whole definition cannot be removed: delete the workflow")
		}
	case "move", "copy":
		if err := validatePointer(path+".from", o.From); err != nil {
			return err
		}
		switch {
		case o.Path == "":
			return agent.Invalid(path+".path", "a part cannot become the definition")
		case o.From == "":
			return agent.Invalid(path+".from", "the definition cannot become a part of itself")
		case o.Op == "move" && strings.HasPrefix(o.Path, o.From+"/"):
			return agent.Invalid(path+".path", "is within what is moved")
		}
	}
	return nil
}

// validatePointer checks the syntax of a JSON Pointer (RFC 6901).
func validatePointer(field, pointer string) error {
	unescaped := strings.NewReplacer("~0", "", "~1", "").Replace(pointer)
	switch {
	case len(pointer) > maxPointer:
		return agent.Invalid(field, "is %d bytes, at most %d", len(pointer), maxPointer)
	case pointer != "" && pointer[0] != '/':
		return agent.Invalid(field, "want a JSON Pointer such as /nodes/-, got %q", clip.Bytes(pointer, maxQuoted))
	case strings.Contains(unescaped, "~"):
		return agent.Invalid(field, "%q has a ~ that is neither ~0 nor ~1", clip.Bytes(pointer, maxQuoted))
	}
	return nil
}
