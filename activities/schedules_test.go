package activities_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/temporal"

	"github.com/turnstone-run/turnstone/activities"
	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/notifications"
	"github.com/turnstone-run/turnstone/internal/schedules"
	"github.com/turnstone-run/turnstone/internal/schedules/schedulestest"
)

func TestNotifyScheduledRunRetriesAfterThePauseAskedFor(t *testing.T) {
	store := schedulestest.NewStore(agent.StoredSchedule{Schedule: agent.Schedule{
		Name: "beat", Tenant: "acme", Notify: []agent.Notification{{Webhook: &agent.HookTarget{URL: "https://hooks.example.com/in"}}},
	}})
	world := schedulestest.NewWorld(store)
	world.Refuse = func(agent.Envelope) error { return agent.Errorf(agent.CodeUnavailable, "", "away") }
	world.Hook = func(notifications.Webhook) (notifications.WebhookAnswer, error) {
		return notifications.WebhookAnswer{Status: 503, RetryAfter: 7 * time.Second}, nil
	}
	runs, err := schedules.New(schedules.Config{Store: store, Inbox: world, Webhooks: schedulestest.Webhooks{World: world}})
	require.NoError(t, err)
	a := activities.NewSchedules(runs)
	ref := schedules.RunRef{Tenant: "acme", Schedule: "beat", RunID: "r1"}

	_, err = a.SubmitScheduledRun(t.Context(), ref)
	requireRetry(t, err, "unavailable", 0)
	_, err = a.FinishScheduledRun(t.Context(), schedules.FinishInput{RunRef: ref, Status: "failed"})
	require.NoError(t, err)
	_, err = a.NotifyScheduledRun(t.Context(), schedules.NotifyInput{RunRef: ref})
	requireRetry(t, err, "unavailable", 7*time.Second)

	ctx, stop := context.WithCancel(t.Context())
	stop()
	_, err = a.AwaitScheduledRun(ctx, schedules.AwaitInput{TurnID: "t1"})
	require.ErrorIs(t, err, context.Canceled)
}

func requireRetry(t *testing.T, err error, kind string, after time.Duration) {
	t.Helper()
	var failed *temporal.ApplicationError
	require.ErrorAs(t, err, &failed)
	require.False(t, failed.NonRetryable())
	require.Equal(t, kind, failed.Type())
	require.Equal(t, after, failed.NextRetryDelay())
}
