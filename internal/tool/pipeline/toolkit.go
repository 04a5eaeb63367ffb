package pipeline

import (
	"cmp"
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

// The names of the toolkit and its tool in the catalog.
const (
	ToolkitName = "pipeline"
	ToolName    = "execute_pipeline"
)

// The bounds of one call. [Config] may lower those of rows and bytes.
const (
	MaxArgs         = 256 << 10 // bytes of arguments
	MaxSteps        = 50
	DefaultMaxRows  = 1_000_000
	DefaultMaxBytes = 256 << 20 // of a response, a dataset, or the rows that a step makes
)

// DefaultCacheTTL is how long results are cached. A binding may set at most maxCacheTTL.
const (
	DefaultCacheTTL = time.Hour
	maxCacheTTL     = 7 * 24 * 3600 // seconds
)

//go:embed schema.json
var executeSchema []byte

// Config holds what the toolkit needs.
type Config struct {
	HTTP     tool.HTTP     // nil: http_request fails with "denied"
	Auth     tool.Auth     // nil: requests carry no credentials
	Datasets tool.Datasets // nil: input_ref and join fail with "not available"
	Blobs    tool.Blobs    // stores the results; nil: results of any size are in the output
	Results  tool.Results  // nil: nothing is cached
	Logger   *zap.Logger   // nil: nothing is logged

	MaxRows  int           // of a response, a dataset, or a step's result; 0: 1,000,000
	MaxBytes int64         // of a response, a dataset, or a step's result; 0: 256 MiB
	CacheTTL time.Duration // 0: an hour; negative: nothing is cached

	// Composites stores the composites. PromoteAfter is the number of uses after which a shape becomes a composite; 0: uses are not
	// counted, and there are no composites.
	Composites   tool.Composites
	PromoteAfter int
}

// Factory returns the factory of the toolkit. The runtime's dependencies replace those in cfg.
func Factory(cfg Config) tool.Factory {
	needs := []tool.Need{tool.NeedHTTP, tool.NeedAuth, tool.NeedBlobs, tool.NeedDatasets, tool.NeedResults}
	if cfg.PromoteAfter > 0 {
		needs = append(needs, tool.NeedComposites)
	}
	return tool.Factory{
		Name:  ToolkitName,
		Needs: needs,
		New: func(d tool.Dependencies) (agent.Toolkit, error) {
			c := cfg
			c.HTTP, c.Auth, c.Blobs, c.Datasets, c.Results, c.Logger = d.HTTP, d.Auth, d.Blobs, d.Datasets, d.Results, d.Logger
			c.Composites = d.Composites
			return New(c), nil
		},
	}
}

// toolkit has the tool execute_pipeline and the composites of each tenant.
type toolkit struct {
	tool       *executeTool
	composites *composites // nil: pipelines are not promoted
}

var (
	_ agent.Configurable   = (*toolkit)(nil)
	_ agent.DynamicToolkit = (*toolkit)(nil)
)

// New returns the toolkit.
func New(cfg Config) agent.Toolkit {
	if cfg.MaxRows <= 0 {
		cfg.MaxRows = DefaultMaxRows
	}
	if cfg.MaxBytes <= 0 {
		cfg.MaxBytes = DefaultMaxBytes
	}
	cfg.CacheTTL = cmp.Or(cfg.CacheTTL, DefaultCacheTTL)
	cfg.Logger = cmp.Or(cfg.Logger, zap.NewNop())
	k := &toolkit{tool: &executeTool{cfg: cfg, checker: schema.New()}}
	if cfg.Composites != nil && cfg.PromoteAfter > 0 {
		lists := newListings(cfg.Composites)
		k.tool.promoter = &promoter{store: cfg.Composites, minUses: int64(cfg.PromoteAfter), lists: lists, logger: cfg.Logger}
		k.composites = newComposites(cfg.Composites, lists, k.tool)
	}
	return k
}

func (k *toolkit) Name() string        { return ToolkitName }
func (k *toolkit) Tools() []agent.Tool { return []agent.Tool{k.tool} }

// List returns the composites that the tenant has switched on, by name.
func (k *toolkit) List(ctx context.Context, scope agent.ToolScope) ([]agent.ListedTool, error) {
	if k.composites == nil {
		return nil, nil
	}
	return k.composites.list(ctx, scope.Tenant)
}

// Find returns the version of a composite that a turn was given, even if the composite has changed since.
func (k *toolkit) Find(ctx context.Context, scope agent.ToolScope, name, handle string) (agent.Tool, error) {
	if k.composites == nil {
		return nil, agent.Errorf(agent.CodeNotFound, "find tool", "pipelines are not promoted here: there is no tool %q", name)
	}
	return k.composites.find(ctx, scope.Tenant, name, handle)
}

// Properties returns the JSON Schema of a binding's parameters.
func (*toolkit) Properties() json.RawMessage {
	return fmt.Appendf(nil, `{"type":"object","additionalProperties":false,"properties":{"max_rows":{"type":"integer","minimum":1,"maximum":%d,`+
		`"default":%[1]d,"description":"Most rows of a response or dataset; the process may allow fewer"},`+
		`"cache_ttl_sec":{"type":"integer","minimum":0,"maximum":%d,`+
		`"description":"How long an equal pipeline is answered out of the cache; 0: never; the process may allow less"}}}`, DefaultMaxRows, maxCacheTTL)
}
