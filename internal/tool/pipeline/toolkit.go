package pipeline

import (
	"context"
	_ "embed"
	"encoding/json"
	"io"
	"net/http"
	"strconv"

	"github.com/turnstone-run/turnstone/agent"
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

// HTTP sends a request within the bounds of the egress rules (DESIGN §7). Its errors are [agent.Error] values: denied, invalid and
// overflow end the step for good, unavailable may be tried again.
type HTTP interface {
	Do(req *http.Request) (*http.Response, error)
}

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

type toolkit struct{ tool *tool }

// New makes the toolkit.
func New(cfg Config) agent.Toolkit {
	if cfg.MaxRows <= 0 {
		cfg.MaxRows = DefaultMaxRows
	}
	if cfg.MaxBytes <= 0 {
		cfg.MaxBytes = DefaultMaxBytes
	}
	return &toolkit{tool: &tool{cfg: cfg}}
}

func (k *toolkit) Name() string        { return ToolkitName }
func (k *toolkit) Tools() []agent.Tool { return []agent.Tool{k.tool} }

// The tool says of each call whether it has effects, and what it does.
var (
	_ agent.EffectFree = (*tool)(nil)
	_ agent.Summarizer = (*tool)(nil)
)

type tool struct{ cfg Config }

func (t *tool) Spec() agent.ToolSpec {
	return agent.ToolSpec{
		Name:        ToolName,
		Description: "Execute ephemeral data pipeline using composable primitives",
		Parameters:  append(json.RawMessage(nil), schema...),
		Strict:      true,
	}
}

// EffectFree is true unless a step posts. It reads the arguments exactly as Call does, so the two cannot disagree: arguments that
// Call refuses have no effects.
func (t *tool) EffectFree(args json.RawMessage) bool {
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
func (t *tool) Summarize(args json.RawMessage) string {
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
func (t *tool) Call(ctx context.Context, inv agent.Invocation, call agent.ToolCall) (agent.ToolResult, error) {
	if err := ctx.Err(); err != nil {
		return agent.ToolResult{}, ended(ctx)
	}
	p, err := parse(call.Args)
	if err != nil {
		return failed(err, nil)
	}
	r := &run{cfg: t.cfg, inv: inv}
	if err := r.all(ctx, p); err != nil {
		return failed(err, r.done)
	}
	return r.result()
}
