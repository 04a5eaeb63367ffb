package agent

import (
	"encoding/json"
	"time"
)

// Composite is a tool made from a pipeline that a tenant used several times. Its parameters are the literals that differed between the uses.
type Composite struct {
	ID          string          `json:"id"`
	Tenant      string          `json:"tenant"`
	Name        string          `json:"name"` // the tool's name, unique within the tenant
	Description string          `json:"description"`
	Parameters  json.RawMessage `json:"parameters"` // JSON Schema of an object
	Pipeline    json.RawMessage `json:"pipeline"`   // the steps, with {"$parameter":"name"} for arguments
	Shape       string          `json:"shape"`      // sha256:<hex> of the steps without literals, unique within the tenant
	Version     int64           `json:"version"`    // increases when parameters or pipeline change
	Uses        int64           `json:"uses"`       // of the shape, including calls of the composite
	Enabled     bool            `json:"enabled"`
	EffectFree  bool            `json:"effect_free"` // no step posts
	CreatedAt   time.Time       `json:"created_at"`
	UpdatedAt   time.Time       `json:"updated_at"`
}

// CompositeChange changes a composite. Nil fields stay unchanged.
type CompositeChange struct {
	Name        *string `json:"name,omitempty"`
	Description *string `json:"description,omitempty"`
	Enabled     *bool   `json:"enabled,omitempty"`
}

// PipelineUse is one completed call of execute_pipeline.
type PipelineUse struct {
	Tenant string
	Key    string // identifies the call, which counts once
	Shape  string
	Steps  json.RawMessage // of the call
}

// PipelineUses counts the uses of a pipeline's shape.
type PipelineUses struct {
	Count     int64             // of distinct calls
	Samples   []json.RawMessage // the steps of distinct calls, at most 16, newest first
	Composite *Composite        // the composite of the shape; nil if there is none
}
