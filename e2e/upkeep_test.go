package e2e_test

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
	"go.temporal.io/api/serviceerror"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/client"
	"github.com/turnstone-run/turnstone/internal/app"
	"github.com/turnstone-run/turnstone/internal/erasure"
	"github.com/turnstone-run/turnstone/turnstonetest"
	"github.com/turnstone-run/turnstone/workflows"
)

// asks asks an agent something on a user's behalf, in a tenant.
func (s *system) asks(tenant, user, session, message string) agent.TurnID {
	s.t.Helper()
	out, _ := s.run(agent.TurnRequest{
		SessionID: agent.SessionID(session), Message: message, Context: agent.InvocationContext{Tenant: tenant, UserID: user},
	})
	require.Equal(s.t, agent.TurnCompleted, out.Status, "%+v", out.Error)
	s.closed(out.TurnID)
	return out.TurnID
}

// TestRetention: the schedule is there, can be watched, paused and run; what is too old goes and the rest stays, of each tenant as its policy says.
func TestRetention(t *testing.T) {
	t.Parallel()
	provider := turnstonetest.NewModel(t, turnstonetest.Say("of no use in a year"))
	s := start(t, provider.Use, func(c *app.Config) {
		c.Retention.Keep.Transcripts, c.Retention.Keep.Results = "365d", "365d"
		c.Retention.Tenants = []app.TenantRetention{{Tenant: "brief", RetentionKeep: app.RetentionKeep{Transcripts: "30d", Results: "30d", Traces: "30d"}}}
	})
	id := workflows.RetentionID(s.set.Temporal.TaskQueue)
	require.Eventually(t, func() bool {
		r, err := s.client.Retention(t.Context(), "", agent.Page{})
		return err == nil && r.Schedule.Scheduled && !r.Schedule.Paused && r.Schedule.ID == id
	}, 30*time.Second, 50*time.Millisecond, "the worker makes it")

	old, kept, other := s.asks("brief", "ann", "brief-old", "hello"), s.asks("brief", "ann", "brief-new", "hello"), s.asks("lasting", "ann", "lasting-old", "hello")
	db, err := pgx.Connect(t.Context(), s.set.Database.URL.Reveal())
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, db.Close(context.WithoutCancel(t.Context()))) })
	for _, sql := range []string{
		`UPDATE turns SET created_at = created_at - interval '60 days', held_at = held_at - interval '60 days', finished_at = finished_at - interval '60 days' WHERE turn_id = ANY($1)`,
		`UPDATE streams SET closed_at = closed_at - interval '60 days' WHERE stream_id = ANY($1)`,
	} {
		done, err := db.Exec(t.Context(), sql, []string{string(old), string(other)})
		require.NoError(t, err)
		require.Equal(t, int64(2), done.RowsAffected())
	}

	status, err := s.client.PauseRetention(t.Context(), true, "a restore is under way")
	require.NoError(t, err)
	require.True(t, status.Paused)
	described, err := s.Temporal().ScheduleClient().GetHandle(t.Context(), id).Describe(t.Context())
	require.NoError(t, err)
	require.True(t, described.Schedule.State.Paused, "as Temporal has it")
	require.Equal(t, "a restore is under way", described.Schedule.State.Note)
	_, err = s.client.PauseRetention(t.Context(), false, "done")
	require.NoError(t, err)

	_, err = s.client.RunRetention(t.Context())
	require.NoError(t, err)
	var run string
	require.Eventually(t, func() bool {
		d, err := s.Temporal().ScheduleClient().GetHandle(t.Context(), id).Describe(t.Context())
		if err != nil || len(d.Info.RecentActions) == 0 {
			return false
		}
		run = d.Info.RecentActions[0].StartWorkflowResult.WorkflowID
		return true
	}, 30*time.Second, 50*time.Millisecond)
	var result workflows.RetentionResult
	require.NoError(t, s.Temporal().GetWorkflow(t.Context(), run, "").Get(t.Context(), &result))
	require.Zero(t, result.Failed, "%+v", result)
	require.Positive(t, result.Removed)
	s.replay("retention", run, "")

	messages := func(tenant, session string) int {
		var page struct{ Messages []json.RawMessage }
		require.NoError(t, json.Unmarshal(s.getAs(tenant, "/v1/sessions/"+session+"/messages"), &page))
		return len(page.Messages)
	}
	require.Equal(t, 2, messages("brief", "brief-new"))
	require.Equal(t, 2, messages("lasting", "lasting-old"))
	var left int
	require.NoError(t, db.QueryRow(t.Context(), `SELECT count(*) FROM messages WHERE turn_id = $1`, string(old)).Scan(&left))
	require.Zero(t, left)
	require.Contains(t, string(s.getAs("brief", "/v1/results/"+string(kept))), "of no use in a year")
	_, err = s.of("brief").Result(t.Context(), string(old))
	require.Equal(t, agent.CodeNotFound, agent.CodeOf(err))
	require.ErrorContains(t, err, "has expired")
	_, err = s.client.Start(t.Context(), agent.TurnRequest{TurnID: old, SessionID: "brief-old", Message: "hello", Context: agent.InvocationContext{Tenant: "brief", UserID: "ann"}})
	require.NoError(t, err)
	state, err := s.of("brief").Turn(t.Context(), old)
	require.NoError(t, err)
	require.NotNil(t, state.Output, "it has ended, whatever it said")
	require.Equal(t, agent.TurnCompleted, state.Output.Status)
	require.Len(t, provider.Requests(), 3, "what is forgotten does not run again")
}

// of is a client of a tenant.
func (s *system) of(tenant string) *client.Client {
	s.t.Helper()
	c, err := client.New(client.Config{Server: "http://" + s.HTTPAddr(), Tenant: tenant})
	require.NoError(s.t, err)
	return c
}

// getAs reads a path as a tenant.
func (s *system) getAs(tenant, path string) []byte {
	s.t.Helper()
	return s.get(path + "?tenant=" + tenant)
}

// TestErasure: what is kept of one user goes, from the database, the content and Temporal, and the report says so; others are as they were.
func TestErasure(t *testing.T) {
	t.Parallel()
	provider := turnstonetest.NewModel(t, turnstonetest.Say("noted"))
	s := start(t, provider.Use)
	const word = "heliotrope" // that only Ann uses
	ann, shared := s.asks("acme", "ann", "of-ann", "my colour is "+word), s.asks("acme", "ann", "of-both", "again, "+word)
	bob, stranger := s.asks("acme", "bob", "of-both", "and mine is blue"), s.asks("zeta", "ann", "elsewhere", "another ann")

	acme := s.of("acme")
	dry, err := acme.Erase(t.Context(), erasure.Request{Tenant: "acme", UserID: "ann", Reason: "ticket 1", DryRun: true})
	require.NoError(t, err)
	would := erased(t, acme, dry.ID)
	require.Equal(t, int64(2), would.Report.Turns)
	require.NotEmpty(t, s.history(ann.WorkflowID(), "").GetEvents(), "nothing is changed")

	e, err := acme.Erase(t.Context(), erasure.Request{Tenant: "acme", UserID: "ann", Reason: "ticket 1"})
	require.NoError(t, err)
	workflowID := workflows.ErasureID("acme", e.ID)
	done := erased(t, acme, e.ID)
	require.Equal(t, erasure.StatusCompleted, done.Status, "%+v", done)
	require.Zero(t, done.Report.Remaining())
	require.Equal(t, int64(2), done.Report.Executions.Deleted)
	s.closedWorkflow(workflowID)
	require.NotContains(t, s.replay("erasure", workflowID, "").String(), `"ann"`, "its history does not name him")

	for _, gone := range []agent.TurnID{ann, shared} {
		_, err := acme.Turn(t.Context(), gone)
		require.Equal(t, agent.CodeNotFound, agent.CodeOf(err))
		_, err = s.Temporal().DescribeWorkflowExecution(t.Context(), gone.WorkflowID(), "")
		var missing *serviceerror.NotFound
		require.ErrorAs(t, err, &missing)
	}
	for _, stays := range []agent.TurnID{bob, stranger} {
		s.replay("", stays.WorkflowID(), "")
	}
	requireNowhere(t, s.set, word)
	next := s.asks("acme", "bob", "of-both", "what was mine?")
	require.NotEmpty(t, next)
	last := provider.Requests()[len(provider.Requests())-1].Body
	require.Contains(t, last, "and mine is blue", "the session goes on")
	require.NotContains(t, last, word)
}

// erased waits for the end of an erasure.
func erased(t *testing.T, door *client.Client, id string) (e erasure.Erasure) {
	t.Helper()
	require.Eventually(t, func() bool {
		var err error
		e, err = door.Erasure(t.Context(), id)
		require.NoError(t, err)
		return e.Report != nil || e.Status == erasure.StatusFailed
	}, 3*time.Minute, 50*time.Millisecond, "its end: Temporal deletes histories in its own time")
	require.NotNil(t, e.Report, "%+v", e)
	return e
}

func (s *system) closedWorkflow(id string) {
	s.t.Helper()
	require.NoError(s.t, s.Temporal().GetWorkflow(s.t.Context(), id, "").Get(s.t.Context(), nil))
}
