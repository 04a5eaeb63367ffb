package definitions

import (
	"time"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/definitions/core"
)

// RunRef is what the workflow knows of its run.
type RunRef struct {
	RunID   string `json:"run_id"`
	Tenant  string `json:"tenant"`
	Owner   string `json:"workflow_owner"`
	Tag     string `json:"workflow_tag"`
	Version int64  `json:"version"`
}

// BeginRunInput says which execution asks; the request comes beside it, raw.
type BeginRunInput struct {
	WorkflowID string `json:"workflow_id"`
	RunID      string `json:"run_id"`             // the first of the chain
	Schedule   string `json:"schedule,omitempty"` // the id of the Temporal schedule that started it
}

// BeginRunResult is the run's skeleton; or why there is no run, or what it came to before.
type BeginRunResult struct {
	Run              RunRef          `json:"run"`
	Skeleton         core.Skeleton   `json:"skeleton"`
	CoreVersion      int             `json:"core_version"`
	SearchAttributes bool            `json:"search_attributes,omitempty"` // the namespace knows ours
	ContinueAsNew    int             `json:"continue_as_new_events,omitempty"`
	Over             agent.RunStatus `json:"over,omitempty"` // it has ended: nothing is done again
	Steps            int             `json:"steps,omitempty"`
	Error            *agent.Failure  `json:"error,omitempty"`   // of a run that is over
	Refusal          *agent.Failure  `json:"refusal,omitempty"` // there is no run
}

// NodeInput asks for one visit of a node.
type NodeInput struct {
	RunID string        `json:"run_id"`
	Node  string        `json:"node"`
	Visit int           `json:"visit"`
	From  []core.Source `json:"from,omitempty"` // visits that lead here, by the index of the node; empty: the run's input comes in
}

// NodeResult is how a visit ended.
type NodeResult struct {
	Outcome   string         `json:"outcome,omitempty"` // of a condition: true or false
	Failure   *agent.Failure `json:"failure,omitempty"`
	Cancelled bool           `json:"cancelled,omitempty"`
}

// BeginAgentNodeResult names the turn that an agent node is, or says how the node ended without one.
type BeginAgentNodeResult struct {
	Turn   agent.TurnID `json:"turn,omitempty"`
	Tenant string       `json:"tenant,omitempty"`
	Done   *NodeResult  `json:"done,omitempty"`
}

// EndNodeInput ends a visit that cannot say so itself: its activity was cancelled, or never answered.
type EndNodeInput struct {
	NodeInput

	Cancelled bool           `json:"cancelled,omitempty"`
	Failure   *agent.Failure `json:"failure,omitempty"`
}

// FinishRunInput is how a run ended.
type FinishRunInput struct {
	RunID   string          `json:"run_id"`
	Tenant  string          `json:"tenant"`
	Status  agent.RunStatus `json:"status"`
	Failure *agent.Failure  `json:"failure,omitempty"`
	At      time.Time       `json:"at"`
}
