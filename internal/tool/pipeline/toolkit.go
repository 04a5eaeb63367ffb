package pipeline

import (
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/strict"
	"github.com/turnstone-run/turnstone/internal/tool"
)

// The names under which the catalog finds us.
const (
	ToolkitName = "pipeline"
	ToolName    = "execute_pipeline"
)

// The bounds of one call; rows and bytes may be lowered by [Config].
const (
	MaxArgs         = 256 << 10 // bytes of arguments
	MaxSteps        = 50
	DefaultMaxRows  = 1_000_000
	DefaultMaxBytes = 32 << 20 // of a response or dataset
)

//go:embed schema.json
var schema []byte // seed 004 §5.1, verbatim

// HTTP sends what http_request asks for: invalid, denied and overflow end the step for good, unavailable may be tried again.
type HTTP = tool.HTTP

// Datasets opens what input_ref names. Errors are [agent.Error] values; not_found, invalid and denied become a failed result, any
// other is an error of the call.
type Datasets interface {
	Open(ctx context.Context, tenant, ref string) (io.ReadCloser, error)
}

// Config holds what the toolkit needs.
type Config struct {
	HTTP     HTTP     // nil: http_request fails with "denied"
	Datasets Datasets // nil: input_ref fails with "not available"
	MaxRows  int      // 0: 1,000,000
	MaxBytes int64    // of one response or dataset; 0: 32 MiB
}

// Factory makes the toolkit out of the runtime's dependencies, which take the place of HTTP and Datasets in cfg.
func Factory(cfg Config) tool.Factory {
	return tool.Factory{
		Name: ToolkitName, Needs: []tool.Need{tool.NeedHTTP, tool.NeedBlobs},
		New: func(d tool.Dependencies) (agent.Toolkit, error) {
			given := cfg
			given.HTTP, given.Datasets = d.HTTP, d.Blobs
			return New(given), nil
		},
	}
}

// toolkit takes parameters: a binding may lower the bound of rows.
type toolkit struct{ tool *execute }

var _ agent.Configurable = (*toolkit)(nil)

// New makes the toolkit.
func New(cfg Config) agent.Toolkit {
	if cfg.MaxRows <= 0 {
		cfg.MaxRows = DefaultMaxRows
	}
	if cfg.MaxBytes <= 0 {
		cfg.MaxBytes = DefaultMaxBytes
	}
	return &toolkit{tool: &execute{cfg: cfg}}
}

func (k *toolkit) Name() string        { return ToolkitName }
func (k *toolkit) Tools() []agent.Tool { return []agent.Tool{k.tool} }

// Properties are the parameters of a binding.
func (*toolkit) Properties() json.RawMessage {
	return fmt.Appendf(nil, `{"type":"object","additionalProperties":false,"properties":{"max_rows":{"type":"integer","minimum":1,"maximum":%d,`+
		`"default":%[1]d,"description":"Most rows of a response or dataset; the process may allow fewer"}}}`, DefaultMaxRows)
}

// The tool says of each call whether it has effects, and what it does.
var (
	_ agent.EffectFree = (*execute)(nil)
	_ agent.Summarizer = (*execute)(nil)
)

// execute is the tool execute_pipeline.
type execute struct{ cfg Config }

func (t *execute) Spec() agent.ToolSpec {
	return agent.ToolSpec{
		Name:        ToolName,
		Description: "Execute ephemeral data pipeline using composable primitives",
		Parameters:  append(json.RawMessage(nil), schema...),
		Strict:      true,
	}
}

// EffectFree is true unless a step posts. It reads the arguments exactly as Call does, so the two cannot disagree: arguments that
// Call refuses have no effects.
func (t *execute) EffectFree(args json.RawMessage) bool {
	p, err := parse(args)
	if err != nil {
		return true
	}
	for _, s := range p.steps {
		if r, ok := s.(*httpRequest); ok && r.method == http.MethodPost {
			return false
		}
	}
	return true
}

// Summarize counts the steps: it goes into the turn's history, twice.
func (t *execute) Summarize(args json.RawMessage) string {
	p, err := parse(args)
	if err != nil {
		return "invalid arguments"
	}
	if len(p.steps) == 1 {
		return "1 step"
	}
	return strconv.Itoa(len(p.steps)) + " steps"
}

// Call runs the pipeline; see the package comment for what is a failure and what an error.
func (t *execute) Call(ctx context.Context, inv agent.Invocation, call agent.ToolCall) (agent.ToolResult, error) {
	if err := ctx.Err(); err != nil {
		return agent.ToolResult{}, ended(ctx)
	}
	p, err := parse(call.Args)
	if err != nil {
		return failed(err, nil)
	}
	cfg, err := t.bound(inv.Parameters)
	if err != nil {
		return failed(err, nil)
	}
	r := &run{cfg: cfg, inv: inv}
	if err := r.all(ctx, p); err != nil {
		return failed(err, r.done)
	}
	return r.result()
}

// bound returns the configuration as a binding lowers it; a binding never raises it. Parameters that are not as Properties say fail the
// call, because the bound that somebody meant to set is unknown.
func (t *execute) bound(parameters json.RawMessage) (Config, error) {
	cfg := t.cfg
	if len(parameters) == 0 {
		return cfg, nil
	}
	var p struct {
		MaxRows *int `json:"max_rows"`
	}
	err := strict.Decode(parameters, &p)
	if err == nil && p.MaxRows != nil {
		if *p.MaxRows < 1 || *p.MaxRows > DefaultMaxRows {
			err = agent.Invalid("max_rows", "want 1 to %d, got %d", DefaultMaxRows, *p.MaxRows)
		} else {
			cfg.MaxRows = min(cfg.MaxRows, *p.MaxRows)
		}
	}
	if err != nil {
		return cfg, faultf(agent.CodeInvalid, "", "the parameters of the tool's binding: %s", err)
	}
	return cfg, nil
}
