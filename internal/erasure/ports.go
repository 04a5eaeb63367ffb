package erasure

import (
	"context"
	"time"

	"github.com/turnstone-run/turnstone/agent"
)

// Store stores erasures and removes rows. Every method may be called again after an error. The error is [agent.CodeNotFound] if the tenant has no such
// erasure, and [agent.CodeConflict] if it has ended.
type Store interface {
	StatusStore

	// MarkErasure finds the user's data and marks it. It may find more each time.
	MarkErasure(ctx context.Context, tenant, id string) error
	// LiveTurns lists marked turns that run or wait.
	LiveTurns(ctx context.Context, tenant, id string, limit int) ([]agent.TurnID, error)
	// Marks lists the marks of a kind that are not done, such as [MarkSchedule].
	Marks(ctx context.Context, tenant, id, kind string, limit int) ([]string, error)
	// MarkDone sets marks to done, and adds to the number of removed items and their bytes.
	MarkDone(ctx context.Context, tenant, id, kind string, names []string, removed, bytes int64) error
	// MarkFound stores how many items were found for a mark that is not done yet.
	MarkFound(ctx context.Context, tenant, id, kind, name string, found int64) error
	// EraseRows removes at most one batch of rows of each kind, and reports whether more may be left.
	EraseRows(ctx context.Context, tenant, id string) (more bool, err error)
	// ReleaseContent returns marked content that may be removed: nothing refers to it, and it was not stored within settleTime. pending is the
	// number of other objects without references.
	ReleaseContent(ctx context.Context, tenant, id string, settleTime time.Duration, limit int) (free []Object, pending int64, err error)
	// CheckErasure counts the rows that are left. Its queries are independent of those of EraseRows.
	CheckErasure(ctx context.Context, tenant, id string) (remaining int64, err error)
}

// StatusStore stores the status of erasures.
type StatusStore interface {
	// BeginErasure returns an erasure and sets its status to running, unless it has ended.
	BeginErasure(ctx context.Context, tenant, id string) (Erasure, error)
	// FinishErasure checks once more, stores the report and its digest in the audit trail, and deletes the user's id, in one transaction.
	FinishErasure(ctx context.Context, tenant, id string) (Erasure, error)
	// FailErasure ends an erasure that failed, and deletes the user's id.
	FailErasure(ctx context.Context, tenant, id, reason string) error
}

// Turns cancels turns. [agent.Inbox] implements it.
type Turns interface {
	Cancel(ctx context.Context, id agent.TurnID, c agent.CancelRequest) error
}

// HistoryDeleter deletes workflow executions with their histories, and schedules.
type HistoryDeleter interface {
	// Delete terminates and deletes all runs of a workflow id, and returns how many it found. The error is [agent.CodeUnavailable] if some still
	// exist.
	Delete(ctx context.Context, workflowID string) (int, error)
	// DeleteSchedule deletes an agent's schedule. It returns nil if there is none.
	DeleteSchedule(ctx context.Context, tenant, name string) error
}

// Blobs removes content. The error is [agent.CodeConflict] if something refers to it.
type Blobs interface {
	Remove(ctx context.Context, tenant, ref string) error
}

// RequestStore stores requests. The error is [agent.CodeNotFound] if the tenant has no such erasure.
type RequestStore interface {
	// CreateErasure records a request. If the user has an erasure that has not ended, it returns that one.
	CreateErasure(ctx context.Context, r Request, by string) (Erasure, error)
	Erasure(ctx context.Context, tenant, id string) (Erasure, error)
	Erasures(ctx context.Context, tenant string, p agent.Page) (Page, error)
}

// Starter starts the workflow of an erasure, unless it is running.
type Starter interface {
	Start(ctx context.Context, r Ref) error
}
