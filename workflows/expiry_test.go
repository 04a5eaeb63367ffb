package workflows_test

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/mock"
	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/workflow"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/turn"
	"github.com/turnstone-run/turnstone/internal/turns"
	"github.com/turnstone-run/turnstone/workflows"
)

// waits makes a turn of today's version wait for the approvals A and B, the first of which expires after a time, if any.
func waits(env *testsuite.TestWorkflowEnvironment, expires time.Duration, events int) {
	begun := ready()
	begun.CoreVersion, begun.ContinueAsNew = turn.VersionLooks, events
	env.OnActivity("BeginTurn", mock.Anything, mock.Anything, mock.Anything).Return(begun, nil).Once()
	env.OnActivity("CallModel", mock.Anything, mock.Anything).
		Return(asksFor(agent.CallVerdict{ID: "a", Gate: agent.GateApproval}, agent.CallVerdict{ID: "b", Gate: agent.GateApproval}), nil).Once()
	env.OnActivity("RequestApproval", mock.Anything, mock.Anything).Return(turns.RequestApprovalResult{
		Pending: []agent.PendingApproval{{ApprovalID: "A", CallID: "a"}, {ApprovalID: "B", CallID: "b"}}, ExpiresInMS: expires.Milliseconds(),
	}, nil).Once()
}

// look is one answer of the store to a turn that looks for decisions, and what the turn must have asked.
type look struct {
	after  time.Duration // since the pause began
	asked  []string
	answer turns.LookForDecisionsResult
}

func verdict(id agent.CallID) agent.DecisionVerdict {
	return agent.DecisionVerdict{ApprovalID: map[agent.CallID]string{"a": "A", "b": "B"}[id], CallID: id, Run: true}
}

// TestWaitingTurnLooksForDecisions: nobody tells the workflow anything, and it goes on by what the store has.
func TestWaitingTurnLooksForDecisions(t *testing.T) {
	both := []string{"A", "B"}
	found := func(ids ...agent.CallID) (r turns.LookForDecisionsResult) {
		for _, id := range ids {
			r.Verdicts = append(r.Verdicts, verdict(id))
		}
		return r
	}
	end := verdict("a")
	end.Run, end.End = false, true
	cases := map[string]struct {
		expires time.Duration
		looks   []look
		stop    agent.StopReason
	}{
		"decided": {looks: []look{{30 * time.Second, both, found()}, {90 * time.Second, both, found("a", "b")}}, stop: agent.StopEndTurn},
		"one after the other": {
			looks: []look{{30 * time.Second, both, found("a")}, {90 * time.Second, []string{"B"}, found("b")}}, stop: agent.StopEndTurn,
		},
		"cancelled": {looks: []look{{30 * time.Second, both, turns.LookForDecisionsResult{Cancelled: true}}}, stop: agent.StopCancelled},
		"expired between two looks": {
			expires: 40 * time.Second,
			looks: []look{
				{30 * time.Second, both, turns.LookForDecisionsResult{NextInMS: 10_000}},
				{40 * time.Second, both, turns.LookForDecisionsResult{Verdicts: []agent.DecisionVerdict{end}}},
			},
			stop: agent.StopApprovalExpired,
		},
		"not more often than every ten minutes": {
			looks: []look{
				{30 * time.Second, both, found()},
				{90 * time.Second, both, found()},
				{210 * time.Second, both, found()},
				{450 * time.Second, both, found()},
				{930 * time.Second, both, found()},
				{1530 * time.Second, both, found()},
				{2130 * time.Second, both, found("b", "a")},
			},
			stop: agent.StopEndTurn,
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			env := newEnv(t)
			waits(env, c.expires, 0)
			began, n := env.Now(), 0
			env.OnActivity("LookForDecisions", mock.Anything, mock.Anything).Return(
				func(_ context.Context, in turns.LookForDecisionsInput) (turns.LookForDecisionsResult, error) {
					l := c.looks[n]
					n++
					require.Equal(t, turns.LookForDecisionsInput{TurnID: "t1", Step: 1, Approvals: l.asked}, in)
					require.InDelta(t, l.after.Seconds(), env.Now().Sub(began).Seconds(), 1)
					return l.answer, nil
				}).Times(len(c.looks))
			if c.stop == agent.StopEndTurn {
				env.OnActivity("CallTool", mock.Anything, mock.Anything).Return(agent.ToolVerdict{}, nil).Times(2)
				env.OnActivity("CallModel", mock.Anything, mock.Anything).Return(agent.ModelVerdict{}, nil).Once()
			}
			stores(env)
			require.Equal(t, c.stop, run(t, env, nil).StopReason)
		})
	}
}

// TestWaitingTurnContinuesAsNew: the looks of a turn that waits for days do not fill its history, and the next run looks as rarely.
func TestWaitingTurnContinuesAsNew(t *testing.T) {
	env := newEnv(t)
	waits(env, 0, 50)
	env.OnActivity("LookForDecisions", mock.Anything, mock.Anything).Return(
		func(context.Context, turns.LookForDecisionsInput) (turns.LookForDecisionsResult, error) {
			env.SetCurrentHistoryLength(60)
			return turns.LookForDecisionsResult{Verdicts: []agent.DecisionVerdict{verdict("a")}}, nil
		}).Once()
	env.ExecuteWorkflow(workflows.AgentTurnType, agent.TurnRequest{Message: "hello"}, nil)
	var next *workflow.ContinueAsNewError
	require.ErrorAs(t, env.GetWorkflowError(), &next)
	var carry workflows.Carry
	require.NoError(t, json.Unmarshal(next.Input.GetPayloads()[1].GetData(), &carry))
	require.Equal(t, []agent.PendingApproval{{ApprovalID: "B", CallID: "b"}}, carry.Pending)

	env = newEnv(t)
	began := env.Now()
	env.OnActivity("LookForDecisions", mock.Anything, turns.LookForDecisionsInput{TurnID: "t1", Step: 1, Approvals: []string{"B"}}).Return(
		func(context.Context, turns.LookForDecisionsInput) (turns.LookForDecisionsResult, error) {
			require.InDelta(t, 60, env.Now().Sub(began).Seconds(), 1)
			return turns.LookForDecisionsResult{Verdicts: []agent.DecisionVerdict{verdict("b")}}, nil
		}).Once()
	env.OnActivity("CallTool", mock.Anything, mock.Anything).Return(agent.ToolVerdict{}, nil).Times(2)
	env.OnActivity("CallModel", mock.Anything, mock.Anything).Return(agent.ModelVerdict{}, nil).Once()
	stores(env)
	require.Equal(t, agent.TurnCompleted, run(t, env, &carry).Status)
}
