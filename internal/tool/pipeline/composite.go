package pipeline

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/schema"
	"github.com/turnstone-run/turnstone/internal/strictjson"
	"github.com/turnstone-run/turnstone/internal/tool"
)

// composite is a tool that runs a pipeline with its arguments as literals.
type composite struct {
	execute     *executeTool
	recipe      *recipe
	name        string
	description string
}

var (
	_ agent.EffectFree = (*composite)(nil)
	_ agent.Summarizer = (*composite)(nil)
)

// recipe is a decoded version of a composite.
type recipe struct {
	pipeline      document
	parameters    parameters
	schema        json.RawMessage
	description   string
	readsDatasets bool // some parameter is the reference of a dataset
}

// readRecipe decodes a stored composite. Every parameter of its pipeline must have a description.
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
		if name := parameterName(l.value); r.parameters.Properties[name] == nil {
			return nil, fmt.Errorf("the pipeline has a parameter %q that is not described", name)
		}
	}
	r.readsDatasets = !r.pipeline.hasSource()
	for i := range r.pipeline {
		r.readsDatasets = r.readsDatasets || r.pipeline.stepName(i) == "join"
	}
	return r, nil
}

func (t *composite) Spec() agent.ToolSpec {
	return agent.ToolSpec{
		Name: t.name, Description: t.description, Parameters: slices.Clone(t.recipe.schema), Strict: true, ReadsDatasets: t.recipe.readsDatasets,
	}
}

// EffectFree returns true: pipelines that post are not promoted.
func (*composite) EffectFree(json.RawMessage) bool { return true }

// Summarize returns the number of steps.
func (t *composite) Summarize(json.RawMessage) string {
	return quantity(len(t.recipe.pipeline), "step")
}

// Call fills the pipeline with the arguments and runs it as execute_pipeline does. The output also has the composite's name.
func (t *composite) Call(ctx context.Context, inv agent.Invocation, call agent.ToolCall) (agent.ToolResult, error) {
	if ctx.Err() != nil {
		return agent.ToolResult{}, contextError(ctx)
	}
	args, err := t.recipe.executeArguments(call.Args, inv.SessionID, t.execute.checker)
	if err != nil {
		return (&run{composite: t.name}).failedResult(err)
	}
	return t.execute.execute(ctx, inv, args, t.name)
}

// executeArguments returns the arguments of execute_pipeline that do what the composite does with its arguments. The error is a fault of an
// argument.
func (r *recipe) executeArguments(raw json.RawMessage, session agent.SessionID, checker *schema.Checker) (json.RawMessage, error) {
	args, err := r.parseArguments(raw, checker)
	if err != nil {
		return nil, prefixField(err)
	}
	steps, err := r.pipeline.mapLiterals(func(l *literal) json.RawMessage {
		if l.kind == literalParameter {
			return args[parameterName(l.value)]
		}
		return l.value
	})
	if err != nil {
		return nil, fmt.Errorf("fill pipeline: %w", err)
	}
	call := map[string]any{"session_id": session, "pipeline": steps}
	if !r.pipeline.hasSource() {
		call[inputRef] = args[inputRef]
	}
	return tool.EncodeJSON(call)
}

// parseArguments checks the arguments and sets the defaults of missing ones. Null counts as missing, because models in strict mode send
// every argument.
func (r *recipe) parseArguments(raw json.RawMessage, checker *schema.Checker) (map[string]json.RawMessage, error) {
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
