package pipeline

import (
	"context"
	"encoding/json"
	"slices"
	"strconv"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/schema"
	"github.com/turnstone-run/turnstone/internal/strictjson"
)

// The tool says of each call whether it has effects, and what it does.
var (
	_ agent.EffectFree = (*execute)(nil)
	_ agent.Summarizer = (*execute)(nil)
)

// execute is the tool execute_pipeline.
type execute struct {
	cfg  Config
	uses *promoter // nil: uses are not counted

	checker *schema.Checker // of the arguments of composites
}

func (t *execute) Spec() agent.ToolSpec {
	return agent.ToolSpec{
		Name:        ToolName,
		Description: "Execute ephemeral data pipeline using composable primitives",
		Parameters:  slices.Clone(json.RawMessage(executeSchema)),
		Strict:      true,

		ReadsDatasets: true,
	}
}

// EffectFree reports whether no step posts. It parses the arguments as Call does; arguments that Call refuses have no effects.
func (t *execute) EffectFree(args json.RawMessage) bool {
	p, err := parse(args)
	if err != nil {
		return true
	}
	return !p.hasEffects()
}

// Summarize returns the number of steps. It is short because the turn's history has it twice.
func (t *execute) Summarize(args json.RawMessage) string {
	p, err := parse(args)
	if err != nil {
		return "invalid arguments"
	}
	return stepCount(len(p.steps))
}

func stepCount(n int) string {
	if n == 1 {
		return "1 step"
	}
	return strconv.Itoa(n) + " steps"
}

// Call runs the pipeline. The package comment says what is a failed result and what an error.
func (t *execute) Call(ctx context.Context, inv agent.Invocation, call agent.ToolCall) (agent.ToolResult, error) {
	if err := ctx.Err(); err != nil {
		return agent.ToolResult{}, contextError(ctx)
	}
	p, err := parse(call.Args)
	if err != nil {
		return failedResult(err, nil)
	}
	cfg, err := t.boundConfig(inv.Parameters)
	if err != nil {
		return failedResult(err, nil)
	}
	r := &run{cfg: cfg, inv: inv}
	key := r.cacheKey(p)
	if res, ok := r.recall(ctx, key); ok {
		t.uses.recordUse(ctx, inv, p)
		return res, nil
	}
	if err := r.runSteps(ctx, p); err != nil {
		return failedResult(err, r.done)
	}
	res, o, err := r.result(ctx)
	if err != nil {
		return failedResult(err, r.done)
	}
	r.remember(ctx, key, o)
	t.uses.recordUse(ctx, inv, p)
	return res, nil
}

// boundConfig returns the configuration as a binding lowers it; a binding never raises it. Parameters that are not as Properties say fail
// the call, because the bound that somebody meant to set is unknown.
func (t *execute) boundConfig(parameters json.RawMessage) (Config, error) {
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
	cfg.CacheTTL = cacheTTL(cfg.CacheTTL, p.CacheTTL)
	return cfg, nil
}
