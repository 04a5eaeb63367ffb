package schedules

import (
	"context"
	"iter"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/notifications"
)

// Store stores schedules and their runs. Every write is idempotent on its key and atomic.
type Store interface {
	// BeginScheduleRun records a run once and returns the schedule as it is now. [agent.CodeNotFound] with Field "name" if it was deleted.
	BeginScheduleRun(ctx context.Context, tenant, name, runID, workflowID string) (agent.StoredSchedule, agent.ScheduleRun, error)
	// BindScheduleRun records the turn of a run.
	BindScheduleRun(ctx context.Context, tenant, runID string, turn agent.TurnID, session agent.SessionID) error
	// FinishScheduleRun ends a run and returns the notices to be sent. A run ends once: later calls change nothing.
	FinishScheduleRun(ctx context.Context, e agent.ScheduleEnd) ([]agent.ScheduleNotice, error)
	// NoteNotice records the outcome of an attempt to notify.
	NoteNotice(ctx context.Context, tenant, runID string, n agent.ScheduleNotice) error
	// ScheduleRun returns a run with its notices. [agent.CodeNotFound] if it was deleted.
	ScheduleRun(ctx context.Context, tenant, runID string) (agent.ScheduleRun, error)
	// Schedule returns a schedule. [agent.CodeNotFound] if it was deleted.
	Schedule(ctx context.Context, tenant, name string) (agent.StoredSchedule, error)
	// Turn returns a turn. [agent.CodeNotFound] if it is not recorded.
	Turn(ctx context.Context, id agent.TurnID) (agent.TurnState, error)
}

// Inbox submits, follows and cancels turns; see [agent.Inbox].
type Inbox interface {
	Submit(ctx context.Context, e agent.Envelope) (agent.Receipt, error)
	Follow(ctx context.Context, id agent.TurnID, after int64) iter.Seq2[agent.Event, error]
	Cancel(ctx context.Context, id agent.TurnID, c agent.CancelRequest) error
}

// People sends messages to users in the chats that are linked to them.
type People interface {
	// Notify sends a text. [agent.CodeNotFound] if no chat is linked to the user; retries may help after [agent.CodeUnavailable] and
	// [agent.CodeRateLimited].
	Notify(ctx context.Context, tenant, user, text string) error
}

// Mailer sends mail.
type Mailer interface {
	// Send sends one mail. It calls mark once, when nothing but the mail itself remains to be sent; when mark fails, nothing is sent and the
	// error is mark's.
	Send(ctx context.Context, m notifications.Mail, mark func() error) error
}

// Webhooks sends requests to other systems.
type Webhooks interface {
	// Send sends one request within the time of ctx; mark as in [Mailer]. An answer is no error, whatever its status.
	Send(ctx context.Context, w notifications.Webhook, mark func() error) (notifications.WebhookAnswer, error)
}
