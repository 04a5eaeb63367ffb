package e2e_test

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/api/workflowservice/v1"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/app"
)

// hookSink is a receiver of webhooks that refuses the first attempt of each.
type hookSink struct {
	url  string
	mu   sync.Mutex
	keys map[string]int // attempts by idempotency key
	got  []map[string]any
}

func startHooks(t *testing.T) *hookSink {
	t.Helper()
	h := &hookSink{keys: map[string]int{}}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		h.mu.Lock()
		defer h.mu.Unlock()
		key := r.Header.Get("Idempotency-Key")
		if h.keys[key]++; key == "" || err != nil || h.keys[key] == 1 {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		var told map[string]any
		if json.Unmarshal(body, &told) == nil {
			h.got = append(h.got, told)
		}
	}))
	t.Cleanup(server.Close)
	h.url = server.URL
	return h
}

func (h *hookSink) heard() []map[string]any {
	h.mu.Lock()
	defer h.mu.Unlock()
	return append([]map[string]any{}, h.got...)
}

// allowed lets requests reach a server of the test.
func allowed(t *testing.T, address string) func(*app.Config) {
	t.Helper()
	u, err := url.Parse(address)
	require.NoError(t, err)
	return func(c *app.Config) { c.Egress.AllowPrivate = append(c.Egress.AllowPrivate, u.Host) }
}

// ended waits until so many runs of a schedule have ended and all of their notices are out, and returns them, newest first. A run whose turn
// waited for a person is looked at a minute later.
func (s *system) ended(name string, n int) (ended []agent.ScheduleRun) {
	s.t.Helper()
	require.Eventually(s.t, func() bool {
		page, err := s.client.ScheduleRuns(s.t.Context(), name, agent.Page{Size: 100})
		ended = nil
		for i := range page.Runs {
			open := slices.ContainsFunc(page.Runs[i].Notices, func(n agent.ScheduleNotice) bool { return n.Status != agent.NoticeSent })
			if page.Runs[i].EndedAt != nil && !open {
				ended = append(ended, page.Runs[i])
			}
		}
		return err == nil && len(ended) >= n
	}, 3*time.Minute, 50*time.Millisecond, "%d runs of %s", n, name)
	return ended
}

// settled waits for the end of a workflow, so that its history is whole.
func (s *system) settled(workflowID string) {
	s.t.Helper()
	require.NoError(s.t, s.Temporal().GetWorkflow(s.t.Context(), workflowID, "").Get(s.t.Context(), nil))
}

// A schedule runs by the clock: turns with a fresh history in sessions of their own, stored, told of, and marked inactive.
func TestScheduledRuns(t *testing.T) {
	t.Parallel()
	hook, sink := startHooks(t), startSMTPSink(t)
	s := start(t, allowed(t, hook.url), func(c *app.Config) {
		c.Workflows.SMTP = app.SMTP{Addr: sink.addr, From: "turnstone@localhost", TLS: "none"}
	})
	made, err := s.client.CreateSchedule(t.Context(), &agent.Schedule{
		Name: "often", Message: "say 3 words", Cron: []string{"*/2 * * * * * *"}, Notify: []agent.Notification{
			{Webhook: &agent.HookTarget{URL: hook.url + "/told"}}, {On: agent.NotifySuccess, Email: &agent.MailTarget{To: []string{"ops@localhost"}}},
		},
	})
	require.NoError(t, err)
	require.False(t, made.Paused)
	runs := s.ended("often", 2)
	_, err = s.client.PauseSchedule(t.Context(), "often", true, "enough")
	require.NoError(t, err)
	require.NotEqual(t, runs[0].TurnID, runs[1].TurnID)
	require.NotEqual(t, runs[0].SessionID, runs[1].SessionID)
	for i := range runs[:2] {
		r := &runs[i]
		require.Equal(t, "completed", r.Status, "%+v", r.Error)
		require.True(t, strings.HasPrefix(r.Workflow, "scheduled/default/often-"), r.Workflow)
		require.Len(t, strings.Fields(r.Output), 3)
		require.NotEmpty(t, r.ResultRef)
		require.Len(t, r.Notices, 2)
		for _, n := range r.Notices {
			require.Equal(t, agent.NoticeSent, n.Status, "%+v", n)
		}
		s.settled(r.Workflow)
		s.replay("scheduled_run", r.Workflow, "")
	}
	require.GreaterOrEqual(t, len(hook.heard()), 2, "each after an attempt that was refused")
	require.Equal(t, "often", hook.heard()[0]["schedule"])
	sink.mu.Lock()
	require.GreaterOrEqual(t, len(sink.mails), 2)
	sink.mu.Unlock()

	last := runs[0]
	export := string(s.get("/v1/sessions/" + string(last.SessionID) + "/export"))
	require.Contains(t, export, `"inactive_at"`)
	out, _ := s.run(agent.TurnRequest{Message: "say 2 words", SessionID: last.SessionID})
	require.Equal(t, agent.TurnCompleted, out.Status)
	require.NotContains(t, string(s.get("/v1/sessions/"+string(last.SessionID)+"/export")), `"inactive_at"`, "somebody goes on with it")

	shown, err := s.client.Schedule(t.Context(), "often")
	require.NoError(t, err)
	require.True(t, shown.Paused)
	require.Equal(t, "enough", shown.Note)
	require.NoError(t, s.client.DeleteSchedule(t.Context(), "often"))
	_, err = s.client.Schedule(t.Context(), "often")
	require.Equal(t, agent.CodeNotFound, agent.CodeOf(err))
}

// Two triggers are two runs, also within a second; a heartbeat with nothing to say tells nobody; a turn that fails is a run that failed.
func TestTriggeredSchedules(t *testing.T) {
	t.Parallel()
	hook := startHooks(t)
	s := start(t, allowed(t, hook.url))
	told := []agent.Notification{{Webhook: &agent.HookTarget{URL: hook.url}}}
	for _, schedule := range []agent.Schedule{
		{Name: "twice", Message: "say 2 words", Every: "24h"},
		{Name: "pulse", Message: "say 1 word", Quiet: "word1", Kind: agent.ScheduleHeartbeat, Every: "24h", Notify: told},
		{Name: "waits", Message: "add email notification whenever price drops below $500", Every: "24h", Notify: told},
	} {
		_, err := s.client.CreateSchedule(t.Context(), &schedule)
		require.NoError(t, err)
		_, err = s.client.CreateSchedule(t.Context(), &schedule)
		require.Equal(t, agent.CodeConflict, agent.CodeOf(err), "%v", err)
	}
	for range 2 {
		_, err := s.client.TriggerSchedule(t.Context(), "twice")
		require.NoError(t, err)
	}
	twice := s.ended("twice", 2)
	require.Len(t, twice, 2)
	require.NotEqual(t, twice[0].TurnID, twice[1].TurnID)

	_, err := s.client.TriggerSchedule(t.Context(), "pulse")
	require.NoError(t, err)
	pulse := s.ended("pulse", 1)[0]
	require.True(t, pulse.Quiet, "%+v", pulse)
	require.Empty(t, pulse.Notices)
	s.settled(pulse.Workflow)
	s.replay("scheduled_heartbeat", pulse.Workflow, "")

	// A run whose turn waits for a person waits too, and goes on with the decision.
	_, err = s.client.TriggerSchedule(t.Context(), "waits")
	require.NoError(t, err)
	var waiting []agent.Approval
	require.Eventually(t, func() bool {
		page, err := s.client.Approvals(t.Context(), agent.ApprovalQuery{State: "pending"})
		waiting = page.Approvals
		return err == nil && len(waiting) == 1
	}, time.Minute, 50*time.Millisecond)
	require.NoError(t, s.client.Decide(t.Context(), waiting[0].TurnID, agent.Decision{
		ApprovalID: waiting[0].ApprovalID, Decision: agent.DecisionReject, Message: "no", By: "ann",
	}))
	decided := s.ended("waits", 1)[0]
	require.Equal(t, "completed", decided.Status)
	s.settled(decided.Workflow)
	s.replay("scheduled_pause", decided.Workflow, "")

	// A run that is cancelled cancels its turn.
	triggered, err := s.client.TriggerSchedule(t.Context(), "waits")
	require.NoError(t, err)
	require.Eventually(t, func() bool {
		page, err := s.client.Approvals(t.Context(), agent.ApprovalQuery{State: "pending"})
		return err == nil && len(page.Approvals) == 1
	}, time.Minute, 50*time.Millisecond)
	require.NoError(t, s.Temporal().CancelWorkflow(t.Context(), triggered.WorkflowID, ""))
	cancelled := s.ended("waits", 2)[0]
	require.Equal(t, "cancelled", cancelled.Status)
	require.Error(t, s.Temporal().GetWorkflow(t.Context(), triggered.WorkflowID, "").Get(t.Context(), nil), "a workflow that was cancelled is")
	s.replay("scheduled_cancelled", triggered.WorkflowID, "")
	require.Len(t, hook.heard(), 2)
}

// What a schedule may not say is refused with the field's name, and nothing of it is kept.
func TestBadSchedules(t *testing.T) {
	t.Parallel()
	s := start(t)
	for body, field := range map[string]string{
		`{"name":"a","message":"m","cron":["0 7 32 * *"]}`:                            "cron[0]",
		`{"name":"a","message":"m","cron":["soon"]}`:                                  "cron[0]",
		`{"name":"a","message":"m","every":"1h","time_zone":"Mars/Base"}`:             "time_zone",
		`{"name":"a b","message":"m","every":"1h"}`:                                   "name",
		`{"name":"a","every":"1h"}`:                                                   "message",
		`{"name":"a","message":"m"}`:                                                  "cron",
		`{"name":"a","message":"m","every":"1h","agent":"nobody"}`:                    "agent",
		`{"name":"a","message":"m","every":"1h","agent":"analyst","model":"nothing"}`: "model",
		`{"name":"a","message":"m","every":"1h","overlap":"maybe"}`:                   "overlap",
		`{"name":"a","message":"m","every":"1h","notify":[{}]}`:                       "notify[0]",
		`{"name":"a","message":"m","every":"1h","when":"now"}`:                        "when",
	} {
		got := s.request("", http.MethodPost, "/v1/schedules", body)
		require.GreaterOrEqual(t, got.status, 400, body)
		require.Less(t, got.status, 500, "%s: %s", body, got.body)
		require.Contains(t, string(got.body), `"field":"`+field, "%s: %s", body, got.body)
	}
	require.JSONEq(t, `{"schedules":[],"next_page_token":""}`, string(s.get("/v1/schedules")))
	list, err := s.Temporal().WorkflowService().ListSchedules(t.Context(), &workflowservice.ListSchedulesRequest{Namespace: s.set.Temporal.Namespace, MaximumPageSize: 1000})
	require.NoError(t, err)
	for _, entry := range list.GetSchedules() {
		require.NotEqual(t, "schedule/default/a", entry.GetScheduleId())
	}
}
