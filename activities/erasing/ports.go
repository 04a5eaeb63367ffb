package erasing

import (
	"context"
	"time"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/erasure"
)

// Store keeps erasures and takes rows away. All of it may be done twice. An erasure that the tenant does not have is [agent.CodeNotFound],
// one that has ended [agent.CodeConflict].
type Store interface {
	// BeginErasure says what was asked for, and that it is under way from now on. One that has ended is returned as it is.
	BeginErasure(ctx context.Context, tenant, id string) (erasure.Erasure, error)
	// MarkErasure looks for what is the user's and remembers it; it may find more each time.
	MarkErasure(ctx context.Context, tenant, id string) error
	// LiveTurns lists marked turns that run or wait.
	LiveTurns(ctx context.Context, tenant, id string, limit int) ([]agent.TurnID, error)
	// Marks lists marked things of a kind that are not done; see the kinds below.
	Marks(ctx context.Context, tenant, id, kind string, limit int) ([]string, error)
	// MarkDone says that marked things are done, and how much of them counts as removed.
	MarkDone(ctx context.Context, tenant, id, kind string, names []string, removed, bytes int64) error
	// MarkFound remembers how much there was of a marked thing that is not done yet.
	MarkFound(ctx context.Context, tenant, id, kind, name string, found int64) error
	// EraseRows takes away at most a batch of rows of each kind in turn, and says whether there may be more to do.
	EraseRows(ctx context.Context, tenant, id string) (more bool, err error)
	// ReleaseContent makes marked content that nobody refers to, and nobody has put since a moment ago, free to be removed: those are
	// returned. Pending is how much somebody has put just now.
	ReleaseContent(ctx context.Context, tenant, id string, settled time.Duration, limit int) (free []Content, pending int64, err error)
	// CheckErasure looks for what is left, with fresh queries.
	CheckErasure(ctx context.Context, tenant, id string) (remaining int64, err error)
	// FinishErasure looks once more, stores the report with its digest in the audit trail and forgets the user's id, in one transaction.
	FinishErasure(ctx context.Context, tenant, id string) (erasure.Erasure, error)
	// FailErasure ends an erasure that broke off, and forgets the user's id.
	FailErasure(ctx context.Context, tenant, id, why string) error
}

// The kinds of marks that activities work through.
const (
	MarkSchedule  = erasure.MarkSchedule  // its name
	MarkExecution = erasure.MarkExecution // workflow id
)

// Content is an object of the blob store.
type Content = erasure.Object

// Turns stops turns; [agent.Inbox] does.
type Turns interface {
	Cancel(ctx context.Context, id agent.TurnID, c agent.CancelRequest) error
}

// Executions is what Temporal keeps.
type Executions interface {
	// Delete terminates what runs under a workflow id and deletes all its runs with their histories; it returns how many, 0 when there are
	// none. [agent.CodeUnavailable] while some are still there, with how many there were.
	Delete(ctx context.Context, workflowID string) (int, error)
	// DeleteSchedule deletes the schedule of an agent; one that is not there is no error.
	DeleteSchedule(ctx context.Context, tenant, name string) error
}

// Blobs removes content; [agent.CodeConflict] when somebody refers to it after all.
type Blobs interface {
	Remove(ctx context.Context, tenant, ref string) error
}
