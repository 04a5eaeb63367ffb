package pipeline

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/schema"
	"github.com/turnstone-run/turnstone/internal/strictjson"
	"github.com/turnstone-run/turnstone/internal/tool"
)

// composite is a tool that runs a pipeline whose literals are its arguments.
type composite struct {
	execute     *execute
	recipe      *recipe
	name        string
	description string
}

var (
	_ agent.EffectFree = (*composite)(nil)
	_ agent.Summarizer = (*composite)(nil)
)

// recipe is a version of a composite, read.
type recipe struct {
	pipeline    document
	parameters  parameters
	schema      json.RawMessage
	description string
	reads       bool // some parameter is a dataset's reference
}

// readRecipe reads what is stored: every parameter of the pipeline must be described.
func readRecipe(c *agent.Composite) (*recipe, error) {
	r := &recipe{schema: c.Parameters, description: c.Description}
	var err error
	if r.pipeline, err = decodeDocument(c.Pipeline); err != nil {
		return nil, fmt.Errorf("decode pipeline: %w", err)
	}
	if err := json.Unmarshal(c.Parameters, &r.parameters); err != nil {
		return nil, fmt.Errorf("decode parameters: %w", err)
	}
	literals, err := r.pipeline.literals()
	if err != nil {
		return nil, fmt.Errorf("read pipeline: %w", err)
	}
	for _, l := range literals {
		if l.kind != literalParameter {
			continue
		}
		if name := parameterOf(l.value); r.parameters.Properties[name] == nil {
			return nil, fmt.Errorf("the pipeline has a parameter %q that is not described", name)
		}
	}
	r.reads = !r.pipeline.hasOwnRows()
	for i := range r.pipeline {
		r.reads = r.reads || r.pipeline.stepName(i) == "join"
	}
	return r, nil
}

func (t *composite) Spec() agent.ToolSpec {
	return agent.ToolSpec{
		Name: t.name, Description: t.description, Parameters: slices.Clone(t.recipe.schema), Strict: true, ReadsDatasets: t.recipe.reads,
	}
}

// EffectFree is true: pipelines that post are not promoted.
func (*composite) EffectFree(json.RawMessage) bool { return true }

// Summarize returns the number of steps.
func (t *composite) Summarize(json.RawMessage) string { return stepCount(len(t.recipe.pipeline)) }

// Call fills the pipeline with the arguments and runs it as execute_pipeline does. The answer is that of execute_pipeline with the
// composite's name.
func (t *composite) Call(ctx context.Context, inv agent.Invocation, call agent.ToolCall) (agent.ToolResult, error) {
	if err := ctx.Err(); err != nil {
		return agent.ToolResult{}, contextError(ctx)
	}
	args, err := t.recipe.fill(call.Args, inv.SessionID, t.execute.checker)
	if err != nil {
		res, err := failedResult(err, nil)
		return t.sign(res, err)
	}
	maxBytes := inv.InlineBytes
	if maxBytes <= 0 {
		maxBytes = defaultInline
	}
	inv.InlineBytes = max(1, maxBytes-len(t.signature()))
	return t.sign(t.execute.Call(ctx, inv, agent.ToolCall{ID: call.ID, Name: ToolName, Args: args}))
}

// signature returns what the composite adds to an answer: its name.
func (t *composite) signature() string { return `,"composite":` + strconv.Quote(t.name) + `}` }

// sign adds the composite's name to an answer, and to its failure.
func (t *composite) sign(res agent.ToolResult, err error) (agent.ToolResult, error) {
	if err != nil {
		return res, err
	}
	if res.Failure != nil {
		f := *res.Failure
		f.Tool = t.name
		var out struct {
			Error *agent.Failure  `json:"error"`
			Steps json.RawMessage `json:"steps"`
		}
		if err := json.Unmarshal(res.Output, &out); err != nil {
			return agent.ToolResult{}, agent.Errorf(agent.CodeInternal, "call "+t.name, "read the failure: %w", err)
		}
		out.Error = &f
		raw, err := tool.EncodeJSON(out)
		if err != nil {
			return agent.ToolResult{}, agent.Errorf(agent.CodeInternal, "call "+t.name, "encode the failure: %w", err)
		}
		res.Output, res.Failure = raw, &f
	}
	res.Output = slices.Concat(bytes.TrimSuffix(res.Output, []byte("}")), []byte(t.signature()))
	return res, nil
}

// fill returns the arguments of execute_pipeline for those of the composite. The error is a fault of an argument.
func (r *recipe) fill(raw json.RawMessage, session agent.SessionID, checker *schema.Checker) (json.RawMessage, error) {
	args, err := r.read(raw, checker)
	if err != nil {
		return nil, nameField(err)
	}
	steps, err := r.pipeline.each(func(l *literal) json.RawMessage {
		if l.kind == literalParameter {
			return args[parameterOf(l.value)]
		}
		return l.value
	})
	if err != nil {
		return nil, fmt.Errorf("fill pipeline: %w", err)
	}
	call := map[string]any{"session_id": session, "pipeline": steps}
	if !r.pipeline.hasOwnRows() {
		call[inputRef] = args[inputRef]
	}
	return tool.EncodeJSON(call)
}

// read checks arguments and puts defaults in the place of those that are not given; null is not given, because models in strict mode fill
// in every argument that way.
func (r *recipe) read(raw json.RawMessage, checker *schema.Checker) (map[string]json.RawMessage, error) {
	if len(raw) > MaxArgs {
		return nil, faultf(agent.CodeOverflow, "", "the arguments are %d bytes, at most %d", len(raw), MaxArgs)
	}
	var args map[string]json.RawMessage
	if err := strictjson.Decode(raw, &args); err != nil {
		return nil, faultOf(err, "")
	}
	if args == nil {
		return nil, invalid("", "want an object, got null")
	}
	maps.DeleteFunc(args, func(_ string, v json.RawMessage) bool { return string(v) == "null" })
	given, err := tool.EncodeJSON(args)
	if err != nil {
		return nil, err
	}
	if err := checker.Check("", r.schema, given); err != nil {
		return nil, faultOf(err, "")
	}
	for name, p := range r.parameters.Properties {
		if args[name] == nil {
			args[name] = p.Default
		}
	}
	return args, nil
}
