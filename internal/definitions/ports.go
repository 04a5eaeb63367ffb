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
	// Workflow returns a version of a definition, 0 for the newest. Owner "" is the one owner of that tag: [agent.CodeNotFound] with Field
	// "workflow_tag" when there is none, or it was deleted; [agent.CodeConflict] with Field "workflow_owner" when there are several.
	Workflow(ctx context.Context, key agent.WorkflowKey, version int64) (agent.StoredWorkflow, error)
	// BeginRun stores a run unless it is stored already, and returns what is stored.
	BeginRun(ctx context.Context, r agent.Run) (agent.Run, error)
	// Run returns a run with its steps; tenant "" is any. [agent.CodeNotFound] with Field "run_id".
	Run(ctx context.Context, tenant, runID string) (agent.Run, error)
	// SaveStep stores a finished visit of a node unless it is stored already, and returns what is stored.
	SaveStep(ctx context.Context, tenant, runID string, s agent.RunStep) (agent.RunStep, error)
	// Step returns a finished visit; ok is false if it has not finished.
	Step(ctx context.Context, runID, nodeID string, visit int) (s agent.RunStep, ok bool, err error)
	// Attempt marks that an effect may happen from now on, and reports whether it was marked before.
	Attempt(ctx context.Context, runID, nodeID string, visit int) (before bool, err error)
	// FinishRun stores how a run ended; the first outcome is kept.
	FinishRun(ctx context.Context, tenant, runID string, status agent.RunStatus, failure *agent.Failure, at time.Time) error
}

// Mailer sends mail.
type Mailer interface {
	// Send sends one mail. It calls mark once, after all that can be refused beforehand and before the mail itself goes out; when mark fails,
	// nothing is sent and the error is mark's.
	Send(ctx context.Context, m notifications.Mail, mark func() error) error
}

// Webhooks sends requests to other systems.
type Webhooks interface {
	// Send sends one request within the time of ctx; mark as in [Mailer]. An answer is no error, whatever its status; that a GET succeeded and
	// its answer was cut off is.
	Send(ctx context.Context, w notifications.Webhook, mark func() error) (notifications.WebhookAnswer, error)
}

// Turns runs the turns of agent nodes.
type Turns interface {
	// BeginTurn queues a turn before its workflow starts, once for its id. An error that is not to be retried refuses it.
	BeginTurn(ctx context.Context, r agent.TurnRequest) error
	// Turn returns the outcome of a turn whose workflow has ended. It fails a turn that has none.
	Turn(ctx context.Context, id agent.TurnID) (agent.AgentStepOutput, error)
}

// Pipelines runs the steps of execute_pipeline.
type Pipelines interface {
	// EffectFree reports whether the steps only read.
	EffectFree(steps json.RawMessage) bool
	// Run runs the steps. A failure of a step is in the result. A failure of type "unavailable" that is not retryable may have had its effect, as
	// may an error after the end of ctx. After any other error the steps may be run again.
	Run(ctx context.Context, call PipelineCall) (PipelineResult, error)
}

// PipelineCall is one run of a pipeline.
type PipelineCall struct {
	Tenant     string
	UserID     string
	RunID      string
	Steps      json.RawMessage
	InputRef   string // reference of the rows to begin with; empty: none
	Key        string // the same for every attempt
	Repeatable bool
}

// PipelineResult is the outcome of a pipeline: rows or a failure.
type PipelineResult struct {
	Ref      string          // of the rows
	RowCount int64           //
	Preview  json.RawMessage // {type,row_count,sample}; may be nil
	Failure  *agent.Failure
}

// Rows stores rows behind references.
type Rows interface {
	// Open returns the stored JSON, which is an array of rows if a node stored it as such.
	Open(ctx context.Context, tenant, ref string) (io.ReadCloser, error)
	// Put stores content and returns its reference.
	Put(ctx context.Context, tenant string, r io.Reader) (ref string, err error)
}
