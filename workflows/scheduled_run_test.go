package workflows_test

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/workflow"

	"github.com/turnstone-run/turnstone/activities"
	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/notifications"
	"github.com/turnstone-run/turnstone/internal/schedules"
	"github.com/turnstone-run/turnstone/internal/schedules/schedulestest"
	"github.com/turnstone-run/turnstone/workflows"
)

// rota runs a schedule with the real activities on a store in memory.
type rota struct {
	t     *testing.T
	store *schedulestest.Store
	world *schedulestest.World
	env   *testsuite.TestWorkflowEnvironment
}

func daily(notify ...agent.Notification) agent.StoredSchedule {
	return agent.StoredSchedule{
		Schedule: agent.Schedule{
			Name: "daily", Tenant: "acme", Kind: agent.ScheduleRuns, Agent: "analyst", Message: "what is new?", Cron: []string{"0 9 * * *"},
			Model: "small", UserID: "ann", Metadata: map[string]any{"page": "home"}, Limits: &agent.Limits{ToolCalls: 3}, Notify: notify,
		},
		Principal: agent.Principal{Method: agent.MethodKey, Tenant: "acme", Scopes: []string{"turns.run:analyst"}, Role: "ops"},
	}
}

func hook(on string) agent.Notification {
	return agent.Notification{On: on, Webhook: &agent.HookTarget{URL: "https://hooks.example.com/in?token=hidden"}}
}

// endsWith ends every turn at once.
func endsWith(status agent.TurnStatus, text string, f *agent.Failure) func(*schedulestest.World, agent.TurnID, agent.Envelope) {
	return func(w *schedulestest.World, id agent.TurnID, _ agent.Envelope) { w.End(id, status, text, f) }
}

func newRota(t *testing.T, s agent.StoredSchedule) *rota {
	t.Helper()
	r := &rota{t: t, store: schedulestest.NewStore(s)}
	r.world = schedulestest.NewWorld(r.store)
	r.world.Begin = endsWith(agent.TurnCompleted, "three new flights", nil)
	r.renew()
	return r
}

// renew is a fresh environment of the same world.
func (r *rota) renew() {
	r.t.Helper()
	var suite testsuite.WorkflowTestSuite
	r.env = suite.NewTestWorkflowEnvironment()
	r.env.SetTestTimeout(30 * time.Second)
	r.env.RegisterWorkflowWithOptions(workflows.ScheduledRun, workflow.RegisterOptions{Name: workflows.ScheduledRunType})
	cases, err := schedules.New(schedules.Config{
		Store: r.store, Inbox: r.world, Webhooks: schedulestest.Webhooks{World: r.world}, Mailer: schedulestest.Mailer{World: r.world}, People: r.world,
		Watch: 5 * time.Millisecond,
	})
	require.NoError(r.t, err)
	workflows.RegisterActivities(r.env, activities.NewSchedules(cases))
}

func (r *rota) start(carry *workflows.ScheduledRunCarry) {
	r.env.ExecuteWorkflow(workflows.ScheduledRunType, workflows.ScheduledRunInput{Tenant: "acme", Schedule: "daily"}, carry)
	require.True(r.t, r.env.IsWorkflowCompleted())
}

func (r *rota) run() workflows.ScheduledRunResult {
	r.t.Helper()
	r.start(nil)
	require.NoError(r.t, r.env.GetWorkflowError())
	var out workflows.ScheduledRunResult
	require.NoError(r.t, r.env.GetWorkflowResult(&out))
	require.Equal(r.t, out.Status, r.stored().Status)
	return out
}

func (r *rota) stored() agent.ScheduleRun {
	r.t.Helper()
	all := r.store.Runs()
	require.Len(r.t, all, 1)
	for _, run := range all {
		return run
	}
	return agent.ScheduleRun{}
}

func TestScheduledRun(t *testing.T) {
	r := newRota(t, daily(
		hook(""), hook(agent.NotifyFailure),
		agent.Notification{On: agent.NotifySuccess, Email: &agent.MailTarget{To: []string{"ops@example.com"}}},
		agent.Notification{On: agent.NotifyChange, Telegram: &agent.PersonTarget{User: "ann"}},
	))
	out := r.run()
	require.Equal(t, "completed", out.Status)
	require.Nil(t, out.Error)
	require.Equal(t, 3, out.Notified)
	require.Zero(t, out.Unsent)

	sent := r.world.Submitted()
	require.Len(t, sent, 1)
	e := sent[0]
	session := schedules.RunSession("daily", out.RunID)
	require.Equal(t, "scheduled", e.Channel)
	require.Equal(t, daily().Principal, e.Principal, "it acts with the rights of whoever wrote the schedule")
	require.Equal(t, agent.TurnRequest{
		Agent: "analyst", SessionID: session, Message: "what is new?", History: agent.HistoryFresh, Mode: agent.ModeDurable, Model: "small",
		Limits: &agent.Limits{ToolCalls: 3}, Channel: "scheduled", IdempotencyKey: "schedule/daily/" + out.RunID,
		Context: agent.InvocationContext{
			Tenant: "acme", UserID: "ann", UserRole: "ops",
			Metadata: map[string]any{"page": "home", "schedule": "daily", "schedule_run_id": out.RunID},
		},
	}, e.Request)

	run := r.stored()
	require.Equal(t, session, run.SessionID)
	require.Equal(t, "three new flights", run.Output)
	require.Equal(t, "artifact://"+string(out.TurnID), run.ResultRef)
	require.NotNil(t, run.EndedAt)
	require.Equal(t, []string{string(session)}, r.store.Retired())
	require.Len(t, r.world.Hooks(), 1)
	require.Len(t, r.world.Mails(), 1)
	require.Len(t, r.world.Said(), 1)
	for _, n := range run.Notices {
		require.Equal(t, agent.NoticeSent, n.Status)
		require.NotContains(t, n.Target, "hidden")
	}
}

func TestScheduledRunOfAFailedTurn(t *testing.T) {
	r := newRota(t, daily(hook(agent.NotifyFailure), hook(agent.NotifySuccess)))
	r.world.Begin = endsWith(agent.TurnFailed, "", &agent.Failure{Type: "model_error", Message: "the provider said no"})
	out := r.run()
	require.Equal(t, "failed", out.Status, "a run that fails completes, as a turn does")
	require.Equal(t, "model_error", out.Error.Type)
	require.Equal(t, 1, out.Notified)
}

func TestScheduledRunThatIsRefused(t *testing.T) {
	r := newRota(t, daily(hook(agent.NotifyFailure)))
	r.world.Refuse = func(agent.Envelope) error { return agent.Errorf(agent.CodeDenied, "", "the key was revoked") }
	out := r.run()
	require.Equal(t, "failed", out.Status)
	require.Equal(t, "denied", out.Error.Type)
	require.Empty(t, out.TurnID)
	require.Equal(t, 1, out.Notified)
}

func TestScheduledRunWaitsForItsLimits(t *testing.T) {
	r := newRota(t, daily())
	refusals := 0
	r.world.Refuse = func(agent.Envelope) error {
		if refusals++; refusals <= 3 {
			return &agent.Error{Code: agent.CodeRateLimited, RetryAfter: 2 * time.Minute, Err: errors.New("3 turns a minute")}
		}
		return nil
	}
	before := r.env.Now()
	require.Equal(t, "completed", r.run().Status)
	require.GreaterOrEqual(t, r.env.Now().Sub(before), 6*time.Minute)
	require.Len(t, r.world.Submitted(), 1)
}

func TestScheduledRunWithoutRoomIsSkipped(t *testing.T) {
	r := newRota(t, daily(hook(agent.NotifyFailure), hook(agent.NotifySuccess)))
	r.world.Refuse = func(agent.Envelope) error {
		return &agent.Error{Code: agent.CodeRateLimited, RetryAfter: 5 * time.Hour, Err: errors.New("the budget of the day is used up")}
	}
	before := r.env.Now()
	out := r.run()
	require.Equal(t, agent.ScheduleSkipped, out.Status)
	require.Equal(t, "rate_limited", out.Error.Type)
	require.Equal(t, 1, out.Notified)
	require.Less(t, r.env.Now().Sub(before), 2*time.Hour)
}

func TestScheduledRunWaitsForAPerson(t *testing.T) {
	r := newRota(t, daily())
	var turn agent.TurnID
	r.world.Begin = func(w *schedulestest.World, id agent.TurnID, _ agent.Envelope) {
		turn = id
		w.Status(id, agent.StatusRunning)
		w.Status(id, agent.StatusWaiting)
	}
	r.env.RegisterDelayedCallback(func() {
		r.world.Status(turn, agent.StatusRunning)
		r.world.End(turn, agent.TurnCompleted, "approved", nil)
	}, 2*24*time.Hour)
	require.Equal(t, "completed", r.run().Status)
	require.Equal(t, "approved", r.stored().Output)
	require.Less(t, r.world.Follows(), 400, "two days of waiting are few looks")
	require.Greater(t, r.world.Follows(), 200)
}

func TestScheduledRunContinuesAsNewWhileItWaits(t *testing.T) {
	r := newRota(t, daily())
	r.world.Begin = func(w *schedulestest.World, id agent.TurnID, _ agent.Envelope) { w.Status(id, agent.StatusWaiting) }
	r.env.SetContinueAsNewSuggested(true)
	r.start(nil)
	var next *workflow.ContinueAsNewError
	require.ErrorAs(t, r.env.GetWorkflowError(), &next)
	var in workflows.ScheduledRunInput
	var carry *workflows.ScheduledRunCarry
	require.NoError(t, converter.GetDefaultDataConverter().FromPayloads(next.Input, &in, &carry))
	require.Equal(t, workflows.ScheduledRunInput{Tenant: "acme", Schedule: "daily"}, in)
	require.EqualValues(t, 1, carry.After)
	require.Equal(t, "running", r.stored().Status)

	r.world.End(carry.TurnID, agent.TurnCompleted, "approved", nil)
	r.renew()
	r.start(carry)
	require.NoError(t, r.env.GetWorkflowError())
	require.Equal(t, "completed", r.stored().Status)
	require.Len(t, r.world.Submitted(), 1, "the turn is not begun again")
}

func TestCancelOfAScheduledRunCancelsItsTurn(t *testing.T) {
	r := newRota(t, daily(hook(""), hook(agent.NotifyFailure)))
	r.world.Begin = func(w *schedulestest.World, id agent.TurnID, _ agent.Envelope) { w.Status(id, agent.StatusWaiting) }
	r.env.RegisterDelayedCallback(r.env.CancelWorkflow, 3*time.Hour)
	r.start(nil)
	require.True(t, temporal.IsCanceledError(r.env.GetWorkflowError()))
	require.Equal(t, "cancelled", r.stored().Status)
	require.Equal(t, "artifact://"+string(r.stored().TurnID), r.stored().ResultRef, "the turn has ended, and has a result")
	require.Len(t, r.world.Hooks(), 1)
}

func TestCancelOfAScheduledRunWhoseTurnWillNotStop(t *testing.T) {
	r := newRota(t, daily())
	r.world.Begin = func(w *schedulestest.World, id agent.TurnID, _ agent.Envelope) { w.Status(id, agent.StatusWaiting) }
	r.world.Cancelled = func(*schedulestest.World, agent.TurnID) error { return nil }
	var began time.Time
	r.env.RegisterDelayedCallback(func() {
		began = r.env.Now()
		r.env.CancelWorkflow()
	}, time.Hour)
	r.start(nil)
	require.True(t, temporal.IsCanceledError(r.env.GetWorkflowError()))
	require.Equal(t, "cancelled", r.stored().Status)
	require.Less(t, r.env.Now().Sub(began), 5*time.Minute)
}

func TestCancelOfAScheduledRunBeforeItsTurn(t *testing.T) {
	r := newRota(t, daily())
	r.world.Refuse = func(agent.Envelope) error {
		return &agent.Error{Code: agent.CodeRateLimited, RetryAfter: 5 * time.Minute, Err: errors.New("no room")}
	}
	r.env.RegisterDelayedCallback(r.env.CancelWorkflow, time.Minute)
	r.start(nil)
	require.True(t, temporal.IsCanceledError(r.env.GetWorkflowError()))
	require.Equal(t, "cancelled", r.stored().Status)
	require.Empty(t, r.world.Submitted())
}

func TestNoticesThatCannotBeSentDoNotFailTheRun(t *testing.T) {
	r := newRota(t, daily(hook(""), agent.Notification{Email: &agent.MailTarget{To: []string{"ops@example.com"}}}))
	calls := 0
	r.world.Hook = func(notifications.Webhook) (notifications.WebhookAnswer, error) {
		calls++
		return notifications.WebhookAnswer{Status: 503}, nil
	}
	r.world.Post = func(notifications.Mail) error {
		return agent.Errorf(agent.CodeInvalid, "send mail", "the server refuses it")
	}
	out := r.run()
	require.Equal(t, "completed", out.Status)
	require.Equal(t, 2, out.Unsent)
	require.Equal(t, 6, calls, "as often as is allowed")
	notices := r.stored().Notices
	require.Equal(t, agent.NoticeFailed, notices[0].Status)
	require.Equal(t, 6, notices[0].Attempts)
	require.ErrorContains(t, notices[0].Error.AsError(), "503")
	require.Equal(t, 1, notices[1].Attempts, "what is refused is not tried again")
}

func TestScheduledRunOfAScheduleThatIsGone(t *testing.T) {
	r := newRota(t, daily())
	r.store.Put(nil)
	r.start(nil)
	var refusal *temporal.ApplicationError
	require.ErrorAs(t, r.env.GetWorkflowError(), &refusal)
	require.Equal(t, "not_found", refusal.Type())
	require.Empty(t, r.world.Submitted())
}

func TestTheEndOfAScheduledRunIsStoredWhateverIsAway(t *testing.T) {
	r := newRota(t, daily())
	away := agent.Errorf(agent.CodeUnavailable, "", "the database is away")
	r.store.Break(away, away, away, away, away)
	require.Equal(t, "completed", r.run().Status)
}
