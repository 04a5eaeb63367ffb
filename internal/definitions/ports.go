package definitions

import (
	"context"
	"encoding/json"
	"io"
	"time"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/notifications"
)

// Store keeps definitions and runs. Every write is idempotent on its key and atomic.
type Store interface {
	// Workflow returns a version of a definition, 0 for the newest. An empty Owner means the only owner of the tag. Its error is
	// [agent.CodeNotFound] with Field "workflow_tag" if there is no definition or it is deleted, [agent.CodeConflict] with Field
	// "workflow_owner" if Owner is empty and the tag has several owners.
	Workflow(ctx context.Context, key agent.WorkflowKey, version int64) (agent.StoredWorkflow, error)
	// BeginRun stores a run unless it is already stored, and returns the stored run.
	BeginRun(ctx context.Context, r agent.Run) (agent.Run, error)
	// Run returns a run with its steps. An empty tenant means any. Its error is [agent.CodeNotFound] with Field "run_id" if there is none.
	Run(ctx context.Context, tenant, runID string) (agent.Run, error)
	// SaveStep stores a finished visit of a node unless it is already stored, and returns the stored visit.
	SaveStep(ctx context.Context, tenant, runID string, s agent.RunStep) (agent.RunStep, error)
	// Step returns a finished visit; ok is false if it has not finished.
	Step(ctx context.Context, runID, nodeID string, visit int) (s agent.RunStep, ok bool, err error)
	// Attempt marks that the effect of a visit may happen from now on, and reports whether an earlier call has marked that.
	Attempt(ctx context.Context, runID, nodeID string, visit int) (marked bool, err error)
	// FinishRun stores the outcome of a run. The first outcome is kept.
	FinishRun(ctx context.Context, tenant, runID string, status agent.RunStatus, failure *agent.Failure, at time.Time) error
}

// Mailer sends mail.
type Mailer interface {
	// Send sends one mail. It calls mark once, after all checks and before it sends. If mark fails, it sends nothing and returns the error of
	// mark.
	Send(ctx context.Context, m notifications.Mail, mark func() error) error
}

// Webhooks sends requests to other systems.
type Webhooks interface {
	// Send sends one request and returns the answer, whatever its status. It calls mark like [Mailer].Send. A successful GET with a truncated
	// answer is an error.
	Send(ctx context.Context, w notifications.Webhook, mark func() error) (notifications.WebhookAnswer, error)
}

// Turns runs the turns of agent nodes.
type Turns interface {
	// BeginTurn records a turn before its workflow starts. It is idempotent on the ID of the turn. A permanent error refuses the turn.
	BeginTurn(ctx context.Context, r agent.TurnRequest) error
	// Turn returns the outcome of a turn whose workflow has ended. If there is no outcome, it ends the turn as failed.
	Turn(ctx context.Context, id agent.TurnID) (agent.AgentStepOutput, error)
}

// Pipelines runs the steps of execute_pipeline.
type Pipelines interface {
	// EffectFree reports whether the steps only read.
	EffectFree(steps json.RawMessage) bool
	// Run runs the steps. A failure of a step is in the result. The steps may have had an effect if the failure has type "unavailable" and is not
	// retryable, or if Run returns an error after ctx has ended. After any other error the steps may be run again.
	Run(ctx context.Context, call PipelineCall) (PipelineResult, error)
}

// PipelineCall is one run of a pipeline.
type PipelineCall struct {
	Tenant     string
	UserID     string
	RunID      string
	Steps      json.RawMessage
	InputRef   string // the reference of the input rows; may be empty
	Key        string // the idempotency key, which all attempts share
	Repeatable bool
}

// PipelineResult is the outcome of a pipeline: rows or a failure.
type PipelineResult struct {
	Ref      string // of the rows
	RowCount int64
	Preview  json.RawMessage // {type,row_count,sample}; may be nil
	Failure  *agent.Failure
}

// Rows stores rows and returns references to them.
type Rows interface {
	// Open returns the stored content. It is a JSON array of rows if a node has stored it.
	Open(ctx context.Context, tenant, ref string) (io.ReadCloser, error)
	// Put stores content and returns its reference.
	Put(ctx context.Context, tenant string, r io.Reader) (ref string, err error)
}
