package agent

import "encoding/json"

// PlanSchema is the version of the compiled form.
const PlanSchema = "plan.v1"

// Plan is the compiled, immutable, content-addressed form of an agent instance, pinned per turn by the hash of its canonical JSON
// (DESIGN §5).
type Plan struct {
	Schema     string           `json:"schema"` // [PlanSchema]
	Tenant     string           `json:"tenant"`
	Agent      string           `json:"agent"`       // the name callers use
	InstanceID string           `json:"instance_id"` // unique per tenant, agent and version
	System     string           `json:"system"`
	Models     []PlanModel      `json:"models"` // the first is the default; a request may choose another by profile
	Tools      []PlanTool       `json:"tools"`
	Middleware []PlanMiddleware `json:"middleware"`
	Limits     Limits           `json:"limits"`
}

// PlanModel is one model that the agent may use.
type PlanModel struct {
	Profile       string   `json:"profile"`  // the name in configuration and in requests
	Provider      string   `json:"provider"` // openai, anthropic, ollama, …
	Model         string   `json:"model"`    // the provider's name
	Temperature   *float64 `json:"temperature,omitempty"`
	MaxTokens     int      `json:"max_tokens,omitempty"`
	InputPerMTok  float64  `json:"input_per_mtok,omitempty"` // USD per million tokens
	CachedPerMTok float64  `json:"cached_per_mtok,omitempty"`
	OutputPerMTok float64  `json:"output_per_mtok,omitempty"`
	TimeoutSec    int      `json:"timeout_sec,omitempty"` // longest silence of the provider
}

// PlanTool is one tool that the agent is granted.
type PlanTool struct {
	Spec           ToolSpec `json:"spec"`
	Toolkit        string   `json:"toolkit"`
	SourceNodeName string   `json:"source_node_name"` // seed 000 §5.5
	IsFromToolkit  bool     `json:"is_from_toolkit"`
	Allow          bool     `json:"allow,omitempty"` // needs no approval by the plan's word
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
	return PlanModel{}, FieldErrorf(CodeNotFound, "model", "agent %q has no model %q", p.Agent, profile)
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
