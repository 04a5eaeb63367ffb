package agent

import "encoding/json"

// PlanSchema is the version of the compiled form.
const PlanSchema = "plan.v1"

// Plan is the compiled, immutable, content-addressed form of an agent instance, pinned per turn by the hash of its canonical JSON
// (docs/design/design.md, "Catalog, plans and routing").
type Plan struct {
	Schema     string           `json:"schema"` // [PlanSchema]
	Tenant     string           `json:"tenant"`
	Agent      string           `json:"agent"`       // the name callers use
	InstanceID string           `json:"instance_id"` // unique per tenant, agent and version: "analyst@1", "acme/analyst@1"
	Node       string           `json:"node"`        // node id and version: "agent@1"
	System     string           `json:"system"`
	Models     []PlanModel      `json:"models"` // the first is the default; a request may choose another by profile
	Tools      []PlanTool       `json:"tools"`
	Sources    []PlanSource     `json:"sources,omitempty"` // of tools that are known only when a turn begins
	Middleware []PlanMiddleware `json:"middleware"`
	Limits     Limits           `json:"limits"`

	RateLimits   RateLimits      `json:"rate_limits,omitzero"`
	OutputSchema json.RawMessage `json:"output_schema,omitempty"`
	Prepare      []PlanStep      `json:"prepare,omitempty"`   // what happens before the first model call, in order
	Delegates    []string        `json:"delegates,omitempty"` // agents that this one may hand work to
	ReturnSteps  bool            `json:"return_steps,omitempty"`
	Mode         Mode            `json:"mode,omitempty"` // of turns whose request names none; empty: as the channel has it
}

// The kinds of preparation, in the order in which they come. An agent that only searches has no classify and no reformulate.
const (
	PrepareClassify    = "classify"    // a model call: which of Branches the message belongs to
	PrepareReformulate = "reformulate" // a model call: the question as it would be asked without the conversation
	PrepareRetrieve    = "retrieve"    // the search of a collection
)

// PlanStep is one step of the preparation.
type PlanStep struct {
	Kind     string       `json:"kind"`
	Prompt   string       `json:"prompt,omitempty"`   // classify, reformulate: the system prompt of the call
	Branches []PlanBranch `json:"branches,omitempty"` // classify; the first is taken when the model's word is none of them

	Collection string     `json:"collection,omitempty"` // retrieve, and what follows
	Tenant     string     `json:"tenant,omitempty"`     // the collection's
	TopK       int        `json:"top_k,omitempty"`
	MinScore   float64    `json:"min_score,omitempty"`
	Embedding  *PlanModel `json:"embedding,omitempty"` // nil: full-text search alone
}

// PlanBranch is one way to answer.
type PlanBranch struct {
	Name     string `json:"name"`
	System   string `json:"system"`             // instead of the plan's system prompt
	Retrieve bool   `json:"retrieve,omitempty"` // the collections are searched
}

// PlanModel is one model that the agent may use.
type PlanModel struct {
	Profile       string    `json:"profile"`            // the name in configuration and in requests
	Provider      string    `json:"provider"`           // openai, anthropic, ollama, …
	Model         string    `json:"model"`              // the provider's name
	BaseURL       string    `json:"base_url,omitempty"` // empty: the provider's own, or the configuration's
	Auth          *PlanAuth `json:"auth,omitempty"`     // nil: the configuration's key
	Temperature   *float64  `json:"temperature,omitempty"`
	MaxTokens     int       `json:"max_tokens,omitempty"`
	InputPerMTok  float64   `json:"input_per_mtok,omitempty"` // USD per million tokens
	CachedPerMTok float64   `json:"cached_per_mtok,omitempty"`
	OutputPerMTok float64   `json:"output_per_mtok,omitempty"`
	TimeoutSec    int       `json:"timeout_sec,omitempty"`    // longest silence of the provider
	ContextTokens int       `json:"context_tokens,omitempty"` // of prompt and reply together; 0: not known
}

// PlanTool is one tool that the agent is granted.
type PlanTool struct {
	Spec           ToolSpec        `json:"spec"`
	Toolkit        string          `json:"toolkit"`          // the code's name in the process
	Binding        string          `json:"binding"`          // what granted it: a binding's name, or the node's id
	Node           string          `json:"node"`             // node id and version: "pipeline@1"
	SourceNodeName string          `json:"source_node_name"` // node id without its version
	IsFromToolkit  bool            `json:"is_from_toolkit"`
	Approval       Approve         `json:"approval,omitempty"`   // never: needs no approval by the plan's word; always: whatever the call
	Parameters     json.RawMessage `json:"parameters,omitempty"` // the binding's, defaults filled in
	Auth           []PlanAuth      `json:"auth,omitempty"`
	Deferred       bool            `json:"deferred,omitempty"` // the model is not told of it until another tool's answer names it

	ExpiresSec int64 `json:"expires_sec,omitempty"` // of a client-side tool: how long a turn waits for its result

	Handle string `json:"handle,omitempty"` // of a [DynamicToolkit]'s tool, and what follows; never in a plan
	Kind   string `json:"kind,omitempty"`
}

// PlanSource is a grant of the tools that a [DynamicToolkit] has when a turn begins. Its fields are those of [PlanTool].
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
	Only           []string        `json:"only,omitempty"` // of these names alone; empty: all
}

// TurnTools are the tools of a turn besides its plan's: those that the plan's sources had when the turn began.
type TurnTools struct {
	Tools   []PlanTool `json:"tools"`
	Missing []string   `json:"missing,omitempty"` // bindings that could not be asked
}

// PlanAuth is an auth profile as a plan holds it: references to secrets, never secrets.
type PlanAuth struct {
	Tenant       string   `json:"tenant,omitempty"` // of the document: what it was granted decides which secrets it may name
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

// PlanMiddleware is one middleware with its options, in order.
type PlanMiddleware struct {
	Name    string          `json:"name"`
	Options json.RawMessage `json:"options,omitempty"`
}

// Model returns the model of a profile, the default for "".
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

// Tool returns the granted tool of that name.
func (p *Plan) Tool(name string) (PlanTool, bool) {
	for i := range p.Tools {
		if p.Tools[i].Spec.Name == name {
			return p.Tools[i], true
		}
	}
	return PlanTool{}, false
}
