package pipeline

import (
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"time"

	"go.uber.org/zap"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/schema"
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
	DefaultMaxBytes = 256 << 20 // of a response, a dataset, or the rows that a step makes
)

// DefaultCacheTTL is how long results are remembered; maxCacheTTL is the most that a binding may say.
const (
	DefaultCacheTTL = time.Hour
	maxCacheTTL     = 7 * 24 * 3600 // seconds
)

//go:embed schema.json
var executeSchema []byte

// HTTP sends what http_request asks for: invalid, denied and overflow end the step for good, unavailable may be tried again.
type HTTP = tool.HTTP

// Config holds what the toolkit needs.
type Config struct {
	HTTP     HTTP          // nil: http_request fails with "denied"
	Auth     tool.Auth     // nil: requests carry no credentials
	Datasets tool.Datasets // nil: input_ref and join fail with "not available"
	Blobs    tool.Blobs    // takes the results; nil: they are in the output, whatever their size
	Results  tool.Results  // nil: nothing is remembered
	Logger   *zap.Logger   // nil: nothing is logged

	MaxRows  int           // of a response, a dataset, or a step's result; 0: 1,000,000
	MaxBytes int64         // of the same; 0: 256 MiB
	CacheTTL time.Duration // 0: an hour; negative: nothing is remembered

	// Composites keeps what pipelines were promoted to. PromoteAfter is how many uses of a shape make a tool of it; 0: uses are not
	// counted, and there are no composites.
	Composites   tool.Composites
	PromoteAfter int
}

// Factory makes the toolkit out of the runtime's dependencies, which take the place of those in cfg.
func Factory(cfg Config) tool.Factory {
	needs := []tool.Need{tool.NeedHTTP, tool.NeedAuth, tool.NeedBlobs, tool.NeedDatasets, tool.NeedResults}
	if cfg.PromoteAfter > 0 {
		needs = append(needs, tool.NeedComposites)
	}
	return tool.Factory{
		Name:  ToolkitName,
		Needs: needs,
		New: func(d tool.Dependencies) (agent.Toolkit, error) {
			given := cfg
			given.HTTP, given.Auth, given.Blobs, given.Datasets, given.Results, given.Logger = d.HTTP, d.Auth, d.Blobs, d.Datasets, d.Results, d.Logger
			given.Composites = d.Composites
			return New(given), nil
		},
	}
}

// toolkit takes parameters: a binding may lower the bound of rows and the time that results are remembered. Besides execute_pipeline it has
// the composites of a tenant.
type toolkit struct {
	tool       *execute
	composites *composites // nil: there are none
}

var (
	_ agent.Configurable   = (*toolkit)(nil)
	_ agent.DynamicToolkit = (*toolkit)(nil)
)

// New makes the toolkit.
func New(cfg Config) agent.Toolkit {
	if cfg.MaxRows <= 0 {
		cfg.MaxRows = DefaultMaxRows
	}
	if cfg.MaxBytes <= 0 {
		cfg.MaxBytes = DefaultMaxBytes
	}
	if cfg.CacheTTL == 0 {
		cfg.CacheTTL = DefaultCacheTTL
	}
	k := &toolkit{tool: &execute{cfg: cfg, checker: schema.New()}}
	if cfg.Composites != nil && cfg.PromoteAfter > 0 {
		lists := newListings(cfg.Composites)
		k.tool.uses = &promoter{store: cfg.Composites, after: int64(cfg.PromoteAfter), lists: lists, logger: cfg.Logger}
		k.composites = newComposites(cfg.Composites, lists, k.tool)
	}
	return k
}

func (k *toolkit) Name() string        { return ToolkitName }
func (k *toolkit) Tools() []agent.Tool { return []agent.Tool{k.tool} }

// List describes the composites that the tenant has switched on, by name.
func (k *toolkit) List(ctx context.Context, scope agent.ToolScope) ([]agent.ListedTool, error) {
	if k.composites == nil {
		return nil, nil
	}
	return k.composites.list(ctx, scope.Tenant)
}

// Find returns a composite in the version that a turn was given, whatever became of it since.
func (k *toolkit) Find(ctx context.Context, scope agent.ToolScope, name, handle string) (agent.Tool, error) {
	if k.composites == nil {
		return nil, agent.Errorf(agent.CodeNotFound, "find tool", "pipelines are not promoted here: there is no tool %q", name)
	}
	return k.composites.find(ctx, scope.Tenant, name, handle)
}

// Properties are the parameters of a binding.
func (*toolkit) Properties() json.RawMessage {
	return fmt.Appendf(nil, `{"type":"object","additionalProperties":false,"properties":{"max_rows":{"type":"integer","minimum":1,"maximum":%d,`+
		`"default":%[1]d,"description":"Most rows of a response or dataset; the process may allow fewer"},`+
		`"cache_ttl_sec":{"type":"integer","minimum":0,"maximum":%d,`+
		`"description":"How long an equal pipeline is answered out of the cache; 0: never; the process may allow less"}}}`, DefaultMaxRows, maxCacheTTL)
}
