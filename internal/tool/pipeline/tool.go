package pipeline

import (
	"context"
	"encoding/json"
	"slices"
	"strconv"
	"time"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/schema"
	"github.com/turnstone-run/turnstone/internal/strictjson"
)

var (
	_ agent.EffectFree = (*executeTool)(nil)
	_ agent.Summarizer = (*executeTool)(nil)
)

// executeTool is the tool execute_pipeline.
type executeTool struct {
	cfg      Config
	promoter *promoter       // nil: uses are not counted
	checker  *schema.Checker // checks the arguments of composites
}

func (t *executeTool) Spec() agent.ToolSpec {
	return agent.ToolSpec{
		Name:        ToolName,
		Description: "Execute ephemeral data pipeline using composable primitives",
		Parameters:  slices.Clone(json.RawMessage(executeSchema)),
		Strict:      true, ReadsDatasets: true,
	}
}

// EffectFree reports whether no step posts. Arguments that Call refuses have no effects.
func (t *executeTool) EffectFree(args json.RawMessage) bool {
	p, err := parse(args)
	if err != nil {
		return true
	}
	return !p.hasEffects()
}

// Summarize returns the number of steps. It is short because the turn's history holds it twice.
func (t *executeTool) Summarize(args json.RawMessage) string {
	p, err := parse(args)
	if err != nil {
		return "invalid arguments"
	}
	return quantity(len(p.steps), "step")
}

// quantity returns a number with its noun, such as "1 row" or "2 rows".
func quantity(n int, noun string) string {
	if n != 1 {
		noun += "s"
	}
	return strconv.Itoa(n) + " " + noun
}

// Call runs the pipeline. The package comment says what is a failed result and what an error.
func (t *executeTool) Call(ctx context.Context, inv agent.Invocation, call agent.ToolCall) (agent.ToolResult, error) {
	return t.execute(ctx, inv, call.Args, "")
}

// execute runs the pipeline in the arguments. The result names the composite that the model has called, if any.
func (t *executeTool) execute(ctx context.Context, inv agent.Invocation, args json.RawMessage, composite string) (agent.ToolResult, error) {
	if ctx.Err() != nil {
		return agent.ToolResult{}, contextError(ctx)
	}
	r := &run{inv: inv, composite: composite}
	p, err := parse(args)
	if err != nil {
		return r.failedResult(err)
	}
	if r.cfg, err = t.boundConfig(inv.Parameters); err != nil {
		return r.failedResult(err)
	}
	key := r.cacheKey(p)
	if res, ok := r.cachedResult(ctx, key); ok {
		t.promoter.recordUse(ctx, inv, p)
		return res, nil
	}
	if err := r.runSteps(ctx, p); err != nil {
		return r.failedResult(err)
	}
	res, o, err := r.result(ctx)
	if err != nil {
		return r.failedResult(err)
	}
	r.cacheResult(ctx, key, o)
	t.promoter.recordUse(ctx, inv, p)
	return res, nil
}

// boundConfig returns the configuration with the lower bounds of a binding. Unknown and malformed parameters fail the call, because
// somebody may have meant to set a bound.
func (t *executeTool) boundConfig(parameters json.RawMessage) (Config, error) {
	cfg := t.cfg
	if len(parameters) == 0 {
		return cfg, nil
	}
	var p struct {
		MaxRows  *int `json:"max_rows"`
		CacheTTL *int `json:"cache_ttl_sec"`
	}
	err := strictjson.Decode(parameters, &p)
	switch {
	case err != nil:
	case p.MaxRows != nil && (*p.MaxRows < 1 || *p.MaxRows > DefaultMaxRows):
		err = agent.Invalid("max_rows", "want 1 to %d, got %d", DefaultMaxRows, *p.MaxRows)
	case p.CacheTTL != nil && (*p.CacheTTL < 0 || *p.CacheTTL > maxCacheTTL):
		err = agent.Invalid("cache_ttl_sec", "want 0 to %d, got %d", maxCacheTTL, *p.CacheTTL)
	}
	if err != nil {
		return cfg, faultf(agent.CodeInvalid, "", "the parameters of the tool's binding: %s", err)
	}
	if p.MaxRows != nil {
		cfg.MaxRows = min(cfg.MaxRows, *p.MaxRows)
	}
	if p.CacheTTL != nil {
		cfg.CacheTTL = min(cfg.CacheTTL, time.Duration(*p.CacheTTL)*time.Second)
	}
	return cfg, nil
}
