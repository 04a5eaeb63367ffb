package workflows_test

import (
	"context"
	"encoding/json"
	"reflect"
	"testing"
	"time"

	"github.com/stretchr/testify/mock"
	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/workflow"

	"github.com/turnstone-run/turnstone/activities"
	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/turns"
	"github.com/turnstone-run/turnstone/workflows"
)

func asksFor(calls ...agent.CallVerdict) agent.ModelVerdict { return agent.ModelVerdict{Calls: calls} }

// asking is the name under which newEnvBeside registers the turn that asks.
const asking = "AskingTurn"

func newEnvBeside(t *testing.T) *testsuite.TestWorkflowEnvironment {
	t.Helper()
	env := newEnv(t)
	env.RegisterWorkflowWithOptions(workflows.AgentTurn, workflow.RegisterOptions{Name: asking})
	return env
}

// runBeside runs a turn under a name of its own: a mocked type is mocked for the asking turn too.
func runBeside(t *testing.T, env *testsuite.TestWorkflowEnvironment) agent.AgentStepOutput {
	t.Helper()
	env.ExecuteWorkflow(asking, agent.TurnRequest{Message: "hello"}, nil)
	require.True(t, env.IsWorkflowCompleted())
	require.NoError(t, env.GetWorkflowError())
	var out agent.AgentStepOutput
	require.NoError(t, env.GetWorkflowResult(&out))
	return out
}

// asked matches the request of a turn that is recorded: its id and tenant, and nothing else.
func asked(t *testing.T, id agent.TurnID) any {
	t.Helper()
	return mock.MatchedBy(func(v converter.RawValue) bool {
		var got agent.TurnRequest
		require.NoError(t, json.Unmarshal(v.Payload().GetData(), &got))
		return reflect.DeepEqual(got, agent.TurnRequest{TurnID: id, Context: agent.InvocationContext{Tenant: "acme"}})
	})
}

func TestPreparedTurn(t *testing.T) {
	env := newEnv(t)
	begun := ready()
	begun.Prepare = true
	env.OnActivity("BeginTurn", mock.Anything, mock.Anything, mock.Anything).Return(begun, nil).Once()
	away := agent.PrepareVerdict{Failure: &agent.Failure{Type: "unavailable", Message: "away"}, RetryInMS: 40_000}
	env.OnActivity("Retrieve", mock.Anything, turns.RetrieveInput{TurnID: "t1"}).Return(away, nil).Once()
	prepared := env.OnActivity("Retrieve", mock.Anything, turns.RetrieveInput{TurnID: "t1", PausedMS: 40_000}).
		Return(agent.PrepareVerdict{Requests: 2, Usage: agent.Usage{InputTokens: 5}}, nil).Once()
	env.OnActivity("CallModel", mock.Anything, mock.Anything).Return(agent.ModelVerdict{}, nil).Once().NotBefore(prepared)
	stores(env)
	require.Equal(t, int64(5), run(t, env, nil).Usage.InputTokens)
}

func TestApprovalExpires(t *testing.T) {
	env := newEnv(t)
	env.OnActivity("BeginTurn", mock.Anything, mock.Anything, mock.Anything).Return(ready(), nil).Once()
	env.OnActivity("CallModel", mock.Anything, mock.Anything).
		Return(asksFor(agent.CallVerdict{ID: "a", Gate: agent.GateApproval}, agent.CallVerdict{ID: "b", Gate: agent.GateApproval}), nil).Once()
	env.OnActivity("RequestApproval", mock.Anything, mock.Anything).Return(turns.RequestApprovalResult{
		Pending:     []agent.PendingApproval{{ApprovalID: "A", CallID: "a"}, {ApprovalID: "B", CallID: "b"}},
		ExpiresInMS: time.Hour.Milliseconds(),
	}, nil).Once()
	// The first timer finds one of two expired, the second the other one.
	first := env.OnActivity("ExpireApprovals", mock.Anything, turns.ExpireApprovalsInput{TurnID: "t1", Step: 1}).Return(
		turns.ExpireApprovalsResult{Verdicts: []agent.DecisionVerdict{{ApprovalID: "B", CallID: "b"}}, NextInMS: time.Hour.Milliseconds()}, nil).Once()
	env.OnActivity("ExpireApprovals", mock.Anything, mock.Anything).Return(
		turns.ExpireApprovalsResult{Verdicts: []agent.DecisionVerdict{
			{ApprovalID: "A", CallID: "a", End: true}, {ApprovalID: "B", CallID: "b"},
		}}, nil).Once().NotBefore(first)
	stores(env)
	began := env.Now()
	out := run(t, env, nil)
	require.Equal(t, agent.StopApprovalExpired, out.StopReason)
	require.Equal(t, agent.TurnFailed, out.Status)
	require.GreaterOrEqual(t, env.Now().Sub(began), 2*time.Hour)
}

func TestADecisionInTimeStopsTheClock(t *testing.T) {
	env := newEnv(t)
	env.OnActivity("BeginTurn", mock.Anything, mock.Anything, mock.Anything).Return(ready(), nil).Once()
	env.OnActivity("CallModel", mock.Anything, mock.Anything).Return(asksFor(agent.CallVerdict{ID: "a", Gate: agent.GateApproval, Rule: "r"}), nil).Once()
	env.OnActivity("RequestApproval", mock.Anything, mock.Anything).Return(turns.RequestApprovalResult{
		Pending: []agent.PendingApproval{{ApprovalID: "A", CallID: "a"}}, ExpiresInMS: time.Hour.Milliseconds(),
	}, nil).Once()
	env.OnActivity("Decide", mock.Anything, mock.Anything).Return(turns.DecideResult{Verdict: &agent.DecisionVerdict{ApprovalID: "A", CallID: "a", Run: true}}, nil).Once()
	env.OnActivity("CallTool", mock.Anything, mock.Anything).Return(agent.ToolVerdict{ID: "a"}, nil).Once()
	env.OnActivity("CallModel", mock.Anything, mock.Anything).Return(agent.ModelVerdict{}, nil).Once()
	stores(env)
	env.RegisterDelayedCallback(func() {
		env.SignalWorkflow(workflows.UpdateDecide, agent.Decision{ApprovalID: "A", Decision: agent.DecisionApprove})
	}, time.Minute)
	require.Equal(t, agent.TurnCompleted, run(t, env, nil).Status)
}

func TestADecisionForAChildIsNotTheTurnsOwn(t *testing.T) {
	env := newEnv(t)
	env.OnActivity("BeginTurn", mock.Anything, mock.Anything, mock.Anything).Return(ready(), nil).Once()
	env.OnActivity("CallModel", mock.Anything, mock.Anything).Return(asksFor(agent.CallVerdict{ID: "a", Gate: agent.GateApproval}), nil).Once()
	env.OnActivity("RequestApproval", mock.Anything, mock.Anything).
		Return(turns.RequestApprovalResult{Pending: []agent.PendingApproval{{ApprovalID: "A", CallID: "a"}}}, nil).Once()
	// A call of the child may well have the same id.
	env.OnActivity("Decide", mock.Anything, mock.Anything).Return(turns.DecideResult{
		Verdict: &agent.DecisionVerdict{ApprovalID: "X", CallID: "a", Run: true}, Elsewhere: true,
	}, nil).Once()
	env.OnActivity("CancelTurn", mock.Anything, mock.Anything).Return(nil).Once()
	stores(env)
	env.RegisterDelayedCallback(func() {
		env.SignalWorkflow(workflows.UpdateDecide, agent.Decision{ApprovalID: "X", Decision: agent.DecisionApprove})
	}, time.Minute)
	env.RegisterDelayedCallback(func() { env.SignalWorkflow(workflows.UpdateCancel, agent.CancelRequest{}) }, time.Hour)
	require.Equal(t, agent.TurnCancelled, run(t, env, nil).Status)
}

// TestChildTurns: two calls are turns of other agents; they run side by side, share what is left, and only their own time counts.
func TestChildTurns(t *testing.T) {
	env := newEnvBeside(t)
	begun := ready()
	begun.Limits = agent.Limits{Tokens: 1000, WallTimeSec: 100}
	env.OnActivity("BeginTurn", mock.Anything, mock.Anything, mock.Anything).Return(begun, nil).Once()
	env.OnActivity("CallModel", mock.Anything, mock.Anything).
		Return(asksFor(agent.CallVerdict{ID: "a", Child: true}, agent.CallVerdict{ID: "b", Child: true}, agent.CallVerdict{ID: "c", Child: true}), nil).Once()
	env.OnActivity("BeginChild", mock.Anything, mock.Anything).Return(
		func(_ context.Context, in turns.BeginChildInput) (turns.BeginChildResult, error) {
			if in.CallID == "c" {
				return turns.BeginChildResult{Refused: "there is no such agent"}, nil
			}
			require.Equal(t, agent.Limits{Tokens: 333, WallTimeSec: 100}, in.Limits)
			return turns.BeginChildResult{Child: agent.TurnID("child-" + in.CallID), Tenant: "acme"}, nil
		}).Times(3)
	child := agent.AgentStepOutput{Status: agent.TurnCompleted, ExecutionTimeMS: 1500}
	for _, id := range []agent.TurnID{"child-a", "child-b"} {
		env.OnWorkflow(workflows.AgentTurnType, mock.Anything, asked(t, id), mock.Anything).
			After(time.Hour).Return(child, nil).Once()
		env.OnActivity("StoreChild", mock.Anything, turns.StoreChildInput{TurnID: "t1", Step: 1, CallID: agent.CallID(id[len("child-"):]), Child: id}).
			Return(agent.ToolVerdict{Usage: agent.Usage{InputTokens: 100}}, nil).Once()
	}
	env.OnActivity("CallTool", mock.Anything, turns.CallToolInput{TurnID: "t1", Step: 1, CallID: "c", Refused: "there is no such agent", BudgetMS: 100_000}).
		Return(agent.ToolVerdict{ID: "c", Failed: true}, nil).Once()
	env.OnActivity("CallModel", mock.Anything, mock.Anything).Return(agent.ModelVerdict{}, nil).Once()
	stores(env)
	out := runBeside(t, env)
	require.Equal(t, agent.TurnCompleted, out.Status, "%+v", out.Error)
	require.Equal(t, int64(200), out.Usage.InputTokens)
	require.Equal(t, int64(1500), out.ExecutionTimeMS, "the hour that a person took to decide is not counted")
}

func TestCancelCascades(t *testing.T) {
	var suite testsuite.WorkflowTestSuite
	env := suite.NewTestWorkflowEnvironment()
	env.RegisterWorkflowWithOptions(workflows.AgentTurn, workflow.RegisterOptions{Name: asking})
	var told agent.CancelRequest
	env.RegisterWorkflowWithOptions(func(ctx workflow.Context, _ converter.RawValue) (agent.AgentStepOutput, error) {
		workflow.GetSignalChannel(ctx, workflows.UpdateCancel).Receive(ctx, &told)
		return agent.AgentStepOutput{Status: agent.TurnCancelled}, nil
	}, workflow.RegisterOptions{Name: workflows.AgentTurnType})
	var none *activities.Activities
	workflows.RegisterActivities(env, none)
	t.Cleanup(func() { env.AssertExpectations(t) })
	env.OnActivity("BeginTurn", mock.Anything, mock.Anything, mock.Anything).Return(ready(), nil).Once()
	env.OnActivity("CallModel", mock.Anything, mock.Anything).Return(asksFor(agent.CallVerdict{ID: "a", Child: true}), nil).Once()
	env.OnActivity("BeginChild", mock.Anything, mock.Anything).Return(turns.BeginChildResult{Child: "child"}, nil).Once()
	env.OnActivity("CancelTurn", mock.Anything, turns.CancelTurnInput{TurnID: "t1", Cancel: agent.CancelRequest{By: "ops"}}).Return(nil).Once()
	env.OnActivity("StoreChild", mock.Anything, mock.Anything).Return(agent.ToolVerdict{Failed: true}, nil).Once()
	stores(env)
	env.RegisterDelayedCallback(func() { env.SignalWorkflow(workflows.UpdateCancel, agent.CancelRequest{By: "ops"}) }, time.Minute)
	require.Equal(t, agent.TurnCancelled, runBeside(t, env).Status)
	require.NotEmpty(t, told.Reason)
}

func TestStructuredAnswerAndClosingWords(t *testing.T) {
	env := newEnv(t)
	begun := ready()
	begun.Rules = agent.Rules{ModelCalls: []agent.CallLimit{{Run: 1, Exit: agent.ExitEnd}}}
	env.OnActivity("BeginTurn", mock.Anything, mock.Anything, mock.Anything).Return(begun, nil).Once()
	env.OnActivity("CallModel", mock.Anything, mock.Anything).Return(asksFor(agent.CallVerdict{ID: "a", Gate: agent.GateDenied, Rule: "no"}), nil).Once()
	env.OnActivity("CallTool", mock.Anything, turns.CallToolInput{TurnID: "t1", Step: 1, CallID: "a", Refused: "no"}).
		Return(agent.ToolVerdict{ID: "a", Failed: true}, nil).Once()
	env.OnActivity("StoreTurn", mock.Anything, mock.Anything).Return(
		func(_ context.Context, in turns.StoreTurnInput) (turns.StoreTurnResult, error) {
			require.Equal(t, "Model call limit reached: 1 calls in this turn.", in.Closing)
			require.Equal(t, 2, in.Step)
			return turns.StoreTurnResult{Output: `{"a":1}`, Plain: true, Structured: true}, nil
		}).Once()
	out := run(t, env, nil)
	require.Equal(t, agent.TurnCompleted, out.Status)
	require.JSONEq(t, `{"a":1}`, string(out.Structured))
}
