package patch

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

// parseArguments decodes arguments strictly, but ignores unknown members of operations, as RFC 6902 demands. Its error is [agent.CodeInvalid] or
// [agent.CodeOverflow] with a Field.
func parseArguments(args json.RawMessage) (*arguments, error) {
	if len(args) > maxArgs {
		return nil, agent.FieldErrorf(agent.CodeOverflow, "", "the arguments are %d bytes, at most %d", len(args), maxArgs)
	}
	var in struct {
		Tag   *string `json:"workflow_tag"`
		Owner *string `json:"workflow_owner"` // strict schemas send null for an absent member
		Spec  *struct {
			Operations []struct {
				Op    *string         `json:"op"`
				Path  *string         `json:"path"`
				Value json.RawMessage `json:"value"`

				Ignored map[string]json.RawMessage `json:",embed"`
			} `json:"operations"`
			Description *string `json:"description"`
		} `json:"patch_spec"`
	}
	if err := strictjson.Decode(args, &in); err != nil {
		if e, ok := errors.AsType[*agent.Error](err); ok {
			return nil, agent.Invalid(clip.Bytes(e.Field, maxQuoted), "%s", clip.Bytes(e.Err.Error(), maxQuoted))
		}
		return nil, err
	}
	switch {
	case in.Spec == nil:
		return nil, agent.Invalid("patch_spec", "is required")
	case len(in.Spec.Operations) == 0:
		return nil, agent.Invalid("patch_spec.operations", "is required: what shall be changed?")
	}
	out := &arguments{}
	if in.Tag != nil {
		out.tag = *in.Tag
	}
	if in.Owner != nil {
		out.owner = *in.Owner
	}
	if in.Spec.Description != nil {
		out.description = *in.Spec.Description
	}
	kinds := []string{"add", "remove", "replace"}
	for i, op := range in.Spec.Operations {
		at := fmt.Sprintf("patch_spec.operations[%d]", i)
		switch {
		case op.Op == nil || !slices.Contains(kinds, *op.Op):
			return nil, agent.Invalid(at+".op", "want one of %s", strings.Join(kinds, ", "))
		case op.Path == nil:
			return nil, agent.Invalid(at+".path", "is required")
		case *op.Op != "remove" && op.Value == nil:
			return nil, agent.Invalid(at+".value", "is required for %s", *op.Op)
		}
		o := operation{Op: *op.Op, Path: *op.Path}
		if o.Op != "remove" {
			o.Value = op.Value
		}
		out.operations = append(out.operations, o)
	}
	return out, nil
}

// maxQuoted is the maximum number of bytes of the model's text that an error or a result repeats.
const maxQuoted = 200
