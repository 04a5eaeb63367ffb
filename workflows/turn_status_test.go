package workflows_test

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/mock"
	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/workflow"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/turns"
	"github.com/turnstone-run/turnstone/workflows"
)

// waitsForAPerson makes the turn ask once for an approval, which expires with the turn after an hour.
func waitsForAPerson(env *testsuite.TestWorkflowEnvironment) {
	env.OnActivity("CallModel", mock.Anything, mock.Anything).
		Return(asksFor(agent.CallVerdict{ID: "a", Gate: agent.GateApproval, Rule: "r"}), nil).Once()
	env.OnActivity("RequestApproval", mock.Anything, mock.Anything).Return(turns.RequestApprovalResult{
		Pending: []agent.PendingApproval{{ApprovalID: "A", CallID: "a"}}, ExpiresInMS: time.Hour.Milliseconds(),
	}, nil).Once()
	env.OnActivity("ExpireApprovals", mock.Anything, mock.Anything).Return(
		turns.ExpireApprovalsResult{Verdicts: []agent.DecisionVerdict{{ApprovalID: "A", CallID: "a", End: true}}}, nil).Maybe()
}

func modelAnswers(env *testsuite.TestWorkflowEnvironment) {
	env.OnActivity("CallModel", mock.Anything, mock.Anything).Return(agent.ModelVerdict{}, nil).Once()
}

// approves lets the turn's call run a minute later, and the model answer.
func approves(env *testsuite.TestWorkflowEnvironment) {
	env.OnActivity("Decide", mock.Anything, mock.Anything).
		Return(turns.DecideResult{Verdict: &agent.DecisionVerdict{ApprovalID: "A", CallID: "a", Run: true}}, nil).Once()
	env.OnActivity("CallTool", mock.Anything, mock.Anything).Return(agent.ToolVerdict{ID: "a"}, nil).Once()
	modelAnswers(env)
	env.RegisterDelayedCallback(func() {
		env.SignalWorkflow(workflows.UpdateDecide, agent.Decision{ApprovalID: "A", Decision: agent.DecisionApprove})
	}, time.Minute)
}

// TestStatusIsIndexed: turns that wait or do not complete are found in Temporal by TurnstoneStatus; others cost no event.
func TestStatusIsIndexed(t *testing.T) {
	status := temporal.NewSearchAttributeKeyKeyword(workflows.AttributeStatus)
	stop := temporal.NewSearchAttributeKeyKeyword(workflows.AttributeStopReason)
	for name, c := range map[string]struct {
		unknown bool // to the namespace
		turn    func(*testsuite.TestWorkflowEnvironment)
		want    []string
	}{
		"completed": {turn: modelAnswers},
		"waited and completed": {
			turn: func(env *testsuite.TestWorkflowEnvironment) { waitsForAPerson(env); approves(env) },
			want: []string{"waiting", "running", "completed end_turn"},
		},
		"waited and failed": {turn: waitsForAPerson, want: []string{"waiting", "failed approval_expired"}},
		"unknown":           {unknown: true, turn: waitsForAPerson},
	} {
		t.Run(name, func(t *testing.T) {
			env := newEnv(t)
			begun := ready()
			begun.StatusAttributes = !c.unknown
			env.OnActivity("BeginTurn", mock.Anything, mock.Anything, mock.Anything).Return(begun, nil).Once()
			var indexed []string
			env.OnUpsertTypedSearchAttributes(mock.Anything).Run(func(args mock.Arguments) {
				a, _ := args.Get(0).(temporal.SearchAttributes)
				entry, _ := a.GetKeyword(status)
				if reason, ok := a.GetKeyword(stop); ok {
					entry += " " + reason
				}
				indexed = append(indexed, entry)
			}).Return(nil).Maybe()
			c.turn(env)
			stores(env)
			run(t, env, nil)
			require.Equal(t, c.want, indexed)
		})
	}
}

// TestStatusGoesOnInTheNextRun: a turn that continues as new while it waits is not indexed as waiting again, and still fails its workflow.
func TestStatusGoesOnInTheNextRun(t *testing.T) {
	env := newEnv(t)
	begun := ready()
	begun.CoreVersion, begun.StatusAttributes, begun.FailsWorkflow, begun.ContinueAsNew = 2, true, true, 50
	env.OnActivity("BeginTurn", mock.Anything, mock.Anything, mock.Anything).Return(begun, nil).Once()
	env.OnUpsertTypedSearchAttributes(mock.Anything).Return(nil).Once()
	waitsForAPerson(env)
	env.OnActivity("LookForDecisions", mock.Anything, mock.Anything).Return(
		func(context.Context, turns.LookForDecisionsInput) (turns.LookForDecisionsResult, error) {
			env.SetCurrentHistoryLength(60)
			return turns.LookForDecisionsResult{Verdicts: []agent.DecisionVerdict{{ApprovalID: "A", CallID: "a", Run: true}}}, nil
		}).Once()
	env.ExecuteWorkflow(workflows.AgentTurnType, agent.TurnRequest{Message: "hello"}, nil)
	var next *workflow.ContinueAsNewError
	require.ErrorAs(t, env.GetWorkflowError(), &next)
	var carry workflows.Carry
	require.NoError(t, json.Unmarshal(next.Input.GetPayloads()[1].GetData(), &carry))
	require.Equal(t, "waiting", carry.IndexedStatus)
	require.True(t, carry.StatusAttributes)
	require.True(t, carry.FailsWorkflow)
}

// TestWorkflowOfAFailedTurnFails where the worker is configured so.
func TestWorkflowOfAFailedTurnFails(t *testing.T) {
	env := newEnv(t)
	begun := ready()
	begun.FailsWorkflow = true
	env.OnActivity("BeginTurn", mock.Anything, mock.Anything, mock.Anything).Return(begun, nil).Once()
	waitsForAPerson(env)
	stores(env)
	env.ExecuteWorkflow(workflows.AgentTurnType, agent.TurnRequest{Message: "hello"}, nil)
	var failure *temporal.ApplicationError
	require.ErrorAs(t, env.GetWorkflowError(), &failure)
	require.True(t, failure.NonRetryable())
	var out agent.AgentStepOutput
	require.NoError(t, failure.Details(&out))
	require.Equal(t, agent.TurnFailed, out.Status)
	require.Equal(t, out.Error.Type, failure.Type())
}
