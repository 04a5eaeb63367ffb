package workflows_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/mock"
	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/workflow"

	"github.com/turnstone-run/turnstone/activities"
	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/definitions"
	"github.com/turnstone-run/turnstone/internal/definitions/definitionstest"
	"github.com/turnstone-run/turnstone/internal/notifications"
	"github.com/turnstone-run/turnstone/workflows"
)

// desk runs definitions with the real activities on a store in memory.
type desk struct {
	t     *testing.T
	store *definitionstest.Store
	rows  *definitionstest.Rows
	world *definitionstest.World
	env   *testsuite.TestWorkflowEnvironment
}

func newDesk(t *testing.T, change ...func(c *definitions.Config)) *desk {
	t.Helper()
	d := &desk{t: t, store: definitionstest.NewStore(), rows: definitionstest.NewRows(), world: &definitionstest.World{}}
	return d.prepare(change...)
}

// again is a fresh environment of the same world.
func (d *desk) again() *desk {
	next := *d
	return next.prepare()
}

func (d *desk) prepare(change ...func(c *definitions.Config)) *desk {
	d.t.Helper()
	var suite testsuite.WorkflowTestSuite
	d.env = suite.NewTestWorkflowEnvironment()
	d.env.SetTestTimeout(20 * time.Second)
	d.env.RegisterWorkflowWithOptions(workflows.DefinedWorkflow, workflow.RegisterOptions{Name: workflows.DefinedWorkflowType})
	c := definitions.Config{
		Store: d.store, Rows: d.rows, Turns: definitionstest.Turns{World: d.world}, Mailer: definitionstest.Mailer{World: d.world},
		Webhooks: definitionstest.Webhooks{World: d.world}, Pipelines: definitionstest.Pipelines{World: d.world}, RetryPause: time.Millisecond,
	}
	for _, f := range change {
		f(&c)
	}
	a, err := definitions.New(c)
	require.NoError(d.t, err)
	workflows.RegisterActivities(d.env, activities.NewDefinitions(a))
	return d
}

// turns makes every agent's turn the given workflow.
func (d *desk) turns(turn func(ctx workflow.Context, r agent.TurnRequest) (agent.AgentStepOutput, error)) {
	d.env.RegisterWorkflowWithOptions(turn, workflow.RegisterOptions{Name: workflows.AgentTurnType})
}

func task(id, config string) agent.WorkflowNode {
	return agent.WorkflowNode{ID: id, Type: agent.WorkflowTask, Config: json.RawMessage(config)}
}

func condition(id, expr string) agent.WorkflowNode {
	return agent.WorkflowNode{ID: id, Type: agent.WorkflowCondition, Expr: expr}
}

func timer(id, duration string) agent.WorkflowNode {
	return agent.WorkflowNode{ID: id, Type: agent.WorkflowTimer, Config: json.RawMessage(`{"duration":"` + duration + `"}`)}
}

func (d *desk) put(def agent.WorkflowDefinition) {
	d.t.Helper()
	_, err := d.store.Put(agent.WorkflowKey{Tenant: "acme", Owner: agent.DefaultWorkflowOwner, Tag: "main"}, def)
	require.NoError(d.t, err)
}

func (d *desk) start(input string) {
	req := agent.RunRequest{RunID: "r1", Tag: "main", Context: agent.InvocationContext{Tenant: "acme"}}
	if input != "" {
		req.Input = json.RawMessage(input)
	}
	d.env.ExecuteWorkflow(workflows.DefinedWorkflowType, req, nil)
}

func (d *desk) run(input string) agent.RunResult {
	d.t.Helper()
	d.start(input)
	require.True(d.t, d.env.IsWorkflowCompleted())
	require.NoError(d.t, d.env.GetWorkflowError())
	var out agent.RunResult
	require.NoError(d.t, d.env.GetWorkflowResult(&out))
	r := d.stored()
	require.Equal(d.t, out.Status, r.Status)
	require.NotNil(d.t, r.FinishedAt)
	return out
}

func (d *desk) stored() agent.Run {
	d.t.Helper()
	r, err := d.store.Run(d.t.Context(), "acme", "r1")
	require.NoError(d.t, err)
	return r
}

// steps are "node visit status outcome" in the order of their ends.
func (d *desk) steps() []string {
	var out []string
	for _, s := range d.stored().Steps {
		text := fmt.Sprintf("%s%d %s", s.NodeID, s.Visit, s.Status)
		if s.Outcome != "" {
			text += " " + s.Outcome
		}
		out = append(out, text)
	}
	return out
}

func TestPriceDropSendsMail(t *testing.T) {
	d := newDesk(t)
	d.put(agent.WorkflowDefinition{
		Nodes: []agent.WorkflowNode{
			condition("check", "price < 500"),
			task("mail", `{"action":"email","to":"ops@example.com","subject":"Price drop!"}`),
			task("quiet", `{"action":"webhook","url":"https://example.com/none"}`),
		},
		Edges: []agent.WorkflowEdge{{From: "check", To: "mail", Condition: "true"}, {From: "check", To: "quiet", Condition: "false"}},
	})
	out := d.run(`{"rows":[{"flight":"AA1","price":450},{"flight":"BB2","price":700}]}`)
	require.Equal(t, agent.RunResult{RunID: "r1", Owner: "default", Tag: "main", Version: 1, Status: agent.RunCompleted, Steps: 2}, out)
	require.Equal(t, []string{"check1 completed true", "mail1 completed"}, d.steps())
	mails := d.world.Mails()
	require.Len(t, mails, 1)
	require.Equal(t, "Price drop!", mails[0].Subject)
	require.Contains(t, mails[0].Body, "AA1")
	require.NotContains(t, mails[0].Body, "BB2", "only the rows that satisfy the condition go on")
	require.Empty(t, d.world.Hooks())
}

func TestVersionIsPinned(t *testing.T) {
	d := newDesk(t)
	d.put(agent.WorkflowDefinition{
		Nodes: []agent.WorkflowNode{timer("wait", "1h"), task("hook", `{"action":"webhook","url":"https://example.com/old"}`)},
		Edges: []agent.WorkflowEdge{{From: "wait", To: "hook"}},
	})
	d.env.RegisterDelayedCallback(func() {
		d.put(agent.WorkflowDefinition{Nodes: []agent.WorkflowNode{task("hook", `{"action":"webhook","url":"https://example.com/new"}`)}})
	}, time.Minute)
	require.Equal(t, int64(1), d.run("").Version)
	require.Equal(t, "https://example.com/old", d.world.Hooks()[0].URL)
}

func TestAgentNode(t *testing.T) {
	d := newDesk(t)
	d.put(agent.WorkflowDefinition{
		Nodes: []agent.WorkflowNode{
			{ID: "ask", Type: agent.WorkflowAgent, Config: json.RawMessage(`{"agent":"analyst","message":"Summarise {{topic}}","timeout_sec":60}`)},
			task("hook", `{"action":"webhook","url":"https://example.com/h"}`),
		},
		Edges: []agent.WorkflowEdge{{From: "ask", To: "hook"}},
	})
	var child string
	d.turns(func(ctx workflow.Context, r agent.TurnRequest) (agent.AgentStepOutput, error) {
		child = workflow.GetInfo(ctx).WorkflowExecution.ID
		require.Empty(t, r.Message, "no words in history")
		require.Equal(t, "acme", r.Context.Tenant)
		return agent.AgentStepOutput{}, nil
	})
	out := d.run(`{"topic":"fares"}`)
	require.Equal(t, agent.RunCompleted, out.Status)
	turns := d.world.Turns()
	require.Len(t, turns, 1)
	require.Equal(t, "Summarise fares", turns[0].Message)
	require.Equal(t, int64(60), turns[0].Limits.WallTimeSec)
	require.Equal(t, turns[0].TurnID.WorkflowID(), child)
	require.Equal(t, turns[0].TurnID, d.stored().Steps[0].TurnID)
	require.Contains(t, string(d.world.Hooks()[0].Body), "all is well")
}

func TestAgentNodeThatFails(t *testing.T) {
	d := newDesk(t)
	d.put(agent.WorkflowDefinition{Nodes: []agent.WorkflowNode{
		{ID: "ask", Type: agent.WorkflowAgent, Config: json.RawMessage(`{"agent":"analyst","message":"hello"}`)},
	}})
	d.world.Result = func(agent.TurnID) (agent.AgentStepOutput, error) {
		return agent.AgentStepOutput{Status: agent.TurnFailed, Error: &agent.Failure{Type: "overflow", Message: "too much"}}, nil
	}
	d.turns(func(workflow.Context, agent.TurnRequest) (agent.AgentStepOutput, error) {
		return agent.AgentStepOutput{}, errors.New("terminated")
	})
	out := d.run("")
	require.Equal(t, agent.RunFailed, out.Status)
	require.Equal(t, &agent.Failure{Type: "overflow", Message: "too much", Step: "ask"}, out.Error)
}

func TestAgentNodeThatIsRefused(t *testing.T) {
	d := newDesk(t)
	d.put(agent.WorkflowDefinition{Nodes: []agent.WorkflowNode{
		{ID: "ask", Type: agent.WorkflowAgent, Config: json.RawMessage(`{"agent":"nobody","message":"hello"}`)},
	}})
	d.world.OnTurn = func(agent.TurnRequest) error {
		return agent.FieldErrorf(agent.CodeNotFound, "agent", "there is no agent nobody")
	}
	out := d.run("")
	require.Equal(t, agent.RunFailed, out.Status)
	require.Equal(t, "not_found", out.Error.Type)
	require.Equal(t, []string{"ask1 failed"}, d.steps())
}

func TestFailureEndsTimersAndLetsTasksEnd(t *testing.T) {
	d := newDesk(t)
	d.put(agent.WorkflowDefinition{
		Nodes: []agent.WorkflowNode{
			timer("long", "1000h"), task("bad", `{"action":"webhook","url":"https://example.com/bad"}`), timer("after", "1s"),
		},
		Edges: []agent.WorkflowEdge{{From: "bad", To: "after"}},
	})
	d.world.OnHook = func(notifications.Webhook, func() error) (notifications.WebhookAnswer, error) {
		return notifications.WebhookAnswer{Status: 404}, nil
	}
	began := d.env.Now()
	out := d.run("")
	require.Equal(t, agent.RunFailed, out.Status)
	require.Equal(t, "invalid", out.Error.Type)
	require.Equal(t, "bad", out.Error.Step)
	require.ElementsMatch(t, []string{"long1 cancelled", "bad1 failed"}, d.steps())
	require.Less(t, d.env.Now().Sub(began), time.Hour)
}

// polling is start → check → (false) timer → check, (true) mail.
func polling() agent.WorkflowDefinition {
	return agent.WorkflowDefinition{
		Nodes: []agent.WorkflowNode{
			timer("start", "0s"), task("fetch", `{"action":"webhook","url":"https://example.com/price","method":"GET"}`),
			condition("check", "body.price < 500"), timer("wait", "24h"), task("mail", `{"action":"email","to":"ops@example.com"}`),
		},
		Edges: []agent.WorkflowEdge{
			{From: "start", To: "fetch"},
			{From: "fetch", To: "check"},
			{From: "check", To: "wait", Condition: "false"},
			{From: "wait", To: "fetch"},
			{From: "check", To: "mail", Condition: "true"},
		},
	}
}

// falling answers prices from 600 down by 20.
func falling() func(notifications.Webhook, func() error) (notifications.WebhookAnswer, error) {
	price := 620
	return func(notifications.Webhook, func() error) (notifications.WebhookAnswer, error) {
		price -= 20
		return notifications.WebhookAnswer{Status: 200, Body: fmt.Appendf(nil, `{"price":%d}`, price)}, nil
	}
}

func TestLoopThroughATimer(t *testing.T) {
	d := newDesk(t)
	d.put(polling())
	d.world.OnHook = falling()
	began := d.env.Now()
	out := d.run("")
	require.Equal(t, agent.RunCompleted, out.Status)
	require.Len(t, d.world.Mails(), 1)
	require.Len(t, d.world.Hooks(), 7)
	require.GreaterOrEqual(t, d.env.Now().Sub(began), 6*24*time.Hour)
}

func TestRunContinuesAsNewWithTimers(t *testing.T) {
	d := newDesk(t, func(c *definitions.Config) { c.RunEvents = 30 })
	d.put(polling())
	d.world.OnHook = falling()
	d.env.SetCurrentHistoryLength(31)
	d.start("")
	continued := 0
	for ; ; continued++ {
		require.True(t, d.env.IsWorkflowCompleted())
		var next *workflow.ContinueAsNewError
		if !errors.As(d.env.GetWorkflowError(), &next) {
			break
		}
		require.Less(t, continued, 100)
		var req agent.RunRequest
		var carry *workflows.DefinedCarry
		require.NoError(t, decode(next, &req, &carry))
		require.Empty(t, req.Input, "no words are carried")
		require.Equal(t, "r1", req.RunID)
		again := d.again()
		again.env.SetStartTime(d.env.Now())
		again.env.SetCurrentHistoryLength(31)
		d = again
		d.env.ExecuteWorkflow(workflows.DefinedWorkflowType, req, carry)
	}
	require.NoError(t, d.env.GetWorkflowError())
	require.Positive(t, continued)
	require.Equal(t, agent.RunCompleted, d.stored().Status)
	require.Len(t, d.world.Mails(), 1)
	require.Len(t, d.world.Hooks(), 7)
}

func decode(next *workflow.ContinueAsNewError, into ...any) error {
	return converter.GetDefaultDataConverter().FromPayloads(next.Input, into...)
}

func TestRunIsCancelled(t *testing.T) {
	for name, cancel := range map[string]func(d *desk){
		"signal": func(d *desk) { d.env.SignalWorkflow(workflows.UpdateCancel, agent.CancelRequest{Reason: "enough"}) },
		"update": func(d *desk) {
			d.env.UpdateWorkflow(workflows.UpdateCancel, "u1", &testsuite.TestUpdateCallback{
				OnReject: func(err error) { require.NoError(d.t, err) }, OnAccept: func() {},
				OnComplete: func(_ any, err error) { require.NoError(d.t, err) },
			}, agent.CancelRequest{Reason: "enough"})
		},
		"Temporal's own": func(d *desk) { d.env.CancelWorkflow() },
	} {
		t.Run(name, func(t *testing.T) {
			d := newDesk(t)
			d.put(agent.WorkflowDefinition{
				Nodes: []agent.WorkflowNode{timer("wait", "24h"), task("mail", `{"action":"email","to":"a@example.com"}`)},
				Edges: []agent.WorkflowEdge{{From: "wait", To: "mail"}},
			})
			d.env.RegisterDelayedCallback(func() {
				v, err := d.env.QueryWorkflow(workflows.QueryState)
				require.NoError(t, err)
				var view workflows.RunView
				require.NoError(t, v.Get(&view))
				require.Equal(t, agent.RunRunning, view.Status)
				require.Equal(t, "running", view.Nodes[0].Status)
				require.NotEmpty(t, view.Nodes[0].Until)
				require.Equal(t, "idle", view.Nodes[1].Status)
				cancel(d)
			}, time.Minute)
			out := d.run("")
			require.Equal(t, agent.RunCancelled, out.Status)
			require.Nil(t, out.Error)
			require.Equal(t, []string{"wait1 cancelled"}, d.steps())
			require.Empty(t, d.world.Mails())
		})
	}
}

func TestRunCancelCascadesToTurns(t *testing.T) {
	d := newDesk(t)
	d.put(agent.WorkflowDefinition{Nodes: []agent.WorkflowNode{
		{ID: "ask", Type: agent.WorkflowAgent, Config: json.RawMessage(`{"agent":"analyst","message":"hello"}`)},
	}})
	d.world.Result = func(agent.TurnID) (agent.AgentStepOutput, error) {
		return agent.AgentStepOutput{Status: agent.TurnCancelled}, nil
	}
	var got agent.CancelRequest
	d.turns(func(ctx workflow.Context, _ agent.TurnRequest) (agent.AgentStepOutput, error) {
		workflow.GetSignalChannel(ctx, workflows.UpdateCancel).Receive(ctx, &got)
		return agent.AgentStepOutput{Status: agent.TurnCancelled}, nil
	})
	d.env.RegisterDelayedCallback(func() { d.env.SignalWorkflow(workflows.UpdateCancel, agent.CancelRequest{}) }, time.Minute)
	require.Equal(t, agent.RunCancelled, d.run("").Status)
	require.NotEmpty(t, got.Reason)
	require.Equal(t, []string{"ask1 cancelled"}, d.steps())
}

func TestRunRequestsRefused(t *testing.T) {
	for name, c := range map[string]struct {
		request any
		says    string
	}{
		"no tag":           {map[string]any{}, "workflow_tag: is empty"},
		"an unknown field": {map[string]any{"workflow_tag": "main", "context": map[string]any{"tenat": "x"}}, "context.tenat"},
		"a wrong type":     {map[string]any{"workflow_tag": 7}, "workflow_tag"},
		"no such workflow": {map[string]any{"workflow_tag": "none"}, "there is no workflow \"none\""},
		"no such version":  {map[string]any{"workflow_tag": "main", "version": 9, "context": map[string]any{"tenant": "acme"}}, "version 9"},
		"a bad run id":     {map[string]any{"workflow_tag": "main", "run_id": "a b"}, "run_id"},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDesk(t)
			d.put(polling())
			d.env.ExecuteWorkflow(workflows.DefinedWorkflowType, c.request, nil)
			var application *temporal.ApplicationError
			require.ErrorAs(t, d.env.GetWorkflowError(), &application)
			require.True(t, application.NonRetryable())
			require.Contains(t, application.Error(), c.says)
		})
	}
}

func TestDefinitionThatCannotRun(t *testing.T) {
	d := newDesk(t)
	d.put(agent.WorkflowDefinition{Nodes: []agent.WorkflowNode{timer("wait", "soon")}})
	d.start("")
	require.ErrorContains(t, d.env.GetWorkflowError(), "nodes[0].config.duration")
	require.Equal(t, agent.RunFailed, d.stored().Status)
}

func TestRunThatIsOverIsNotDoneAgain(t *testing.T) {
	d := newDesk(t)
	d.put(agent.WorkflowDefinition{Nodes: []agent.WorkflowNode{task("mail", `{"action":"email","to":"a@example.com"}`)}})
	_, err := d.store.BeginRun(t.Context(), agent.Run{
		RunID: "r1", WorkflowKey: agent.WorkflowKey{Tenant: "acme", Owner: "default", Tag: "main"}, Version: 1, Status: agent.RunRunning,
	})
	require.NoError(t, err)
	require.NoError(t, d.store.FinishRun(t.Context(), "acme", "r1", agent.RunFailed, &agent.Failure{Message: "before"}, time.Now()))
	out := d.run("")
	require.Equal(t, "before", out.Error.Message)
	require.Empty(t, d.world.Mails())
}

func TestTaskThatNeverAnswers(t *testing.T) {
	d := newDesk(t)
	d.put(agent.WorkflowDefinition{Nodes: []agent.WorkflowNode{task("mail", `{"action":"email","to":"a@example.com"}`)}})
	_, err := d.store.Attempt(t.Context(), "r1", "mail", 1) // it got as far as the effect
	require.NoError(t, err)
	d.env.OnActivity("RunNode", mock.Anything, mock.Anything).Return(definitions.NodeResult{}, temporal.NewNonRetryableApplicationError("gone", "internal", nil))
	out := d.run("")
	require.Equal(t, agent.RunFailed, out.Status)
	require.Equal(t, agent.OutcomeUnknown, out.Error.Type)
}

// A second attempt of Temporal's looks for the mark before anything else can go wrong.
func TestMailThatNobodyWroteDownIsNotSentAgain(t *testing.T) {
	d := newDesk(t)
	d.put(agent.WorkflowDefinition{Nodes: []agent.WorkflowNode{task("mail", `{"action":"email","to":"a@example.com"}`)}})
	saves := 0
	d.store.Broken = func(call string) error {
		if call != "SaveStep" {
			return nil
		}
		if saves++; saves > 1 {
			return nil
		}
		d.world.OnMail = func(notifications.Mail, func() error) error {
			return agent.Errorf(agent.CodeUnavailable, "", "the server is away")
		}
		return agent.Errorf(agent.CodeUnavailable, "", "the store is away")
	}
	out := d.run("")
	require.Equal(t, agent.RunFailed, out.Status)
	require.Equal(t, agent.OutcomeUnknown, out.Error.Type)
	require.Len(t, d.world.Mails(), 1)
}

func TestScheduledRunSaysSo(t *testing.T) {
	d := newDesk(t)
	d.put(agent.WorkflowDefinition{Nodes: []agent.WorkflowNode{timer("wait", "0s")}})
	require.NoError(t, d.env.SetTypedSearchAttributesOnStart(temporal.NewSearchAttributes(
		temporal.NewSearchAttributeKeyKeyword("TemporalScheduledById").ValueSet("schedule/acme/default/main/daily"))))
	d.run("")
	require.Equal(t, "daily", d.stored().Schedule)
}

func TestRunSearchAttributesOnlyWhereTheyAreKnown(t *testing.T) {
	for _, known := range []bool{false, true} {
		d := newDesk(t, func(c *definitions.Config) { c.SearchAttributes = func() bool { return known } })
		d.put(agent.WorkflowDefinition{Nodes: []agent.WorkflowNode{timer("wait", "0s")}})
		if known {
			d.env.OnUpsertTypedSearchAttributes(temporal.NewSearchAttributes(
				temporal.NewSearchAttributeKeyKeyword(workflows.AttributeTenant).ValueSet("acme"))).Return(nil).Once()
		}
		d.run("")
		d.env.AssertExpectations(t)
	}
}

func TestRunIDs(t *testing.T) {
	require.Equal(t, "workflow/acme/ann/main/r1", workflows.DefinedWorkflowID(agent.WorkflowKey{Tenant: "acme", Owner: "ann", Tag: "main"}, "r1"))
}
