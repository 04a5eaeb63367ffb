package openapi

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"time"

	"go.uber.org/zap"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/tool"
)

// The names of the toolkit and its tool in the catalog.
const (
	ToolkitName = "openapi"
	ToolName    = "openapi_action"
)

// The bounds of one call, and the defaults of [Config].
const (
	MaxArgs          = 1 << 20  // bytes of arguments
	DefaultCache     = 64 << 20 // bytes of the documents' text; decoded documents are several times as large
	DefaultResponse  = 8 << 20  // bytes
	MaxResponse      = 32 << 20 // bytes
	DefaultFreshness = 5 * time.Minute
)

//go:embed schema.json
var schema []byte

// Config holds what the toolkit needs.
type Config struct {
	HTTP   tool.HTTP   // nil: every call fails with "denied"
	Auth   tool.Auth   // nil: requests carry no credentials
	Logger *zap.Logger // nil: nothing is logged

	CacheBytes  int64         // of cached documents; 0: 64 MiB
	MaxResponse int64         // bytes of a response, which a binding may lower; 0: 8 MiB, at most 32 MiB
	Freshness   time.Duration // of a document without cache headers; 0: 5 minutes

	now func() time.Time
}

// Factory returns the factory of the toolkit. The runtime's dependencies replace those in cfg.
func Factory(cfg Config) tool.Factory {
	return tool.Factory{
		Name:  ToolkitName,
		Needs: []tool.Need{tool.NeedHTTP, tool.NeedAuth},
		New: func(d tool.Dependencies) (agent.Toolkit, error) {
			c := cfg
			c.HTTP, c.Auth, c.Logger = d.HTTP, d.Auth, d.Logger
			return New(c), nil
		},
	}
}

type toolkit struct{ tool *action }

var _ agent.Configurable = (*toolkit)(nil)

// New returns the toolkit.
func New(cfg Config) agent.Toolkit {
	if cfg.CacheBytes <= 0 {
		cfg.CacheBytes = DefaultCache
	}
	if cfg.MaxResponse <= 0 {
		cfg.MaxResponse = DefaultResponse
	}
	cfg.MaxResponse = min(cfg.MaxResponse, MaxResponse)
	if cfg.Freshness <= 0 {
		cfg.Freshness = DefaultFreshness
	}
	if cfg.Logger == nil {
		cfg.Logger = zap.NewNop()
	}
	if cfg.now == nil {
		cfg.now = time.Now
	}
	return &toolkit{tool: &action{cfg: cfg, documents: newDocuments(cfg)}}
}

func (k *toolkit) Name() string        { return ToolkitName }
func (k *toolkit) Tools() []agent.Tool { return []agent.Tool{k.tool} }

// Properties returns the JSON Schema of a binding's parameters.
func (*toolkit) Properties() json.RawMessage {
	return fmt.Appendf(nil, `{"type":"object","additionalProperties":false,"properties":{`+
		`"documents":{"type":"object","maxProperties":%d,"description":"OpenAPI documents by name; a model asks for them as catalog:<name>",`+
		`"additionalProperties":{"type":"object","additionalProperties":false,"minProperties":1,"maxProperties":1,"properties":{`+
		`"url":{"type":"string","description":"http or https URL of the document"},`+
		`"ref":{"type":"string","pattern":"^cas://","description":"Stored content"},`+
		`"document":{"type":"object","description":"The document itself"}}}},`+
		`"allow_hosts":{"type":"array","maxItems":%d,"items":{"type":"string"},"description":"Hosts that operations may be sent to: host, *.host, `+
		`either with :port; empty: any that the egress rules allow"},`+
		`"servers":{"type":"object","maxProperties":%[1]d,"description":"The server to ask, by the name or URL of a document",`+
		`"additionalProperties":{"type":"object","additionalProperties":false,"properties":{`+
		`"url":{"type":"string","description":"In place of the document's first server"},`+
		`"variables":{"type":"object","additionalProperties":{"type":"string"},"description":"Values of the variables in its address"}}}},`+
		`"validate":{"type":"object","additionalProperties":false,"properties":{`+
		`"request":{"type":"boolean","default":true,"description":"Refuse parameters that break the document's schemas"},`+
		`"response":{"type":"boolean","default":true,"description":"Warn of answers that are not as the document promises"}}},`+
		`"max_response_bytes":{"type":"integer","minimum":1,"maximum":%d,"description":"Longest answer; the process may allow less"}}}`,
		maxNamed, maxHosts, MaxResponse)
}
