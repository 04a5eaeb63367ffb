package definitions

import (
	"time"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/definitions/core"
)

// RunRef identifies a run and the version of its definition.
type RunRef struct {
	RunID   string `json:"run_id"`
	Tenant  string `json:"tenant"`
	Owner   string `json:"workflow_owner"`
	Tag     string `json:"workflow_tag"`
	Version int64  `json:"version"`
}

// BeginRunInput identifies the execution that begins a run. The request itself is a separate argument.
type BeginRunInput struct {
	WorkflowID string `json:"workflow_id"`
	RunID      string `json:"run_id"`             // of the first execution of the chain
	Schedule   string `json:"schedule,omitempty"` // the ID of the Temporal schedule that started it
}

// BeginRunResult is the skeleton of a run that begins, the outcome of a run that has ended, or a refusal.
type BeginRunResult struct {
	Run              RunRef          `json:"run"`
	Skeleton         core.Skeleton   `json:"skeleton"`
	CoreVersion      int             `json:"core_version"`
	SearchAttributes bool            `json:"search_attributes,omitempty"` // the namespace has our attributes
	ContinueAsNew    int             `json:"continue_as_new_events,omitempty"`
	Over             agent.RunStatus `json:"over,omitempty"` // the status of a run that has already ended
	Steps            int             `json:"steps,omitempty"`
	Error            *agent.Failure  `json:"error,omitempty"`   // of a run that has already ended
	Refusal          *agent.Failure  `json:"refusal,omitempty"` // why no run was recorded
}

// NodeInput identifies one visit of a node.
type NodeInput struct {
	RunID string        `json:"run_id"`
	Node  string        `json:"node"`
	Visit int           `json:"visit"`
	From  []core.Source `json:"from,omitempty"` // the visits whose outputs are its input; if empty, the input is that of the run
}

// NodeResult is the result of a visit.
type NodeResult struct {
	Outcome   string         `json:"outcome,omitempty"` // of a condition: true or false
	Failure   *agent.Failure `json:"failure,omitempty"`
	Cancelled bool           `json:"cancelled,omitempty"`
}

// BeginAgentNodeResult is the turn of an agent node, or the result of the visit if the turn was refused.
type BeginAgentNodeResult struct {
	Turn   agent.TurnID `json:"turn,omitempty"`
	Tenant string       `json:"tenant,omitempty"`
	Done   *NodeResult  `json:"done,omitempty"`
}

// EndNodeInput ends a visit whose activity was cancelled or never answered.
type EndNodeInput struct {
	NodeInput

	Cancelled bool           `json:"cancelled,omitempty"`
	Failure   *agent.Failure `json:"failure,omitempty"`
}

// FinishRunInput is the outcome of a run.
type FinishRunInput struct {
	RunID   string          `json:"run_id"`
	Tenant  string          `json:"tenant"`
	Status  agent.RunStatus `json:"status"`
	Failure *agent.Failure  `json:"failure,omitempty"`
	At      time.Time       `json:"at"`
}
