package e2e_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"
	historypb "go.temporal.io/api/history/v1"
	"go.temporal.io/api/temporalproto"
	sdkclient "go.temporal.io/sdk/client"
	sdkworker "go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"github.com/turnstone-run/turnstone/activities"
	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/app"
	"github.com/turnstone-run/turnstone/internal/cluster"
	"github.com/turnstone-run/turnstone/internal/definitions"
	"github.com/turnstone-run/turnstone/internal/definitions/definitionstest"
	"github.com/turnstone-run/turnstone/internal/notifications"
	"github.com/turnstone-run/turnstone/turnstonetest"
	"github.com/turnstone-run/turnstone/workflows"
)

// definitionDesk runs definitions on a real Temporal server, with real mail and real requests; the store is in memory.
type definitionDesk struct {
	t      *testing.T
	client sdkclient.Client
	queue  string
	store  *definitionstest.Store
	rows   *definitionstest.Rows
	world  *definitionstest.World
	mail   *smtpSink
	hook   *httptest.Server
	price  atomic.Int64 // what the hook answers; goes down by 50
}

func startDefinitions(t *testing.T, events int) *definitionDesk {
	t.Helper()
	set := turnstonetest.Settings(t, func(c *app.Config) { c.Database.URL = "none: everything is in memory" })
	d := &definitionDesk{
		t: t, queue: set.Temporal.TaskQueue, store: definitionstest.NewStore(), rows: definitionstest.NewRows(), world: &definitionstest.World{},
		mail: startSMTPSink(t),
	}
	d.price.Store(600)
	d.hook = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintf(w, `{"rows":[{"flight":"AA1","price":%d}]}`, d.price.Add(-50))
	}))
	t.Cleanup(d.hook.Close)
	var err error
	d.client, err = sdkclient.Dial(sdkclient.Options{
		HostPort: set.Temporal.Address, Namespace: set.Temporal.Namespace,
	})
	require.NoError(t, err)
	t.Cleanup(d.client.Close)
	mailer, err := notifications.NewMailer(notifications.Config{
		Addr: d.mail.addr, From: "runs@example.com", DefaultTo: []string{"ops@example.com"}, TLS: notifications.TLSNone,
	})
	require.NoError(t, err)
	a, err := definitions.New(definitions.Config{
		Store: d.store, Rows: d.rows, Turns: definitionstest.Turns{World: d.world}, Mailer: mailer,
		Webhooks: &notifications.Webhooks{HTTP: http.DefaultClient}, RunEvents: events, SearchAttributes: func() bool { return true },
	})
	require.NoError(t, err)
	w := sdkworker.New(d.client, d.queue, sdkworker.Options{})
	w.RegisterWorkflowWithOptions(workflows.DefinedWorkflow, workflow.RegisterOptions{Name: workflows.DefinedWorkflowType})
	w.RegisterWorkflowWithOptions(func(workflow.Context, agent.TurnRequest) (agent.AgentStepOutput, error) {
		return agent.AgentStepOutput{}, nil
	}, workflow.RegisterOptions{Name: workflows.AgentTurnType})
	workflows.RegisterActivities(w, activities.NewDefinitions(a))
	require.NoError(t, w.Start())
	t.Cleanup(w.Stop)
	return d
}

func (d *definitionDesk) put(def agent.WorkflowDefinition) agent.StoredWorkflow {
	d.t.Helper()
	w, err := d.store.Put(agent.WorkflowKey{Tenant: "acme", Owner: "ann", Tag: "main"}, def)
	require.NoError(d.t, err)
	return w
}

func (d *definitionDesk) start(ctx context.Context, runID, input string) sdkclient.WorkflowRun {
	d.t.Helper()
	req := agent.RunRequest{RunID: runID, Owner: "ann", Tag: "main", Context: agent.InvocationContext{Tenant: "acme"}}
	if input != "" {
		req.Input = json.RawMessage(input)
	}
	run, err := d.client.ExecuteWorkflow(ctx, sdkclient.StartWorkflowOptions{
		ID:        workflows.DefinedWorkflowID(agent.WorkflowKey{Tenant: "acme", Owner: "ann", Tag: "main"}, runID),
		TaskQueue: d.queue, WorkflowIDReusePolicy: workflows.DefinedPolicy,
	}, workflows.DefinedWorkflowType, req)
	require.NoError(d.t, err)
	return run
}

// ends waits for a run and replays all of its executions.
func (d *definitionDesk) ends(ctx context.Context, run sdkclient.WorkflowRun, name string) (agent.RunResult, []*historypb.History) {
	d.t.Helper()
	var out agent.RunResult
	id := run.GetRunID() // the first: Get goes on to the last
	require.NoError(d.t, run.Get(ctx, &out))
	var all []*historypb.History
	for id != "" {
		h := d.history(ctx, run.GetID(), id)
		all = append(all, h)
		last := h.GetEvents()[len(h.GetEvents())-1]
		id = last.GetWorkflowExecutionContinuedAsNewEventAttributes().GetNewExecutionRunId()
	}
	for i, h := range all {
		replayer, err := sdkworker.NewWorkflowReplayerWithOptions(sdkworker.WorkflowReplayerOptions{})
		require.NoError(d.t, err)
		workflows.Register(replayer)
		require.NoError(d.t, replayer.ReplayWorkflowHistory(nil, h), "replay of %s", run.GetID())
		file := name
		if len(all) > 1 {
			file = fmt.Sprintf("%s_%d", name, i+1)
		}
		d.record(file, h)
	}
	return out, all
}

func (d *definitionDesk) record(name string, h *historypb.History) {
	d.t.Helper()
	if recordDir == "" {
		return
	}
	raw, err := temporalproto.CustomJSONMarshalOptions{Indent: " "}.Marshal(h)
	require.NoError(d.t, err)
	require.NoError(d.t, os.WriteFile(filepath.Join(recordDir, name+".json"), raw, 0o600))
}

func (d *definitionDesk) history(ctx context.Context, id, runID string) *historypb.History {
	d.t.Helper()
	h := &historypb.History{}
	for it := d.client.GetWorkflowHistory(ctx, id, runID, false, enumspb.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT); it.HasNext(); {
		e, err := it.Next()
		require.NoError(d.t, err)
		h.Events = append(h.Events, e)
	}
	return h
}

func (d *definitionDesk) task(id, config string) agent.WorkflowNode {
	return agent.WorkflowNode{
		ID: id, Type: agent.WorkflowTask, Config: json.RawMessage(strings.ReplaceAll(config, "HOOK", d.hook.URL)),
	}
}

// priceWatch is fetch → check → (true) mail: the patch "add email notification whenever price drops below $500".
func (d *definitionDesk) priceWatch() agent.WorkflowDefinition {
	return agent.WorkflowDefinition{
		Nodes: []agent.WorkflowNode{
			d.task("fetch", `{"action":"webhook","method":"GET","url":"HOOK/price"}`),
			{ID: "check", Type: agent.WorkflowCondition, Expr: "input.body.rows.exists(r, r.price < 500)"},
			d.task("notify", `{"action":"email","subject":"Price drop!"}`),
		},
		Edges: []agent.WorkflowEdge{{From: "fetch", To: "check"}, {From: "check", To: "notify", Condition: "true"}},
	}
}

func TestDefinedRunSendsMail(t *testing.T) {
	t.Parallel()
	d := startDefinitions(t, 0)
	d.price.Store(500)
	d.put(d.priceWatch())
	out, all := d.ends(t.Context(), d.start(t.Context(), "r1", `{"secret":"quokka"}`), "defined_run")
	require.Equal(t, agent.RunCompleted, out.Status)
	require.Equal(t, 3, out.Steps)
	mails := d.mail.taken()
	require.Len(t, mails, 1)
	require.Contains(t, mails[0], "Subject: Price drop!")
	require.Contains(t, mails[0], "AA1")
	events, bytes := size(all[0])
	t.Logf("a run of 3 nodes: %d events, %d bytes", events, bytes)
	require.LessOrEqual(t, events, 31)
	// What nodes say and give out is not in history; only the request as it came in is.
	require.Equal(t, 1, strings.Count(all[0].String(), "quokka"))
	require.NotContains(t, all[0].String(), "AA1")
	require.NotContains(t, all[0].String(), "Price drop")
}

func TestDefinedRunOfACondition(t *testing.T) {
	t.Parallel()
	d := startDefinitions(t, 0)
	d.put(agent.WorkflowDefinition{
		Nodes: []agent.WorkflowNode{
			{ID: "check", Type: agent.WorkflowCondition, Expr: "price < 500"},
			d.task("cheap", `{"action":"email","to":"ops@example.com"}`),
			d.task("dear", `{"action":"webhook","url":"HOOK/dear"}`),
		},
		Edges: []agent.WorkflowEdge{{From: "check", To: "cheap", Condition: "true"}, {From: "check", To: "dear", Condition: "false"}},
	})
	out, _ := d.ends(t.Context(), d.start(t.Context(), "r2", `{"rows":[{"flight":"AA1","price":450},{"flight":"BB2","price":700}]}`), "defined_condition")
	require.Equal(t, 2, out.Steps)
	require.Contains(t, d.mail.taken()[0], "AA1")
	require.NotContains(t, d.mail.taken()[0], "BB2")
}

func TestDefinedRunOfAnAgent(t *testing.T) {
	t.Parallel()
	d := startDefinitions(t, 0)
	d.put(agent.WorkflowDefinition{
		Nodes: []agent.WorkflowNode{
			{ID: "ask", Type: agent.WorkflowAgent, Config: json.RawMessage(`{"agent":"analyst","message":"What of {{topic}}?"}`)},
			d.task("notify", `{"action":"email","body":"{{output}}"}`),
		},
		Edges: []agent.WorkflowEdge{{From: "ask", To: "notify"}},
	})
	out, all := d.ends(t.Context(), d.start(t.Context(), "r3", `{"topic":"fares"}`), "defined_agent")
	require.Equal(t, agent.RunCompleted, out.Status)
	require.Contains(t, d.mail.taken()[0], "all is well")
	require.NotContains(t, all[0].String(), "What of")
}

func TestDefinedRunContinuesAsNew(t *testing.T) {
	t.Parallel()
	d := startDefinitions(t, 30)
	watch := d.priceWatch()
	watch.Nodes = append(watch.Nodes,
		agent.WorkflowNode{ID: "start", Type: agent.WorkflowCondition, Expr: "true"},
		agent.WorkflowNode{ID: "wait", Type: agent.WorkflowTimer, Config: json.RawMessage(`{"duration":"1s"}`)})
	watch.Edges = append(watch.Edges, agent.WorkflowEdge{From: "start", To: "fetch"},
		agent.WorkflowEdge{From: "check", To: "wait", Condition: "false"}, agent.WorkflowEdge{From: "wait", To: "fetch"})
	d.price.Store(700)
	d.put(watch)
	out, all := d.ends(t.Context(), d.start(t.Context(), "r4", ""), "defined_timer_continued")
	require.Equal(t, agent.RunCompleted, out.Status)
	require.Greater(t, len(all), 1)
	require.Len(t, d.mail.taken(), 1)
}

func TestDefinedRunIsCancelled(t *testing.T) {
	t.Parallel()
	d := startDefinitions(t, 0)
	d.put(agent.WorkflowDefinition{
		Nodes: []agent.WorkflowNode{
			{ID: "wait", Type: agent.WorkflowTimer, Config: json.RawMessage(`{"duration":"1h"}`)}, d.task("notify", `{"action":"email"}`),
		},
		Edges: []agent.WorkflowEdge{{From: "wait", To: "notify"}},
	})
	run := d.start(t.Context(), "r5", "")
	update, err := d.client.UpdateWorkflow(t.Context(), sdkclient.UpdateWorkflowOptions{
		WorkflowID: run.GetID(), UpdateName: workflows.UpdateCancel, Args: []any{agent.CancelRequest{Reason: "enough"}},
		WaitForStage: sdkclient.WorkflowUpdateStageCompleted,
	})
	require.NoError(t, err)
	require.NoError(t, update.Get(t.Context(), nil))
	out, _ := d.ends(t.Context(), run, "defined_cancelled")
	require.Equal(t, agent.RunCancelled, out.Status)
	require.Empty(t, d.mail.taken())
	stored, err := d.store.Run(t.Context(), "acme", "r5")
	require.NoError(t, err)
	require.Equal(t, agent.RunCancelled, stored.Status)
}

// scheduledDefinition is a store with one definition, as the keeper of schedules reads it.
type scheduledDefinition struct {
	*definitionstest.Store

	stored agent.StoredWorkflow
}

func (d scheduledDefinition) Workflows(context.Context, agent.WorkflowQuery) (agent.WorkflowPage, error) {
	return agent.WorkflowPage{Workflows: []agent.StoredWorkflow{d.stored}}, nil
}

func TestScheduleStartsRuns(t *testing.T) {
	t.Parallel()
	d := startDefinitions(t, 0)
	d.price.Store(500)
	def := d.priceWatch()
	def.Schedules = []agent.WorkflowSchedule{{ID: "daily", Cron: "0 9 * * *", TimeZone: "Europe/Zurich", Input: json.RawMessage(`{}`)}}
	stored := d.put(def)
	keeper, err := cluster.NewWorkflowSchedules(cluster.WorkflowScheduleConfig{
		Schedules: d.client.ScheduleClient(), Definitions: scheduledDefinition{d.store, stored}, TaskQueue: d.queue,
	})
	require.NoError(t, err)
	require.NoError(t, keeper.Sync(t.Context(), stored))
	require.NoError(t, keeper.Sync(t.Context(), stored), "twice is once")
	handle := d.client.ScheduleClient().GetHandle(t.Context(), "schedule/acme/ann/main/daily")
	before, err := handle.Describe(t.Context())
	require.NoError(t, err)
	require.Empty(t, before.Info.RecentActions)
	checkedBeforeStored(t, keeper, d.client.ScheduleClient(), stored)
	require.NoError(t, handle.Trigger(t.Context(), sdkclient.ScheduleTriggerOptions{}))
	require.Eventually(t, func() bool { return len(d.mail.taken()) == 1 }, 30*time.Second, 50*time.Millisecond)
	var runs agent.RunPage
	require.Eventually(t, func() bool {
		runs, err = d.store.Runs(t.Context(), agent.RunQuery{Tenant: "acme", Status: agent.RunCompleted})
		return err == nil && len(runs.Runs) == 1
	}, 30*time.Second, 50*time.Millisecond)
	require.Equal(t, "daily", runs.Runs[0].Schedule)

	def.Schedules[0].Cron, def.Schedules[0].Paused = "0 10 * * *", true
	stored = d.put(def)
	require.NoError(t, keeper.Sync(t.Context(), stored))
	after, err := handle.Describe(t.Context())
	require.NoError(t, err)
	require.True(t, after.Schedule.State.Paused)

	def.Schedules = nil
	require.NoError(t, keeper.Sync(t.Context(), d.put(def)))
	_, err = handle.Describe(t.Context())
	require.Error(t, err)
}

// checkedBeforeStored asks the real server about schedules of versions that are not stored.
func checkedBeforeStored(t *testing.T, keeper *cluster.WorkflowSchedules, server sdkclient.ScheduleClient, stored agent.StoredWorkflow) {
	t.Helper()
	weekly := server.GetHandle(t.Context(), "schedule/acme/ann/main/weekly")
	exists := func() bool {
		_, err := weekly.Describe(t.Context())
		return err == nil
	}
	unstored := func(definition string) agent.StoredWorkflow {
		next := stored
		next.Version, next.Definition = stored.Version+1, json.RawMessage(definition)
		return next
	}
	for field, definition := range map[string]string{
		"schedules[0].cron":      `{"schedules":[{"id":"daily","cron":"0 9 ? * *"}]}`,
		"schedules[1].cron":      `{"schedules":[{"id":"daily","cron":"0 10 * * *"},{"id":"weekly","cron":"0 9 ? * mon"}]}`,
		"schedules[1].time_zone": `{"schedules":[{"id":"weekly","cron":"@weekly"},{"id":"daily","cron":"0 9 * * *","time_zone":"Middle/Earth"}]}`,
	} {
		f := agent.FailureOf(keeper.Check(t.Context(), unstored(definition)))
		require.NotNil(t, f, definition)
		require.Equal(t, field, f.Field, f.Message)
		require.Contains(t, f.Message, "Temporal refuses this schedule: ")
		require.False(t, exists(), definition)
	}
	next := unstored(`{"schedules":[{"id":"weekly","cron":"@weekly"}]}`)
	require.NoError(t, keeper.Check(t.Context(), next))
	made, err := weekly.Describe(t.Context())
	require.NoError(t, err)
	require.True(t, made.Schedule.State.Paused)
	require.NoError(t, keeper.Sync(t.Context(), next), "it is not stored")
	require.False(t, exists())
}
