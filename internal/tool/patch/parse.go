package patch

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/clip"
	"github.com/turnstone-run/turnstone/internal/tool"
)

// maxArgs is the maximum size of the arguments in bytes.
const maxArgs = 512 << 10

// arguments are the decoded arguments of a call.
type arguments struct {
	tag         string // empty: the tag of the turn's job
	owner       string // empty: the owner of the job's workflow
	description string
	operations  []operation
}

// operation is an operation of a JSON Patch; the schema allows add, remove and replace.
type operation struct {
	Op    string          `json:"op"`
	Path  string          `json:"path"`
	Value json.RawMessage `json:"value,omitempty"`
}

// rawArguments are the arguments as they are sent. Strict schemas send null for an absent member.
type rawArguments struct {
	Tag   string `json:"workflow_tag"`
	Owner string `json:"workflow_owner"`
	Spec  *struct {
		Operations  []rawOperation `json:"operations"`
		Description string         `json:"description"`
	} `json:"patch_spec"`
}

// rawOperation is an operation as it is sent. RFC 6902 says that unknown members are ignored.
type rawOperation struct {
	Op    string          `json:"op"`
	Path  *string         `json:"path"`
	Value json.RawMessage `json:"value"`

	Ignored map[string]json.RawMessage `json:",embed"`
}

// parseArguments decodes arguments strictly, except for unknown members of operations. Its error is [agent.CodeInvalid] or [agent.CodeOverflow] with
// a Field.
func parseArguments(args json.RawMessage) (*arguments, error) {
	var in rawArguments
	if err := tool.DecodeArguments(args, maxArgs, &in); err != nil {
		if e, ok := errors.AsType[*agent.Error](err); ok {
			return nil, agent.FieldErrorf(e.Code, clip.Bytes(e.Field, maxQuoted), "%s", clip.Bytes(e.Err.Error(), maxQuoted))
		}
		return nil, err
	}
	switch {
	case in.Spec == nil:
		return nil, agent.Invalid("patch_spec", "is required")
	case len(in.Spec.Operations) == 0:
		return nil, agent.Invalid("patch_spec.operations", "is required: what shall be changed?")
	}
	out := &arguments{tag: in.Tag, owner: in.Owner, description: in.Spec.Description}
	for i := range in.Spec.Operations {
		o, err := in.Spec.Operations[i].parse(fmt.Sprintf("patch_spec.operations[%d]", i))
		if err != nil {
			return nil, err
		}
		out.operations = append(out.operations, o)
	}
	return out, nil
}

// parse returns the operation at a path of the arguments.
func (o *rawOperation) parse(path string) (operation, error) {
	kinds := []string{"add", "remove", "replace"}
	switch {
	case !slices.Contains(kinds, o.Op):
		return operation{}, agent.Invalid(path+".op", "want one of %s", strings.Join(kinds, ", "))
	case o.Path == nil:
		return operation{}, agent.Invalid(path+".path", "is required")
	case o.Op == "remove":
		return operation{Op: o.Op, Path: *o.Path}, nil
	case o.Value == nil:
		return operation{}, agent.Invalid(path+".value", "is required for %s", o.Op)
	default:
		return operation{Op: o.Op, Path: *o.Path, Value: o.Value}, nil
	}
}

// maxQuoted is the maximum number of bytes of the model's text that an error or a result repeats.
const maxQuoted = 200
