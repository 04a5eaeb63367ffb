package workflows_test

import (
	"context"
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/mock"
	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"github.com/turnstone-run/turnstone/activities"
	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/turn"
	"github.com/turnstone-run/turnstone/internal/turns"
	"github.com/turnstone-run/turnstone/workflows"
)

var ref = turns.TurnRef{TurnID: "t1", Tenant: "acme", SessionID: "s1", Agent: "analyst", PlanHash: "sha256:x"}

func ready() turns.BeginTurnResult {
	return turns.BeginTurnResult{Verdict: turns.VerdictReady, Turn: ref, CoreVersion: 1, LoadPlanResult: turns.LoadPlanResult{ModelName: "m"}}
}

// newEnv gives an environment in which the turn begins at once, answers at once and stores what it is told.
func newEnv(t *testing.T) *testsuite.TestWorkflowEnvironment {
	t.Helper()
	var suite testsuite.WorkflowTestSuite
	env := suite.NewTestWorkflowEnvironment()
	env.SetTestTimeout(20 * time.Second)
	env.SetWorkerOptions(worker.Options{DeadlockDetectionTimeout: 20 * time.Second}) // the race detector's first steps are slow
	workflows.Register(env)
	var none *activities.Activities
	workflows.RegisterActivities(env, none)
	t.Cleanup(func() { env.AssertExpectations(t) })
	return env
}

func stores(env *testsuite.TestWorkflowEnvironment) {
	env.OnActivity("StoreTurn", mock.Anything, mock.Anything).Return(
		func(_ context.Context, in turns.StoreTurnInput) (turns.StoreTurnResult, error) {
			return turns.StoreTurnResult{Output: "said", ResultRef: "artifact://" + string(in.TurnID)}, nil
		}).Once()
}

func run(t *testing.T, env *testsuite.TestWorkflowEnvironment, carry *workflows.Carry) agent.AgentStepOutput {
	t.Helper()
	env.ExecuteWorkflow(workflows.AgentTurnType, agent.TurnRequest{Message: "hello"}, carry)
	require.True(t, env.IsWorkflowCompleted())
	require.NoError(t, env.GetWorkflowError())
	var out agent.AgentStepOutput
	require.NoError(t, env.GetWorkflowResult(&out))
	return out
}

func TestTurn(t *testing.T) {
	env := newEnv(t)
	env.OnActivity("BeginTurn", mock.Anything, mock.Anything, mock.Anything).Return(
		func(_ context.Context, raw converter.RawValue, in turns.BeginTurnInput) (turns.BeginTurnResult, error) {
			require.JSONEq(t, `{"message":"hello"}`, string(raw.Payload().GetData()), "the request arrives as it was typed")
			require.NotEmpty(t, in.WorkflowID)
			return ready(), nil
		}).Once()
	env.OnActivity("CallModel", mock.Anything, mock.Anything).Return(
		func(_ context.Context, in turns.CallModelInput) (agent.ModelVerdict, error) {
			require.Equal(t, ref.TurnID, in.TurnID)
			usage := agent.Usage{InputTokens: 1, OutputTokens: 2}
			if in.Step == 2 {
				return agent.ModelVerdict{FinishReason: agent.FinishStop, Usage: usage}, nil
			}
			return agent.ModelVerdict{Usage: usage, Calls: []agent.CallVerdict{{ID: "a", Name: "x", Local: true}, {ID: "b", Name: "y"}}}, nil
		}).Times(2)
	env.OnActivity("CallTool", mock.Anything, mock.Anything).Return(
		func(_ context.Context, in turns.CallToolInput) (agent.ToolVerdict, error) {
			require.Equal(t, 1, in.Step)
			return agent.ToolVerdict{ID: in.CallID}, nil
		}).Times(2)
	stores(env)
	out := run(t, env, nil)
	require.Equal(t, agent.TurnCompleted, out.Status)
	require.Equal(t, agent.StopEndTurn, out.StopReason)
	require.Equal(t, agent.Usage{InputTokens: 2, OutputTokens: 4}, out.Usage)
}

// The result of a delegated turn is written into the history of the turn that asked, past its middleware: it has no words.
func TestResultOfADelegatedTurnHasNoWords(t *testing.T) {
	env := newEnv(t)
	begun := ready()
	begun.Turn.Delegated = true
	env.OnActivity("BeginTurn", mock.Anything, mock.Anything, mock.Anything).Return(begun, nil).Once()
	env.OnActivity("CallModel", mock.Anything, mock.Anything).Return(agent.ModelVerdict{FinishReason: agent.FinishStop}, nil).Once()
	env.OnActivity("StoreTurn", mock.Anything, mock.Anything).Return(turns.StoreTurnResult{
		Output: "joe", Plain: true, Structured: true, ResultPreview: []byte(`"joe"`), ResultRef: "artifact://a",
		Final: &agent.AgentStepOutput{Output: "joe", Status: agent.TurnFailed, ResultRef: "artifact://a", Error: &agent.Failure{Type: "internal", Message: "joe"}},
	}, nil).Once()
	out := run(t, env, nil)
	require.Equal(t, "artifact://a", out.ResultRef)
	require.Equal(t, "internal", out.Error.Type)
	shown, err := json.Marshal(out)
	require.NoError(t, err)
	require.NotContains(t, string(shown), "joe")
}

func TestLocalActivityFallsBackToANormalOne(t *testing.T) {
	env := newEnv(t)
	locally := map[string]int{}
	flaky := func(name string) error {
		locally[name]++
		if locally[name] <= map[string]int{"BeginTurn": 3, "CallTool": 1}[name] {
			return errors.New("the database is away")
		}
		return nil
	}
	env.OnActivity("BeginTurn", mock.Anything, mock.Anything, mock.Anything).Return(
		func(context.Context, converter.RawValue, turns.BeginTurnInput) (turns.BeginTurnResult, error) {
			return ready(), flaky("BeginTurn")
		})
	env.OnActivity("CallModel", mock.Anything, mock.Anything).Return(
		func(_ context.Context, in turns.CallModelInput) (agent.ModelVerdict, error) {
			if in.Step == 2 {
				return agent.ModelVerdict{}, nil
			}
			return agent.ModelVerdict{Calls: []agent.CallVerdict{{ID: "a", Name: "x", Local: true}}}, nil
		})
	env.OnActivity("CallTool", mock.Anything, mock.Anything).Return(
		func(_ context.Context, in turns.CallToolInput) (agent.ToolVerdict, error) {
			return agent.ToolVerdict{ID: in.CallID}, flaky("CallTool")
		})
	stores(env)
	require.Equal(t, agent.TurnCompleted, run(t, env, nil).Status)
	require.Equal(t, map[string]int{"BeginTurn": 4, "CallTool": 2}, locally)
}

func TestRefusedRequestFailsTheWorkflow(t *testing.T) {
	env := newEnv(t)
	env.OnActivity("BeginTurn", mock.Anything, mock.Anything, mock.Anything).Return(turns.BeginTurnResult{
		Verdict: turns.VerdictRefused, Refusal: &agent.Failure{Type: "invalid", Message: "limits.tool_calls: is negative"},
	}, nil).Once()
	env.ExecuteWorkflow(workflows.AgentTurnType, agent.TurnRequest{}, nil)
	var application *temporal.ApplicationError
	require.ErrorAs(t, env.GetWorkflowError(), &application)
	require.Equal(t, "invalid", application.Type())
	require.Equal(t, "limits.tool_calls: is negative", application.Message())
	require.True(t, application.NonRetryable())
}

func TestDuplicateReturnsWhatIsStored(t *testing.T) {
	env := newEnv(t)
	env.OnActivity("BeginTurn", mock.Anything, mock.Anything, mock.Anything).Return(turns.BeginTurnResult{
		Verdict: turns.VerdictDuplicate, Turn: ref, Output: &agent.AgentStepOutput{TurnID: "t1", Output: "before"},
	}, nil).Once()
	require.Equal(t, "before", run(t, env, nil).Output)
}

func TestTurnWaitsForItsSession(t *testing.T) {
	behind := turns.BeginTurnResult{Verdict: turns.VerdictBehind, Turn: ref, Holder: "t0", Position: 2}
	answers := func(env *testsuite.TestWorkflowEnvironment) {
		env.OnActivity("CallModel", mock.Anything, mock.Anything).Return(agent.ModelVerdict{}, nil).Once()
	}
	t.Run("until it is told", func(t *testing.T) {
		env := newEnv(t)
		env.OnActivity("BeginTurn", mock.Anything, mock.Anything, mock.Anything).Return(behind, nil).Once()
		env.OnActivity("BeginTurn", mock.Anything, mock.Anything, mock.Anything).Return(ready(), nil).Once()
		answers(env)
		stores(env)
		env.RegisterDelayedCallback(func() {
			var v workflows.TurnView
			value, err := env.QueryWorkflow(workflows.QueryState)
			require.NoError(t, err)
			require.NoError(t, value.Get(&v))
			require.Equal(t, "queued", v.Status)
			require.Equal(t, agent.TurnID("t0"), v.Holder)
			env.SignalWorkflow(workflows.SignalReady, nil)
		}, 10*time.Second)
		require.Equal(t, agent.TurnCompleted, run(t, env, nil).Status)
	})
	t.Run("and asks again when nobody tells it", func(t *testing.T) {
		env := newEnv(t)
		start := env.Now()
		env.OnActivity("BeginTurn", mock.Anything, mock.Anything, mock.Anything).Return(behind, nil).Times(3)
		env.OnActivity("BeginTurn", mock.Anything, mock.Anything, mock.Anything).Return(
			func(_ context.Context, _ converter.RawValue, in turns.BeginTurnInput) (turns.BeginTurnResult, error) {
				require.True(t, in.Again)
				return ready(), nil
			}).Once()
		answers(env)
		stores(env)
		require.Equal(t, agent.TurnCompleted, run(t, env, nil).Status)
		require.GreaterOrEqual(t, env.Now().Sub(start), 210*time.Second, "30 s, 60 s, 120 s")
	})
	t.Run("and finds out that it was cancelled", func(t *testing.T) {
		env := newEnv(t)
		cancelled := behind
		cancelled.Cancelled = true
		env.OnActivity("BeginTurn", mock.Anything, mock.Anything, mock.Anything).Return(behind, nil).Once()
		env.OnActivity("BeginTurn", mock.Anything, mock.Anything, mock.Anything).Return(
			func(_ context.Context, _ converter.RawValue, in turns.BeginTurnInput) (turns.BeginTurnResult, error) {
				require.Equal(t, ref.TurnID, in.TurnID, "it asks for the turn that was recorded")
				return cancelled, nil
			}).Once()
		stores(env)
		require.Equal(t, agent.TurnCancelled, run(t, env, nil).Status)
	})
	t.Run("and can be cancelled while it waits", func(t *testing.T) {
		env := newEnv(t)
		env.OnActivity("BeginTurn", mock.Anything, mock.Anything, mock.Anything).Return(behind, nil).Once()
		env.OnActivity("CancelTurn", mock.Anything, mock.Anything).Return(nil).Once()
		stores(env)
		env.RegisterDelayedCallback(func() { env.SignalWorkflow(workflows.UpdateCancel, agent.CancelRequest{By: "ops"}) }, time.Second)
		require.Equal(t, agent.TurnCancelled, run(t, env, nil).Status)
	})
}

func TestCancel(t *testing.T) {
	ways := map[string]func(*testsuite.TestWorkflowEnvironment){
		"by Temporal": func(env *testsuite.TestWorkflowEnvironment) { env.CancelWorkflow() },
		"by signal":   func(env *testsuite.TestWorkflowEnvironment) { env.SignalWorkflow("cancel", agent.CancelRequest{}) },
		"by update": func(env *testsuite.TestWorkflowEnvironment) {
			env.UpdateWorkflowNoRejection("cancel", "u", t, agent.CancelRequest{})
		},
	}
	for name, cancel := range ways {
		t.Run(name, func(t *testing.T) {
			env := newEnv(t)
			env.OnActivity("BeginTurn", mock.Anything, mock.Anything, mock.Anything).Return(ready(), nil).Once()
			env.OnActivity("CancelTurn", mock.Anything, turns.CancelTurnInput{TurnID: "t1", Cancel: cancelReason(name)}).Return(nil).Once()
			// The mark in the log is what ends the model call; the activity itself is never cancelled by Temporal.
			env.OnActivity("CallModel", mock.Anything, mock.Anything).After(3*time.Second).Return(agent.ModelVerdict{Cancelled: true}, nil).Once()
			stores(env)
			env.RegisterDelayedCallback(func() { cancel(env) }, time.Second)
			out := run(t, env, nil)
			require.Equal(t, agent.TurnCancelled, out.Status)
			require.Equal(t, agent.StopCancelled, out.StopReason)
		})
	}
}

func cancelReason(way string) agent.CancelRequest {
	if way == "by Temporal" {
		return agent.CancelRequest{Reason: "the workflow was cancelled"}
	}
	return agent.CancelRequest{}
}

// gated makes the first model call ask for two approvals.
func gated(env *testsuite.TestWorkflowEnvironment) {
	env.OnActivity("BeginTurn", mock.Anything, mock.Anything, mock.Anything).Return(ready(), nil).Once()
	env.OnActivity("CallModel", mock.Anything, mock.Anything).Return(
		func(_ context.Context, in turns.CallModelInput) (agent.ModelVerdict, error) {
			if in.Step == 2 {
				return agent.ModelVerdict{}, nil
			}
			return agent.ModelVerdict{Calls: []agent.CallVerdict{
				{ID: "a", Name: "x", Gate: agent.GateApproval, Rule: "r"}, {ID: "b", Name: "y", Gate: agent.GateApproval, Rule: "r"},
			}}, nil
		})
	env.OnActivity("RequestApproval", mock.Anything, mock.Anything).Return(turns.RequestApprovalResult{Pending: []agent.PendingApproval{
		{ApprovalID: "ap-a", CallID: "a", ToolName: "x"}, {ApprovalID: "ap-b", CallID: "b", ToolName: "y"},
	}}, nil).Once()
}

func TestApprovalsAreDecidedInAnyOrder(t *testing.T) {
	env := newEnv(t)
	gated(env)
	env.OnActivity("Decide", mock.Anything, mock.Anything).Return(
		func(_ context.Context, in turns.DecideInput) (turns.DecideResult, error) {
			id := agent.CallID(in.Decision.ApprovalID[len("ap-"):])
			if id == "z" {
				return turns.DecideResult{Refusal: &agent.Failure{Type: "not_found", Message: "no such approval"}}, nil
			}
			return turns.DecideResult{Verdict: &agent.DecisionVerdict{
				ApprovalID: in.Decision.ApprovalID, CallID: id, Run: in.Decision.Decision == agent.DecisionApprove,
			}}, nil
		}).Times(3)
	env.OnActivity("CallTool", mock.Anything, mock.Anything).Return(
		func(_ context.Context, in turns.CallToolInput) (agent.ToolVerdict, error) {
			require.Equal(t, agent.CallID("b"), in.CallID, "the rejected call does not run")
			require.True(t, in.Decided)
			return agent.ToolVerdict{ID: in.CallID}, nil
		}).Once()
	stores(env)
	env.RegisterDelayedCallback(func() {
		var v workflows.TurnView
		value, err := env.QueryWorkflow(workflows.QueryState)
		require.NoError(t, err)
		require.NoError(t, value.Get(&v))
		require.Equal(t, "waiting", v.Status)
		require.Len(t, v.Pending, 2)
		env.SignalWorkflow("decide", agent.Decision{ApprovalID: "ap-z", Decision: agent.DecisionApprove})
		env.UpdateWorkflowNoRejection("decide", "u1", t, agent.Decision{ApprovalID: "ap-b", Decision: agent.DecisionApprove})
	}, time.Hour)
	env.RegisterDelayedCallback(func() {
		env.SignalWorkflow("decide", agent.Decision{ApprovalID: "ap-a", Decision: agent.DecisionReject})
	}, 48*time.Hour)
	out := run(t, env, nil)
	require.Equal(t, agent.TurnCompleted, out.Status)
}

// TestSecondInputIsRefused: a person who gives two inputs is told; the runtime's own second input names its turn.
func TestSecondInputIsRefused(t *testing.T) {
	for _, second := range []any{agent.TurnRequest{Message: "and this"}, map[string]any{}} {
		env := newEnv(t)
		env.ExecuteWorkflow(workflows.AgentTurnType, agent.TurnRequest{Message: "hello"}, second)
		var application *temporal.ApplicationError
		require.ErrorAs(t, env.GetWorkflowError(), &application)
		require.Equal(t, "invalid", application.Type())
		require.ErrorContains(t, application, "carry: AgentTurn takes one input")
		require.True(t, application.NonRetryable())
	}
}

func TestModelCallThatCannotRunFailsTheTurn(t *testing.T) {
	env := newEnv(t)
	env.OnActivity("BeginTurn", mock.Anything, mock.Anything, mock.Anything).Return(ready(), nil).Once()
	env.OnActivity("CallModel", mock.Anything, mock.Anything).Return(agent.ModelVerdict{},
		temporal.NewNonRetryableApplicationError("no provider nope", "invalid", nil)).Once()
	stores(env)
	out := run(t, env, nil)
	require.Equal(t, agent.TurnFailed, out.Status)
	require.Equal(t, "invalid", out.Error.Type)
	require.Equal(t, "no provider nope", out.Error.Message)
}

func TestTurnContinuesAsNew(t *testing.T) {
	env := newEnv(t)
	begun := ready()
	begun.ContinueAsNew = 1
	begun.StreamTo = &agent.StreamTo{WorkflowID: "w", Signal: "tokens"}
	env.OnActivity("BeginTurn", mock.Anything, mock.Anything, mock.Anything).Return(begun, nil).Once()
	env.OnActivity("CallModel", mock.Anything, mock.Anything).Return(agent.ModelVerdict{
		Usage: agent.Usage{InputTokens: 5}, Calls: []agent.CallVerdict{{ID: "a", Name: "x"}},
	}, nil).Once()
	env.SetCurrentHistoryLength(10)
	env.ExecuteWorkflow(workflows.AgentTurnType, agent.TurnRequest{Message: "a long text that must not be carried"}, nil)
	var next *workflow.ContinueAsNewError
	require.ErrorAs(t, env.GetWorkflowError(), &next)
	require.Len(t, next.Input.GetPayloads(), 2)
	require.JSONEq(t, `{"turn_id":"t1","session_id":"s1"}`, string(next.Input.GetPayloads()[0].GetData()))
	var carry workflows.Carry
	require.NoError(t, json.Unmarshal(next.Input.GetPayloads()[1].GetData(), &carry))
	require.Equal(t, 1, carry.State.ModelCalls)

	env = newEnv(t)
	env.OnActivity("CallTool", mock.Anything, mock.Anything).Return(agent.ToolVerdict{ID: "a"}, nil).Once()
	env.OnActivity("CallModel", mock.Anything, mock.Anything).Return(
		func(_ context.Context, in turns.CallModelInput) (agent.ModelVerdict, error) {
			require.Equal(t, 2, in.Step)
			require.Equal(t, "w", in.StreamTo.WorkflowID)
			return agent.ModelVerdict{Usage: agent.Usage{InputTokens: 7}}, nil
		}).Once()
	stores(env)
	out := run(t, env, &carry)
	require.Equal(t, agent.TurnCompleted, out.Status)
	require.Equal(t, int64(12), out.Usage.InputTokens, "the counters came along")
}

func TestLimitsEndTheTurn(t *testing.T) {
	env := newEnv(t)
	begun := ready()
	begun.Limits = agent.Limits{ModelCalls: 2}
	env.OnActivity("BeginTurn", mock.Anything, mock.Anything, mock.Anything).Return(begun, nil).Once()
	env.OnActivity("CallModel", mock.Anything, mock.Anything).Return(agent.ModelVerdict{Jump: agent.JumpModel}, nil).Times(2)
	stores(env)
	out := run(t, env, nil)
	require.Equal(t, agent.StopModelCalls, out.StopReason)
	require.Equal(t, agent.TurnFailed, out.Status)
}

func TestCoreVersionsAgree(t *testing.T) {
	require.Equal(t, turn.Version, turns.CoreVersion)
}

// TestRecordIsGone: a turn whose record is gone fails once and for all: nothing is asked for twice.
func TestRecordIsGone(t *testing.T) {
	gone := temporal.NewNonRetryableApplicationError("there is no record of turn t1", "not_found", nil)
	env := newEnv(t)
	env.OnActivity("BeginTurn", mock.Anything, mock.Anything, mock.Anything).Return(ready(), nil).Once()
	env.OnActivity("CallModel", mock.Anything, mock.Anything).Return(agent.ModelVerdict{}, gone).Once()
	env.OnActivity("StoreTurn", mock.Anything, mock.Anything).Return(turns.StoreTurnResult{}, gone).Once()
	env.ExecuteWorkflow(workflows.AgentTurnType, agent.TurnRequest{Message: "hello"}, nil)
	require.True(t, env.IsWorkflowCompleted())
	require.ErrorContains(t, env.GetWorkflowError(), "there is no record of turn t1")
	env.AssertExpectations(t)
}
