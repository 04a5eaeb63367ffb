package schedules_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/notifications"
	"github.com/turnstone-run/turnstone/internal/schedules"
	"github.com/turnstone-run/turnstone/internal/schedules/schedulestest"
)

// desk is the activities on a world in memory.
type desk struct {
	*schedules.Runs

	t     *testing.T
	store *schedulestest.Store
	world *schedulestest.World
}

func ref() schedules.RunRef {
	return schedules.RunRef{Tenant: "acme", Schedule: "beat", RunID: "r1", WorkflowID: "scheduled/acme/beat"}
}

func beat() agent.StoredSchedule {
	return agent.StoredSchedule{
		Schedule: agent.Schedule{
			Name: "beat", Tenant: "acme", Kind: agent.ScheduleHeartbeat, Message: "anything?", Every: "1h",
			Notify: []agent.Notification{
				{Webhook: &agent.HookTarget{URL: "https://hooks.example.com/in?token=hidden", Auth: "hooks"}},
				{Email: &agent.MailTarget{To: []string{"ops@example.com"}}},
				{Telegram: &agent.PersonTarget{User: "ann"}},
			},
		},
		Principal: agent.Principal{Method: agent.MethodKey, Tenant: "acme", Scopes: []string{"*"}},
	}
}

func newDesk(t *testing.T, s agent.StoredSchedule, change ...func(*schedules.Config)) *desk {
	t.Helper()
	d := &desk{t: t, store: schedulestest.NewStore(s)}
	d.world = schedulestest.NewWorld(d.store)
	c := schedules.Config{
		Store: d.store, Inbox: d.world, Webhooks: schedulestest.Webhooks{World: d.world}, Mailer: schedulestest.Mailer{World: d.world}, People: d.world,
		Watch: 20 * time.Millisecond,
	}
	for _, f := range change {
		f(&c)
	}
	var err error
	d.Runs, err = schedules.New(c)
	require.NoError(t, err)
	return d
}

func (d *desk) submit() schedules.SubmitResult {
	d.t.Helper()
	out, err := d.Submit(d.t.Context(), ref())
	require.NoError(d.t, err)
	return out
}

// finish runs it to the end, with an answer.
func (d *desk) finish(status agent.TurnStatus, text string) schedules.FinishResult {
	d.t.Helper()
	turn := d.submit().TurnID
	d.world.End(turn, status, text, nil)
	out, err := d.Finish(d.t.Context(), schedules.FinishInput{RunRef: ref(), TurnID: turn, At: time.Date(2026, 11, 21, 12, 1, 0, 0, time.UTC)})
	require.NoError(d.t, err)
	return out
}

func (d *desk) run() agent.ScheduleRun { return d.store.Runs()["r1"] }

func TestSubmitTwiceIsOneTurn(t *testing.T) {
	d := newDesk(t, beat())
	first := d.submit()
	require.Equal(t, first, d.submit())
	sent := d.world.Submitted()
	require.Len(t, sent, 2)
	require.Equal(t, sent[0], sent[1], "the same key: the inbox joins the turn")
	require.Equal(t, "heartbeat", sent[0].Channel)
	require.Equal(t, "schedule/beat/r1", sent[0].Request.IdempotencyKey)
	require.EqualValues(t, "schedule-beat-r1", sent[0].Request.SessionID)
	require.NoError(t, sent[0].Request.Validate(0))
}

func TestSubmitRefusals(t *testing.T) {
	for _, c := range []struct {
		err  error
		want schedules.SubmitResult
		fail bool
	}{
		{err: agent.Errorf(agent.CodeDenied, "", "no"), want: schedules.SubmitResult{Refusal: &agent.Failure{Type: "denied", Message: "no"}}},
		{err: agent.Errorf(agent.CodeConflict, "", "no"), want: schedules.SubmitResult{Refusal: &agent.Failure{Type: "conflict", Message: "no"}}},
		{
			err:  &agent.Error{Code: agent.CodeRateLimited, RetryAfter: 90 * time.Second, Err: errors.New("no room")},
			want: schedules.SubmitResult{RetryAfterMS: 90_000, Refusal: &agent.Failure{Type: "rate_limited", Message: "no room", Retryable: true}},
		},
		{
			err:  agent.Errorf(agent.CodeRateLimited, "", "no room"),
			want: schedules.SubmitResult{RetryAfterMS: 30_000, Refusal: &agent.Failure{Type: "rate_limited", Message: "no room", Retryable: true}},
		},
		{err: agent.Errorf(agent.CodeUnavailable, "", "away"), fail: true},
		{err: errors.New("away"), fail: true},
	} {
		d := newDesk(t, beat())
		d.world.Refuse = func(agent.Envelope) error { return c.err }
		out, err := d.Submit(t.Context(), ref())
		if c.fail {
			require.Error(t, err)
			require.True(t, agent.CodeOf(err).Retryable())
			continue
		}
		require.NoError(t, err)
		require.Equal(t, c.want, out)
		require.Equal(t, agent.ScheduleRunning, d.run().Status, "it is recorded before it is submitted")
	}
	d := newDesk(t, beat())
	d.world.Refuse = func(agent.Envelope) error {
		return agent.Errorf(agent.CodeInvalid, "", "%s", strings.Repeat("é", 2000))
	}
	require.Less(t, len(d.submit().Refusal.Message), 600)
	other := ref()
	other.Schedule = "gone"
	out, err := d.Submit(t.Context(), other)
	require.NoError(t, err)
	require.True(t, out.Gone)
}

func (d *desk) await(in schedules.AwaitInput) schedules.AwaitResult {
	d.t.Helper()
	out, err := d.Await(d.t.Context(), in, nil)
	require.NoError(d.t, err)
	return out
}

func TestAwait(t *testing.T) {
	d := newDesk(t, beat())
	id := d.submit().TurnID
	require.Equal(t, schedules.AwaitResult{}, d.await(schedules.AwaitInput{TurnID: id}), "the time is over")
	d.world.Status(id, agent.StatusRunning)
	require.Equal(t, schedules.AwaitResult{After: 1}, d.await(schedules.AwaitInput{TurnID: id}))
	d.world.Status(id, agent.StatusWaiting)
	require.Equal(t, schedules.AwaitResult{After: 2, Waiting: true}, d.await(schedules.AwaitInput{TurnID: id, After: 1}))
	require.Equal(t, schedules.AwaitResult{After: 2, Waiting: true}, d.await(schedules.AwaitInput{TurnID: id, After: 2, Waiting: true}))
	d.world.Status(id, agent.StatusRunning)
	require.Equal(t, schedules.AwaitResult{After: 3}, d.await(schedules.AwaitInput{TurnID: id, After: 2, Waiting: true}))
	go func() { d.world.End(id, agent.TurnCompleted, "done", nil) }()
	require.Eventually(t, func() bool { return d.await(schedules.AwaitInput{TurnID: id, After: 3}).Over }, 10*time.Second, time.Millisecond)
	require.True(t, d.await(schedules.AwaitInput{TurnID: id, After: 99}).Over, "the store knows, whatever the log has")
}

func TestAwaitOfATurnThatNeverBegan(t *testing.T) {
	d := newDesk(t, beat())
	id := d.submit().TurnID
	refused := &agent.AgentStepOutput{Status: agent.TurnFailed, Error: &agent.Failure{Type: "invalid", Message: "no"}}
	d.world.Emit(id, agent.Event{Type: agent.EventStatus, Status: agent.StatusFailed, Result: refused})
	out := d.await(schedules.AwaitInput{TurnID: id})
	require.Equal(t, schedules.AwaitResult{Over: true, After: 1, Refusal: &agent.Failure{Type: "invalid", Message: "no"}}, out)
	done, err := d.Finish(t.Context(), schedules.FinishInput{RunRef: ref(), TurnID: id, Failure: out.Refusal})
	require.NoError(t, err)
	require.Equal(t, "failed", done.Status)
	require.Equal(t, "invalid", done.Error.Type)
}

func TestAwaitEndsWithItsActivity(t *testing.T) {
	d := newDesk(t, beat(), func(c *schedules.Config) { c.Watch = time.Hour })
	id := d.submit().TurnID
	ctx, stop := context.WithCancel(t.Context())
	time.AfterFunc(10*time.Millisecond, stop)
	_, err := d.Await(ctx, schedules.AwaitInput{TurnID: id}, nil)
	require.ErrorIs(t, err, context.Canceled)
}

func TestCancel(t *testing.T) {
	d := newDesk(t, beat())
	id := d.submit().TurnID
	require.NoError(t, d.Cancel(t.Context(), id))
	require.True(t, d.await(schedules.AwaitInput{TurnID: id}).Over)
	for code, fails := range map[agent.Code]bool{agent.CodeConflict: false, agent.CodeNotFound: false, agent.CodeUnavailable: true} {
		d.world.Cancelled = func(*schedulestest.World, agent.TurnID) error { return agent.Errorf(code, "", "x") }
		require.Equal(t, fails, d.Cancel(t.Context(), id) != nil, code)
	}
}

func TestQuietHeartbeats(t *testing.T) {
	for _, c := range []struct {
		kind, quiet, answer string
		want                bool
	}{
		{agent.ScheduleHeartbeat, "", "HEARTBEAT_OK", true},
		{agent.ScheduleHeartbeat, "", " HEARTBEAT_OK\n", true},
		{agent.ScheduleHeartbeat, "", "HEARTBEAT_OK. All is well.", false},
		{agent.ScheduleHeartbeat, "", "", false},
		{agent.ScheduleHeartbeat, "nothing new", "nothing new", true},
		{agent.ScheduleHeartbeat, "nothing new", "HEARTBEAT_OK", false},
		{agent.ScheduleRuns, "", "HEARTBEAT_OK", false},
	} {
		s := beat()
		s.Kind, s.Quiet = c.kind, c.quiet
		d := newDesk(t, s)
		out := d.finish(agent.TurnCompleted, c.answer)
		require.Equal(t, c.want, len(out.Notify) == 0, "%+v", c)
		require.Equal(t, c.want, d.run().Quiet, "%+v", c)
	}
	d := newDesk(t, beat())
	require.Len(t, d.finish(agent.TurnFailed, "HEARTBEAT_OK").Notify, 3, "a heartbeat that failed is told of")
}

func TestWhoIsToldOfWhat(t *testing.T) {
	for _, c := range []struct{ status, want string }{
		{"completed", "always success change"}, {"failed", "always failure change"}, {"cancelled", "always"}, {agent.ScheduleSkipped, "always failure"},
	} {
		s := beat()
		s.Kind = agent.ScheduleRuns
		on := []string{"", agent.NotifyAlways, agent.NotifySuccess, agent.NotifyFailure, agent.NotifyChange}
		s.Notify = nil
		for _, when := range on {
			s.Notify = append(s.Notify, agent.Notification{On: when, Telegram: &agent.PersonTarget{User: "ann"}})
		}
		d := newDesk(t, s)
		d.submit()
		out, err := d.Finish(t.Context(), schedules.FinishInput{RunRef: ref(), Status: c.status})
		require.NoError(t, err)
		var told []string
		for _, position := range out.Notify {
			if on[position] != "" {
				told = append(told, on[position])
			}
		}
		require.Equal(t, c.want, strings.Join(told, " "), c.status)
	}
}

func (d *desk) notify(position int) (schedules.NotifyResult, error) {
	d.t.Helper()
	return d.Notify(d.t.Context(), schedules.NotifyInput{RunRef: ref(), Position: position}, 1)
}

func TestNotices(t *testing.T) {
	d := newDesk(t, beat())
	long := strings.Repeat("é", 5000)
	require.Equal(t, []int{0, 1, 2}, d.finish(agent.TurnCompleted, long).Notify)
	for i := range 3 {
		out, err := d.notify(i)
		require.NoError(t, err)
		require.True(t, out.Sent)
		out, err = d.notify(i)
		require.NoError(t, err)
		require.True(t, out.Sent, "once")
	}
	hooks, mails, said := d.world.Hooks(), d.world.Mails(), d.world.Said()
	require.Len(t, hooks, 1)
	require.Len(t, mails, 1)
	require.Len(t, said, 1)

	require.Equal(t, "POST", hooks[0].Method)
	require.Equal(t, "acme", hooks[0].Tenant)
	require.Equal(t, "hooks", hooks[0].Auth)
	require.NotEmpty(t, hooks[0].Key)
	require.NotEqual(t, hooks[0].Key, mails[0].ID)
	var body map[string]any
	require.NoError(t, json.Unmarshal(hooks[0].Body, &body))
	output, ok := body["output"].(string)
	require.True(t, ok)
	require.Less(t, len(output), 4200)
	delete(body, "output")
	require.Equal(t, map[string]any{
		"schedule": "beat", "tenant": "acme", "kind": "heartbeat", "run_id": "r1", "turn_id": "turn-of-schedule-beat-r1",
		"session_id": "schedule-beat-r1", "status": "completed", "result_ref": "artifact://turn-of-schedule-beat-r1", "error": nil,
		"started_at": "2026-11-21T12:00:00Z", "ended_at": "2026-11-21T12:01:00Z",
	}, body)
	require.Equal(t, "Schedule beat: completed", mails[0].Subject)
	require.Contains(t, mails[0].Body, "schedule-beat-r1")
	require.True(t, strings.HasPrefix(said[0], "acme/ann: Schedule beat: completed"))
	require.Less(t, len(said[0]), 4096)
}

func TestNoticesThatGoWrong(t *testing.T) {
	unknown := fmt.Errorf("call webhook: %w", notifications.ErrUnknown)
	for _, c := range []struct {
		name     string
		position int
		set      func(w *schedulestest.World)
		again    bool
		kind     string
	}{
		{"webhook says no", 0, func(w *schedulestest.World) { w.Hook = says(404, 0) }, false, "denied"},
		{"webhook redirects", 0, func(w *schedulestest.World) { w.Hook = says(302, 0) }, false, "denied"},
		{"webhook is away", 0, func(w *schedulestest.World) { w.Hook = says(503, time.Hour) }, true, "unavailable"},
		{"webhook is busy", 0, func(w *schedulestest.World) { w.Hook = says(429, 0) }, true, "unavailable"},
		{"webhook does not answer", 0, func(w *schedulestest.World) {
			w.Hook = func(notifications.Webhook) (notifications.WebhookAnswer, error) {
				return notifications.WebhookAnswer{}, unknown
			}
		}, true, agent.OutcomeUnknown},
		{"egress forbids", 0, func(w *schedulestest.World) {
			w.Hook = func(notifications.Webhook) (notifications.WebhookAnswer, error) {
				return notifications.WebhookAnswer{}, agent.Errorf(agent.CodeDenied, "", "private address")
			}
		}, false, "denied"},
		{"mail may be on its way", 1, func(w *schedulestest.World) { w.Post = func(notifications.Mail) error { return unknown } }, false, agent.OutcomeUnknown},
		{"no chat is linked", 2, func(w *schedulestest.World) {
			w.Say = func(string, string, string) error { return agent.Errorf(agent.CodeNotFound, "", "no chat") }
		}, false, "not_found"},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := newDesk(t, beat())
			d.finish(agent.TurnCompleted, "news")
			c.set(d.world)
			out, err := d.notify(c.position)
			require.False(t, out.Sent)
			require.Equal(t, c.again, err != nil)
			if c.again {
				var retry *schedules.RetryError
				require.ErrorAs(t, err, &retry)
				require.LessOrEqual(t, retry.After, time.Minute)
			}
			n := d.run().Notices[c.position]
			require.Equal(t, agent.NoticeFailed, n.Status)
			require.Equal(t, c.kind, n.Error.Type)
			require.NotContains(t, n.Error.Message, "hidden")
		})
	}
}

func says(status int, wait time.Duration) func(notifications.Webhook) (notifications.WebhookAnswer, error) {
	return func(notifications.Webhook) (notifications.WebhookAnswer, error) {
		return notifications.WebhookAnswer{Status: status, RetryAfter: wait}, nil
	}
}

func TestNoticesOfAScheduleThatChanged(t *testing.T) {
	d := newDesk(t, beat())
	d.finish(agent.TurnCompleted, "news")
	changed := beat()
	changed.Notify[0].Webhook.URL = "https://other.example.com/"
	changed.Notify = changed.Notify[:2]
	d.store.Put(&changed)
	for _, position := range []int{0, 2} {
		out, err := d.notify(position)
		require.NoError(t, err)
		require.False(t, out.Sent)
		require.Equal(t, "invalid", d.run().Notices[position].Error.Type)
	}
	require.Empty(t, d.world.Hooks())
}

func TestNoticesWithoutAWayToSendThem(t *testing.T) {
	d := newDesk(t, beat(), func(c *schedules.Config) { c.Webhooks, c.Mailer, c.People = nil, nil, nil })
	d.finish(agent.TurnCompleted, "news")
	for i, kind := range []string{"webhook", "email", "telegram"} {
		out, err := d.notify(i)
		require.NoError(t, err)
		require.False(t, out.Sent)
		require.Contains(t, d.run().Notices[i].Error.Message, kind)
	}
}

func TestConfig(t *testing.T) {
	for _, c := range []schedules.Config{{}, {Store: schedulestest.NewStore(beat())}} {
		_, err := schedules.New(c)
		require.ErrorContains(t, err, "is missing")
	}
}
