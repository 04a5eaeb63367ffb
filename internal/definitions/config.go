package definitions

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/definitions/core"
)

// The actions of task nodes.
const (
	ActionEmail    = "email"
	ActionWebhook  = "webhook"
	ActionPipeline = "pipeline"
)

// nodeConfig is the config of a node of any type. It was validated when the definition was stored.
type nodeConfig struct {
	Action string `json:"action"` // task

	To      Addresses `json:"to"` // email
	Cc      Addresses `json:"cc"`
	Subject string    `json:"subject"`

	URL        string            `json:"url"` // webhook
	Method     string            `json:"method"`
	Headers    map[string]string `json:"headers"`
	Auth       string            `json:"auth"`
	Repeatable bool              `json:"repeatable"`
	Body       json.RawMessage   `json:"body"` // also of an email, where it is a string

	Pipeline json.RawMessage `json:"pipeline"` // pipeline
	InputRef string          `json:"input_ref"`

	Agent        string          `json:"agent"` // agent
	Message      string          `json:"message"`
	Session      string          `json:"session"`
	OutputSchema json.RawMessage `json:"output_schema"`

	Duration string `json:"duration"` // timer

	TimeoutSec int64   `json:"timeout_sec"` // of one attempt; of an agent's turn
	Retries    Retries `json:"retries"`
}

// Retries bounds the attempts of a task and sets the pauses between them.
type Retries struct {
	MaxAttempts    int   `json:"max_attempts"` // including the first
	IntervalSec    int64 `json:"interval_sec"`
	MaxIntervalSec int64 `json:"max_interval_sec"`
}

// Addresses is a list of mail addresses.
type Addresses []string

// UnmarshalJSON accepts a string or an array of strings.
func (a *Addresses) UnmarshalJSON(raw []byte) error {
	var single string
	if json.Unmarshal(raw, &single) == nil {
		if single != "" {
			*a = Addresses{single}
		}
		return nil
	}
	var list []string
	if err := json.Unmarshal(raw, &list); err != nil {
		return errors.New("want an address or a list of addresses")
	}
	*a = list
	return nil
}

// parseConfig decodes the config of a node. It returns the zero value for a node without config.
func parseConfig(n *agent.WorkflowNode) (nodeConfig, error) {
	var c nodeConfig
	if len(n.Config) == 0 {
		return c, nil
	}
	if err := json.Unmarshal(n.Config, &c); err != nil {
		return c, agent.Invalid("config", "%w", err)
	}
	return c, nil
}

// buildSkeleton returns the part of a definition that its workflow needs: IDs, types, edges and durations.
func buildSkeleton(d *agent.WorkflowDefinition) (core.Skeleton, error) {
	s := core.Skeleton{Nodes: make([]core.Node, len(d.Nodes)), Edges: make([]core.Edge, len(d.Edges))}
	index := make(map[string]int, len(d.Nodes))
	for i := range d.Nodes {
		n := &d.Nodes[i]
		field := fmt.Sprintf("nodes[%d].config", i)
		c, err := parseConfig(n)
		if err != nil {
			return s, agent.Invalid(field, "%w", err)
		}
		index[n.ID] = i
		s.Nodes[i] = core.Node{ID: n.ID, Type: n.Type, Action: c.Action, TimeoutMS: c.TimeoutSec * 1000}
		switch n.Type {
		case agent.WorkflowTask, agent.WorkflowCondition:
		case agent.WorkflowAgent:
			s.Nodes[i].Action = c.Agent
		case agent.WorkflowTimer:
			wait, err := time.ParseDuration(c.Duration)
			if err != nil || wait < 0 {
				return s, agent.Invalid(field+".duration", "want a duration such as 90s or 24h, got %.40q", c.Duration)
			}
			s.Nodes[i].WaitMS = wait.Milliseconds()
		default:
			return s, agent.Invalid(fmt.Sprintf("nodes[%d].type", i), "is %.40q, want task, agent, condition or timer", n.Type)
		}
	}
	for i, e := range d.Edges {
		from, exists := index[e.From]
		if !exists {
			return s, agent.Invalid(fmt.Sprintf("edges[%d].from", i), "there is no node %q", e.From)
		}
		to, exists := index[e.To]
		if !exists {
			return s, agent.Invalid(fmt.Sprintf("edges[%d].to", i), "there is no node %q", e.To)
		}
		s.Edges[i] = core.Edge{From: from, To: to, On: e.Condition}
	}
	return s, nil
}
