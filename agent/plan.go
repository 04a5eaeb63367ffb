package agent

import "encoding/json"

// PlanSchema is the version of the plan format.
const PlanSchema = "plan.v1"

// Plan is a compiled agent instance. It is immutable and stored under the hash of its canonical JSON. A turn keeps the plan that it began with
// (docs/design/design.md, "Catalog, plans and routing").
type Plan struct {
	Schema     string           `json:"schema"` // [PlanSchema]
	Tenant     string           `json:"tenant"`
	Agent      string           `json:"agent"`       // the name that callers use
	InstanceID string           `json:"instance_id"` // identifies tenant, agent and version: "analyst@1", "acme/analyst@1"
	Node       string           `json:"node"`        // node ID and version: "agent@1"
	System     string           `json:"system"`
	Models     []PlanModel      `json:"models"` // the first is the default; a request may choose another by its profile
	Tools      []PlanTool       `json:"tools"`
	Sources    []PlanSource     `json:"sources,omitempty"` // grants of dynamic toolkits
	Middleware []PlanMiddleware `json:"middleware"`
	Limits     Limits           `json:"limits"`

	RateLimits   RateLimits      `json:"rate_limits,omitzero"`
	OutputSchema json.RawMessage `json:"output_schema,omitempty"`
	Prepare      []PlanStep      `json:"prepare,omitempty"`   // the steps before the first model call, in order
	Delegates    []string        `json:"delegates,omitempty"` // agents that this agent may delegate to
	ReturnSteps  bool            `json:"return_steps,omitempty"`
	Mode         Mode            `json:"mode,omitempty"` // default for requests; empty: that of the channel
}

// The kinds of preparation steps, in order. classify and reformulate are optional.
const (
	PrepareClassify    = "classify"    // a model call that assigns the message to one of Branches
	PrepareReformulate = "reformulate" // a model call that makes the message a question that is clear without the conversation
	PrepareRetrieve    = "retrieve"    // a search in a collection
)

// PlanStep is a step of the preparation.
type PlanStep struct {
	Kind     string       `json:"kind"`
	Prompt   string       `json:"prompt,omitempty"`   // classify, reformulate: the system prompt of the call
	Branches []PlanBranch `json:"branches,omitempty"` // classify; the first is the default

	Collection string     `json:"collection,omitempty"` // retrieve, also the following fields
	Tenant     string     `json:"tenant,omitempty"`     // of the collection
	TopK       int        `json:"top_k,omitempty"`
	MinScore   float64    `json:"min_score,omitempty"`
	Embedding  *PlanModel `json:"embedding,omitempty"` // nil: only full-text search
}

// PlanBranch is a branch of an ask agent.
type PlanBranch struct {
	Name     string `json:"name"`
	System   string `json:"system"`             // replaces the plan's system prompt
	Retrieve bool   `json:"retrieve,omitempty"` // whether the collections are searched
}

// PlanModel is a model that the agent may use.
type PlanModel struct {
	Profile       string    `json:"profile"`            // the name in configuration and in requests
	Provider      string    `json:"provider"`           // openai, anthropic, ollama, …
	Model         string    `json:"model"`              // the provider's name
	BaseURL       string    `json:"base_url,omitempty"` // empty: that of the configuration or the provider
	Auth          *PlanAuth `json:"auth,omitempty"`     // nil: the key of the configuration
	Temperature   *float64  `json:"temperature,omitempty"`
	MaxTokens     int       `json:"max_tokens,omitempty"`
	InputPerMTok  float64   `json:"input_per_mtok,omitempty"` // USD per million tokens
	CachedPerMTok float64   `json:"cached_per_mtok,omitempty"`
	OutputPerMTok float64   `json:"output_per_mtok,omitempty"`
	TimeoutSec    int       `json:"timeout_sec,omitempty"`    // maximum time without data from the provider
	ContextTokens int       `json:"context_tokens,omitempty"` // maximum tokens of prompt and reply; 0 if unknown
}

// PlanTool is a tool that the agent is granted.
type PlanTool struct {
	Spec           ToolSpec        `json:"spec"`
	Toolkit        string          `json:"toolkit"`          // the toolkit that implements the tool
	Binding        string          `json:"binding"`          // the name of the binding, or the ID of the node, that granted it
	Node           string          `json:"node"`             // node ID and version: "pipeline@1"
	SourceNodeName string          `json:"source_node_name"` // node ID without version
	IsFromToolkit  bool            `json:"is_from_toolkit"`
	Approval       Approve         `json:"approval,omitempty"`   // never: calls need no approval; always: all calls need approval
	Parameters     json.RawMessage `json:"parameters,omitempty"` // of the binding, including defaults
	Auth           []PlanAuth      `json:"auth,omitempty"`
	Deferred       bool            `json:"deferred,omitempty"` // the model does not see it until search_tools has found it

	ExpiresSec int64 `json:"expires_sec,omitempty"` // of a client-side tool: how long a turn waits for the result

	Handle string `json:"handle,omitempty"` // of a tool of a [DynamicToolkit], like Kind; never in a stored plan
	Kind   string `json:"kind,omitempty"`
}

// PlanSource grants the tools that a [DynamicToolkit] has when a turn begins. Its fields have the meaning of those of [PlanTool].
type PlanSource struct {
	Toolkit        string          `json:"toolkit"`
	Binding        string          `json:"binding"`
	Node           string          `json:"node"`
	SourceNodeName string          `json:"source_node_name"`
	IsFromToolkit  bool            `json:"is_from_toolkit"`
	Approval       Approve         `json:"approval,omitempty"`
	Parameters     json.RawMessage `json:"parameters,omitempty"`
	Auth           []PlanAuth      `json:"auth,omitempty"`
	Deferred       bool            `json:"deferred,omitempty"`
	Only           []string        `json:"only,omitempty"` // only tools with these names; empty: all
}

// TurnTools are the tools that the plan's sources had when the turn began.
type TurnTools struct {
	Tools   []PlanTool `json:"tools"`
	Missing []string   `json:"missing,omitempty"` // bindings whose tools could not be listed
}

// PlanAuth is an [AuthProfile] in a plan. It has references to secrets, never secrets.
type PlanAuth struct {
	Tenant       string   `json:"tenant,omitempty"` // of the auth profile; decides which secrets it may refer to
	Name         string   `json:"name"`
	Type         AuthType `json:"type"`
	Secret       string   `json:"secret,omitempty"`
	Header       string   `json:"header,omitempty"`
	Query        string   `json:"query,omitempty"`
	Username     string   `json:"username,omitempty"`
	Password     string   `json:"password,omitempty"`
	ClientID     string   `json:"client_id,omitempty"`
	ClientSecret string   `json:"client_secret,omitempty"`
	TokenURL     string   `json:"token_url,omitempty"`
	Issuer       string   `json:"issuer,omitempty"`
	Scopes       []string `json:"scopes,omitempty"`
	Hosts        []string `json:"hosts,omitempty"`
}

// PlanMiddleware is a middleware with its options.
type PlanMiddleware struct {
	Name    string          `json:"name"`
	Options json.RawMessage `json:"options,omitempty"`
}

// Model returns the model of a profile, the default model for "". Its error is [CodeNotFound] if there is none.
func (p *Plan) Model(profile string) (PlanModel, error) {
	if profile == "" && len(p.Models) > 0 {
		return p.Models[0], nil
	}
	for i := range p.Models {
		if p.Models[i].Profile == profile {
			return p.Models[i], nil
		}
	}
	return PlanModel{}, FieldErrorf(CodeNotFound, "model", "agent %q has no model %.140q", p.Agent, profile)
}

// Tool returns the granted tool with a name, and false if there is none.
func (p *Plan) Tool(name string) (PlanTool, bool) {
	for i := range p.Tools {
		if p.Tools[i].Spec.Name == name {
			return p.Tools[i], true
		}
	}
	return PlanTool{}, false
}
