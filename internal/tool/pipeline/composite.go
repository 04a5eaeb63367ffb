package pipeline

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/clip"
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
	args, err := t.recipe.fill(call.Args, inv.SessionID)
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
func (r *recipe) fill(raw json.RawMessage, session agent.SessionID) (json.RawMessage, error) {
	args, err := r.read(raw)
	if err != nil {
		return nil, err
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
func (r *recipe) read(raw json.RawMessage) (map[string]json.RawMessage, error) {
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
	for _, name := range sortedKeys(args) {
		switch p := r.parameters.Properties[name]; {
		case string(args[name]) == "null":
			delete(args, name)
		case p == nil:
			return nil, invalid(clip.Bytes(name, maxQuote), "there is no such parameter: want %s", r.names())
		default:
			if err := p.check(name, args[name]); err != nil {
				return nil, err
			}
		}
	}
	for _, name := range sortedKeys(r.parameters.Properties) {
		switch p := r.parameters.Properties[name]; {
		case args[name] != nil:
		case p.Default != nil && !slices.Contains(r.parameters.Required, name):
			args[name] = p.Default
		default:
			return nil, invalid(name, "is required")
		}
	}
	return args, nil
}

func (r *recipe) names() string {
	if len(r.parameters.Properties) == 0 {
		return "none"
	}
	return strings.Join(sortedKeys(r.parameters.Properties), ", ")
}

// check compares an argument with its schema.
func (p *property) check(name string, raw json.RawMessage) error {
	switch kind := describe(raw); p.Type {
	case "string", "boolean", "array":
		want := map[string]string{"string": "a string", "boolean": "a boolean", "array": "an array"}[p.Type]
		if kind != want {
			return invalid(name, "want %s, got %s", want, kind)
		}
		if p.Type == "array" {
			return p.checkItems(name, raw)
		}
		return nil
	case "number", "integer":
		if kind != "a number" {
			return invalid(name, "want %s, got %s", p.Type, kind)
		}
		return p.checkNumber(name, raw)
	default:
		return fmt.Errorf("parameter %q has the type %q", name, p.Type)
	}
}

func (p *property) checkItems(name string, raw json.RawMessage) error {
	list, err := listOf(raw, maxIn)
	if err != nil {
		return invalid(name, "%s", err)
	}
	if p.MinItems != nil && len(list) < *p.MinItems {
		return invalid(name, "want at least %d, got %d", *p.MinItems, len(list))
	}
	for i, v := range list {
		if p.Items == nil {
			continue
		}
		if err := p.Items.check(elementName(name, i), v); err != nil {
			return err
		}
	}
	return nil
}

func (p *property) checkNumber(name string, raw json.RawMessage) error {
	n, err := strconv.ParseFloat(string(raw), 64)
	switch {
	case p.Type == "integer" && (err != nil || n != math.Trunc(n)):
		return invalid(name, "want a whole number, got %s", clip.Bytes(string(raw), maxQuote))
	case p.Minimum != nil && n < float64(*p.Minimum):
		return invalid(name, "want at least %d, got %s", *p.Minimum, clip.Bytes(string(raw), maxQuote))
	default:
		return nil
	}
}
