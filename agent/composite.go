package agent

import (
	"encoding/json"
	"time"
)

// Composite is a tool that was made of a pipeline which a tenant used again and again: the pipeline's shape, with
// the literals that varied as typed parameters.
type Composite struct {
	ID          string          `json:"id"`
	Tenant      string          `json:"tenant"`
	Name        string          `json:"name"` // once in a tenant; what models call
	Description string          `json:"description"`
	Parameters  json.RawMessage `json:"parameters"` // JSON Schema of an object
	Pipeline    json.RawMessage `json:"pipeline"`   // the steps; {"$parameter":"name"} stands for an argument
	Shape       string          `json:"shape"`      // sha256:<hex> of the steps without their literals; once in a tenant
	Version     int64           `json:"version"`    // goes up when parameters or pipeline change
	Uses        int64           `json:"uses"`       // of the shape, calls of the composite included
	Enabled     bool            `json:"enabled"`
	EffectFree  bool            `json:"effect_free"` // no step posts
	CreatedAt   time.Time       `json:"created_at"`
	UpdatedAt   time.Time       `json:"updated_at"`
}

// CompositeChange renames, describes, switches a composite; nil fields stay.
type CompositeChange struct {
	Name        *string `json:"name,omitempty"`
	Description *string `json:"description,omitempty"`
	Enabled     *bool   `json:"enabled,omitempty"`
}

// PipelineUse is one completed call of execute_pipeline.
type PipelineUse struct {
	Tenant string
	Key    string // of the call: the same call counts once
	Shape  string
	Steps  json.RawMessage // the pipeline as it was called
}

// PipelineUses counts the uses of a pipeline's shape.
type PipelineUses struct {
	Count     int64             // of different calls
	Samples   []json.RawMessage // the steps of the newest different ones, at most 16, the newest first
	Composite *Composite        // what it was promoted to; nil: nothing yet
}
