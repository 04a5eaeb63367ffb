package workflows_test

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/mock"
	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/workflow"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/turns"
	"github.com/turnstone-run/turnstone/workflows"
)

// queues lets QueueMessage accept everything but the message "no".
func queues(t *testing.T, env *testsuite.TestWorkflowEnvironment, events int) *[]string {
	t.Helper()
	var said []string
	env.OnActivity("QueueMessage", mock.Anything, mock.Anything).Return(
		func(_ context.Context, in turns.QueueMessageInput) (turns.QueueMessageResult, error) {
			require.Equal(t, agent.SessionID("s1"), in.SessionID)
			require.False(t, in.Start, "the conversation starts its turns itself")
			if in.Message.Message == "no" {
				return turns.QueueMessageResult{Refusal: &agent.Failure{Type: "invalid", Message: "message: is no"}}, nil
			}
			said = append(said, in.Message.Message)
			return turns.QueueMessageResult{TurnID: in.TurnID, ContinueAsNew: events}, nil
		})
	return &said
}

// answers runs children that take a second each.
func answers(t *testing.T, env *testsuite.TestWorkflowEnvironment, children *[]agent.TurnRequest) {
	t.Helper()
	env.OnWorkflow(workflows.AgentTurnType, mock.Anything, mock.Anything, mock.Anything).Return(
		func(ctx workflow.Context, raw converter.RawValue, _ *workflows.Carry) (agent.AgentStepOutput, error) {
			var r agent.TurnRequest
			require.NoError(t, json.Unmarshal(raw.Payload().GetData(), &r))
			*children = append(*children, r)
			err := workflow.Sleep(ctx, time.Second)
			return agent.AgentStepOutput{TurnID: r.TurnID, Status: agent.TurnCompleted, ResultRef: "artifact://" + string(r.TurnID)}, err
		})
}

func converse(t *testing.T, env *testsuite.TestWorkflowEnvironment, carry *workflows.ConversationCarry) workflows.ConversationResult {
	t.Helper()
	env.ExecuteWorkflow(workflows.ConversationType, workflows.ConversationInput{SessionID: "s1", IdleTimeout: "1h"}, carry)
	require.True(t, env.IsWorkflowCompleted())
	require.NoError(t, env.GetWorkflowError())
	var out workflows.ConversationResult
	require.NoError(t, env.GetWorkflowResult(&out))
	return out
}

func TestConversationRunsOneTurnAtATime(t *testing.T) {
	env := newEnv(t)
	said := queues(t, env, 0)
	var children []agent.TurnRequest
	answers(t, env, &children)
	env.RegisterDelayedCallback(func() {
		env.SignalWorkflow("message", turns.Message{Message: "one"})
		env.UpdateWorkflowNoRejection("message", "u1", t, turns.Message{Message: "two"})
		env.SignalWorkflow("message", turns.Message{Message: "no"})
	}, time.Second)
	out := converse(t, env, nil)
	require.ElementsMatch(t, []string{"one", "two"}, *said)
	require.Equal(t, 2, out.Turns)
	require.Len(t, children, 2)
	require.NotEqual(t, children[0].TurnID, children[1].TurnID)
	require.Empty(t, children[0].Message, "the text is in the store")
	require.Equal(t, workflows.SignalTokens, children[0].StreamTo.Signal)
	require.Equal(t, children[1].TurnID, out.Last.TurnID)
}

func TestConversationShowsTheAnswerGrowing(t *testing.T) {
	env := newEnv(t)
	queues(t, env, 0)
	view := func() (v workflows.ConversationView) {
		value, err := env.QueryWorkflow(workflows.QueryState)
		require.NoError(t, err)
		require.NoError(t, value.Get(&v))
		return v
	}
	env.OnWorkflow(workflows.AgentTurnType, mock.Anything, mock.Anything, mock.Anything).Return(
		func(ctx workflow.Context, raw converter.RawValue, _ *workflows.Carry) (agent.AgentStepOutput, error) {
			var r agent.TurnRequest
			require.NoError(t, json.Unmarshal(raw.Payload().GetData(), &r))
			tell := func(b agent.TokenBatch) workflows.ConversationView {
				b.TurnID = r.TurnID
				env.SignalWorkflow(workflows.SignalTokens, b)
				require.NoError(t, workflow.Sleep(ctx, time.Millisecond))
				return view()
			}
			require.Equal(t, "lost", tell(agent.TokenBatch{Step: 1, Attempt: 1, Batch: 1, Text: "lost"}).Partial)
			require.Equal(t, "hel", tell(agent.TokenBatch{Step: 1, Attempt: 2, Batch: 1, Text: "hel"}).Partial, "a new attempt voids the old one")
			require.Equal(t, "hel", tell(agent.TokenBatch{Step: 1, Attempt: 1, Batch: 2, Text: "zombie"}).Partial)
			require.Equal(t, "hello", tell(agent.TokenBatch{Step: 1, Attempt: 2, Batch: 2, Text: "lo"}).Partial)
			v := tell(agent.TokenBatch{Step: 1, Pending: []agent.PendingApproval{{ApprovalID: "ap", ToolName: "x"}}})
			require.Equal(t, "waiting", v.Status)
			require.Equal(t, "ap", v.Waiting[0].ApprovalID)
			refused := false
			env.UpdateWorkflow("decide", "u", &testsuite.TestUpdateCallback{
				OnAccept: func() { t.Error("accepted") }, OnComplete: func(any, error) {},
				OnReject: func(err error) {
					refused = true
					require.ErrorContains(t, err, `does not wait for the approval "other"`)
				},
			}, agent.Decision{ApprovalID: "other", Decision: agent.DecisionApprove})
			require.NoError(t, workflow.Sleep(ctx, time.Millisecond))
			require.True(t, refused)
			return agent.AgentStepOutput{TurnID: r.TurnID, Status: agent.TurnCompleted}, nil
		})
	env.RegisterDelayedCallback(func() { env.SignalWorkflow("message", turns.Message{Message: "hi"}) }, time.Second)
	require.Equal(t, 1, converse(t, env, nil).Turns)
}

func TestConversationPassesDecisionsOn(t *testing.T) {
	d := agent.Decision{ApprovalID: "ap", Decision: agent.DecisionApprove, By: "ann"}
	ways := map[string]func(*testsuite.TestWorkflowEnvironment){
		"by signal": func(env *testsuite.TestWorkflowEnvironment) { env.SignalWorkflow("decide", d) },
		"by update": func(env *testsuite.TestWorkflowEnvironment) { env.UpdateWorkflowNoRejection("decide", "u", t, d) },
	}
	for name, decide := range ways {
		t.Run(name, func(t *testing.T) {
			env := newEnv(t)
			queues(t, env, 0)
			heard := 0
			env.OnWorkflow(workflows.AgentTurnType, mock.Anything, mock.Anything, mock.Anything).Return(
				func(ctx workflow.Context, _ converter.RawValue, _ *workflows.Carry) (agent.AgentStepOutput, error) {
					var got agent.Decision
					workflow.GetSignalChannel(ctx, "decide").Receive(ctx, &got)
					require.Equal(t, d, got)
					heard++
					return agent.AgentStepOutput{Status: agent.TurnCompleted}, nil
				})
			env.RegisterDelayedCallback(func() { env.SignalWorkflow("message", turns.Message{Message: "hi"}) }, time.Second)
			env.RegisterDelayedCallback(func() { decide(env) }, 1500*time.Millisecond)
			require.Equal(t, 1, converse(t, env, nil).Turns)
			require.Equal(t, 1, heard)
		})
	}
}

func TestConversationContinuesAsNewWithNothingLost(t *testing.T) {
	env := newEnv(t)
	queues(t, env, 50)
	var children []agent.TurnRequest
	answers(t, env, &children)
	for i := range 3 {
		env.RegisterDelayedCallback(func() {
			env.SetCurrentHistoryLength(20 * (i + 1))
			env.SignalWorkflow("message", turns.Message{Message: fmt.Sprint(i)})
		}, time.Second+time.Duration(i)*100*time.Millisecond)
	}
	env.ExecuteWorkflow(workflows.ConversationType, workflows.ConversationInput{SessionID: "s1"}, nil)
	var next *workflow.ContinueAsNewError
	require.ErrorAs(t, env.GetWorkflowError(), &next)
	var carry workflows.ConversationCarry
	require.NoError(t, json.Unmarshal(next.Input.GetPayloads()[1].GetData(), &carry))
	require.Equal(t, 1, carry.Turns, "the turn at work came to its end")
	require.Len(t, carry.Pending, 2, "those that wait go along")
	require.NotContains(t, string(next.Input.GetPayloads()[1].GetData()), "message")
	require.Equal(t, 50, carry.Limit)

	env = newEnv(t)
	children = nil
	answers(t, env, &children)
	out := converse(t, env, &carry)
	require.Equal(t, 3, out.Turns)
	require.Equal(t, carry.Pending[0], children[0].TurnID)
	require.Equal(t, carry.Pending[1], children[1].TurnID)
}

func TestConversationCloses(t *testing.T) {
	t.Run("when told", func(t *testing.T) {
		env := newEnv(t)
		start := env.Now()
		env.RegisterDelayedCallback(func() { env.SignalWorkflow(workflows.SignalClose, nil) }, time.Minute)
		require.Zero(t, converse(t, env, nil).Turns)
		require.Less(t, env.Now().Sub(start), time.Hour)
	})
	t.Run("when nobody says anything", func(t *testing.T) {
		env := newEnv(t)
		start := env.Now()
		converse(t, env, nil)
		require.GreaterOrEqual(t, env.Now().Sub(start), time.Hour)
	})
}
