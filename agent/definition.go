package agent

import "encoding/json"

// NodeType says what a node is.
type NodeType string

// The node types.
const (
	NodeAgent   NodeType = "agent"
	NodeTool    NodeType = "tool"
	NodeToolkit NodeType = "toolkit"
)

// NodeDefinition is a versioned type of agent, tool or toolkit. Its Properties define the parameters of an [AgentInstance] or a [ToolBinding], with
// their defaults.
type NodeDefinition struct {
	Kind        Kind              `json:"kind"`
	NodeID      string            `json:"node_id"`
	Version     string            `json:"version"`
	Type        NodeType          `json:"type"`
	Description string            `json:"description,omitempty"`
	Labels      map[string]string `json:"labels,omitempty"`
	Properties  json.RawMessage   `json:"properties,omitempty"` // JSON Schema of an object

	// Prompt is an agent's system prompt; {{name}} stands for a parameter. Empty: {{system_message}}.
	Prompt string `json:"prompt,omitempty"`
	// Middleware of a node is outside of the instance's own.
	Middleware []PlanMiddleware `json:"middleware,omitempty"`

	// Ask makes agents of this node ask agents: they prepare each turn (classify, reformulate, retrieve) and answer by branch.
	Ask *AskPrompts `json:"ask,omitempty"`

	// Toolkit is the toolkit that implements a tool or toolkit node; empty: the node's ID. Tool selects one of its tools for a tool node.
	Toolkit string `json:"toolkit,omitempty"`
	Tool    string `json:"tool,omitempty"`
}

// AskPrompts are the prompts of an ask agent. {{name}} stands for a parameter. Without Classify the only branch is Retrieval. Without Reformulate the
// message is the search query.
type AskPrompts struct {
	Classify       string `json:"classify,omitempty"`
	Reformulate    string `json:"reformulate,omitempty"`
	Retrieval      string `json:"retrieval"`
	Code           string `json:"code,omitempty"`
	Conversational string `json:"conversational,omitempty"`
}

// AgentInstance is a tenant's configured agent.
type AgentInstance struct {
	Kind        Kind              `json:"kind"`
	Tenant      string            `json:"tenant,omitempty"` // empty: [DefaultTenant]; [SharedTenant]: all tenants
	Name        string            `json:"name"`             // the name that callers use
	Version     string            `json:"version,omitempty"`
	Description string            `json:"description,omitempty"`
	Labels      map[string]string `json:"labels,omitempty"`
	NodeID      string            `json:"node_id"`
	NodeVersion string            `json:"node_version"`
	Parameters  json.RawMessage   `json:"parameters,omitempty"` // must satisfy the node's Properties
	// Models are profiles, the default first. Empty: all profiles of the configuration.
	Models       []string         `json:"models,omitempty"`
	Tools        []ToolGrant      `json:"tools,omitempty"`
	Middleware   []PlanMiddleware `json:"middleware,omitempty"`
	Limits       Limits           `json:"limits,omitzero"`
	RateLimits   RateLimits       `json:"rate_limits,omitzero"`
	OutputSchema json.RawMessage  `json:"output_schema,omitempty"`
	Knowledge    []string         `json:"knowledge,omitempty"` // collections
	Delegates    []string         `json:"delegates,omitempty"` // agents that it may delegate to, without cycles
	Mode         Mode             `json:"mode,omitempty"`      // default for requests
	Disabled     bool             `json:"disabled,omitempty"`  // hides the agent, or a shared agent of this name from the tenant
}

// Approve says which calls of a tool need approval.
type Approve string

// The policies. With ApproveDefault a call needs approval unless the tool or the call is known to be safe.
const (
	ApproveDefault Approve = "default"
	ApproveAlways  Approve = "always"
	ApproveNever   Approve = "never"
)

// ToolGrant grants an agent the tools of a binding, or of a tool or toolkit node. A document may have just the name instead of an object.
type ToolGrant struct {
	Toolkit  string   `json:"toolkit"`
	Tools    []string `json:"tools,omitempty"`    // of these names alone; empty: all
	Approval Approve  `json:"approval,omitempty"` // empty: that of the binding
	// Deferred tools are not in the prompt. The model sees one only after search_tools has found it.
	Deferred bool `json:"deferred,omitempty"`
}

// ToolBinding is a tool or toolkit node with its parameters filled in, or a set of tools that run at the caller.
type ToolBinding struct {
	Kind        Kind              `json:"kind"`
	Tenant      string            `json:"tenant,omitempty"`
	Name        string            `json:"name"`
	Description string            `json:"description,omitempty"`
	Labels      map[string]string `json:"labels,omitempty"`
	NodeID      string            `json:"node_id"`
	NodeVersion string            `json:"node_version"`
	Parameters  json.RawMessage   `json:"parameters,omitempty"`
	Tools       []string          `json:"tools,omitempty"` // of these names alone; empty: all
	Auth        []string          `json:"auth,omitempty"`  // auth profiles that its tools may use
	Approval    Approve           `json:"approval,omitempty"`
	ClientSide  []ClientTool      `json:"client_side,omitempty"` // tools that run at the caller, instead of a node
}

// ModelProfile is a model that agents may use.
type ModelProfile struct {
	Kind        Kind              `json:"kind"`
	Tenant      string            `json:"tenant,omitempty"`
	Name        string            `json:"name"`
	Description string            `json:"description,omitempty"`
	Labels      map[string]string `json:"labels,omitempty"`
	Provider    string            `json:"provider"` // a name in docs/reference/models.md, or of a provider that the program adds
	Model       string            `json:"model"`    // the provider's name
	BaseURL     string            `json:"base_url,omitempty"`
	Auth        string            `json:"auth,omitempty"` // an auth profile of type bearer or api_key; empty: the key of the configuration
	Temperature *float64          `json:"temperature,omitempty"`
	MaxTokens   int               `json:"max_tokens,omitempty"`
	TimeoutSec  int               `json:"timeout_sec,omitempty"`
	Price       ModelPrice        `json:"price,omitzero"`
	// ContextTokens is the size of the model's context. Middleware with bounds relative to it needs it.
	ContextTokens int `json:"context_tokens,omitempty"`
}

// ModelPrice is a price in USD per million tokens. The zero value means that the price is unknown.
type ModelPrice struct {
	InputPerMTok  float64 `json:"input_per_mtok,omitempty"`
	CachedPerMTok float64 `json:"cached_per_mtok,omitempty"`
	OutputPerMTok float64 `json:"output_per_mtok,omitempty"`
	AsOf          string  `json:"as_of,omitempty"` // the date of the price: 2025-10 or 2025-10-31
}

// IsSet reports whether there is a price.
func (p ModelPrice) IsSet() bool {
	return p.InputPerMTok > 0 || p.CachedPerMTok > 0 || p.OutputPerMTok > 0
}

// AuthType is the authentication method of requests.
type AuthType string

// The types of auth profiles.
const (
	AuthBearer AuthType = "bearer"
	AuthAPIKey AuthType = "api_key"
	AuthBasic  AuthType = "basic"
	AuthOAuth2 AuthType = "oauth2_client_credentials"
)

// AuthProfile has the credentials for requests. Secret, Password and ClientSecret are references to secrets, such as env:NAME or file:/path.
type AuthProfile struct {
	Kind         Kind              `json:"kind"`
	Tenant       string            `json:"tenant,omitempty"`
	Name         string            `json:"name"`
	Description  string            `json:"description,omitempty"`
	Labels       map[string]string `json:"labels,omitempty"`
	Type         AuthType          `json:"type"`
	Secret       string            `json:"secret,omitempty"`   // bearer, api_key
	Header       string            `json:"header,omitempty"`   // api_key in a header of this name
	Query        string            `json:"query,omitempty"`    // api_key in a query parameter of this name
	Username     string            `json:"username,omitempty"` // basic
	Password     string            `json:"password,omitempty"` // basic
	ClientID     string            `json:"client_id,omitempty"`
	ClientSecret string            `json:"client_secret,omitempty"`
	TokenURL     string            `json:"token_url,omitempty"` // oauth2_client_credentials, or Issuer
	// Issuer is the authorization server that may receive the client's secret. It must be named in the MCP server's metadata
	// (oauth2_client_credentials).
	Issuer string   `json:"issuer,omitempty"`
	Scopes []string `json:"scopes,omitempty"`
	Hosts  []string `json:"hosts,omitempty"` // where it may be sent: host or *.host, with or without :port; empty: only to a model's base_url
}

// RouteTable chooses an agent for requests that name none. A tenant's own tables take precedence over shared ones.
type RouteTable struct {
	Kind         Kind              `json:"kind"`
	Tenant       string            `json:"tenant,omitempty"`
	Name         string            `json:"name"`
	Description  string            `json:"description,omitempty"`
	Labels       map[string]string `json:"labels,omitempty"`
	DefaultAgent string            `json:"default_agent,omitempty"` // at most one table of a tenant may name it
	Rules        []RouteRule       `json:"rules,omitempty"`
}

// RouteRule is a rule of a [RouteTable]. The first matching rule with the highest priority decides.
type RouteRule struct {
	Name        string    `json:"name"` // unique within its table
	Description string    `json:"description,omitempty"`
	Priority    int       `json:"priority,omitempty"`
	When        RouteWhen `json:"when,omitzero"` // all conditions must hold
	Agent       string    `json:"agent"`
	Model       string    `json:"model,omitempty"` // a profile of the agent
	Disabled    bool      `json:"disabled,omitempty"`
}

// RouteWhen are the conditions of a rule. One entry of each list must match. An entry that ends in * matches a prefix.
type RouteWhen struct {
	Role       []string                   `json:"role,omitempty"`
	Page       []string                   `json:"page,omitempty"`
	Channel    []string                   `json:"channel,omitempty"`
	Tenant     []string                   `json:"tenant,omitempty"`
	Flags      map[string]json.RawMessage `json:"flags,omitempty"`      // equal values, by name
	Metadata   map[string]json.RawMessage `json:"metadata,omitempty"`   // equal values, by dotted path; of a list one value must be equal
	Expression string                     `json:"expression,omitempty"` // CEL, of type bool
}

// KnowledgeCollection is a body of text that agents may search.
type KnowledgeCollection struct {
	Kind        Kind              `json:"kind"`
	Tenant      string            `json:"tenant,omitempty"`
	Name        string            `json:"name"`
	Description string            `json:"description,omitempty"`
	Labels      map[string]string `json:"labels,omitempty"`
	Embedding   string            `json:"embedding,omitempty"` // a model profile; empty: only full-text search
	Sources     []KnowledgeSource `json:"sources,omitempty"`
	ChunkSize   int               `json:"chunk_size,omitempty"`    // characters; 0: 1,000
	Overlap     int               `json:"chunk_overlap,omitempty"` // characters
	TopK        int               `json:"top_k,omitempty"`         // passages per search; 0: 4
	MinScore    float64           `json:"min_score,omitempty"`     // 0 to 1
}

// KnowledgeSource is a source of text. Exactly one field is set.
type KnowledgeSource struct {
	URL  string `json:"url,omitempty"`
	Text string `json:"text,omitempty"`
	Ref  string `json:"ref,omitempty"` // cas:// or artifact://
}

// RateLimits bound the turns of an agent. 0 means no bound.
type RateLimits struct {
	RequestsPerMinute int   `json:"requests_per_minute"`
	TokensPerMinute   int64 `json:"tokens_per_minute"`
	ConcurrentTurns   int   `json:"concurrent_turns"`
}
