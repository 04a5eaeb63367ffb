package runs

import (
	"context"
	"iter"

	"github.com/turnstone-run/turnstone/agent"
)

// Store keeps schedules and their runs. Every write is idempotent on its key and atomic.
type Store interface {
	// BeginScheduleRun records a run once and answers the schedule as it is now. [agent.CodeNotFound] with Field "name" when it is gone.
	BeginScheduleRun(ctx context.Context, tenant, name, runID, workflowID string) (agent.StoredSchedule, agent.ScheduleRun, error)
	// BindScheduleRun says which turn a run became.
	BindScheduleRun(ctx context.Context, tenant, runID string, turn agent.TurnID, session agent.SessionID) error
	// FinishScheduleRun ends a run, the first end stands, and answers the notices that are to be sent.
	FinishScheduleRun(ctx context.Context, e agent.ScheduleEnd) ([]agent.ScheduleNotice, error)
	// NoteNotice says what became of an attempt to notify.
	NoteNotice(ctx context.Context, tenant, runID string, n agent.ScheduleNotice) error
	// ScheduleRun returns a run with its notices. [agent.CodeNotFound] when it is gone.
	ScheduleRun(ctx context.Context, tenant, runID string) (agent.ScheduleRun, error)
	// Schedule returns a schedule. [agent.CodeNotFound] when it is gone.
	Schedule(ctx context.Context, tenant, name string) (agent.StoredSchedule, error)
	// Turn returns a turn. [agent.CodeNotFound] when there is none.
	Turn(ctx context.Context, id agent.TurnID) (agent.TurnState, error)
}

// Inbox is the one invocation path, see [agent.Inbox].
type Inbox interface {
	Submit(ctx context.Context, e agent.Envelope) (agent.Receipt, error)
	Follow(ctx context.Context, id agent.TurnID, after int64) iter.Seq2[agent.Event, error]
	Cancel(ctx context.Context, id agent.TurnID, c agent.CancelRequest) error
}

// People sends messages to users in the chats that are linked to them.
type People interface {
	// Notify sends a text. [agent.CodeNotFound] when no chat is linked to the user; [agent.CodeUnavailable] and [agent.CodeRateLimited] may
	// be tried again.
	Notify(ctx context.Context, tenant, user, text string) error
}
