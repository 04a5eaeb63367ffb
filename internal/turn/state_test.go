package turn_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/turn"
)

func call(id string, gate agent.Gate) agent.CallVerdict {
	return agent.CallVerdict{ID: agent.CallID(id), Name: "tool_" + id, Gate: gate}
}

func TestTurnWithoutTools(t *testing.T) {
	s := turn.New(turn.Version, agent.Limits{}, agent.Rules{})
	require.Equal(t, turn.Action{Kind: turn.CallModel, Step: 1}, s.Next())
	require.Equal(t, s.Next(), s.Next(), "Next changes nothing")

	s = s.AfterModel(agent.ModelVerdict{FinishReason: agent.FinishStop, Usage: agent.Usage{InputTokens: 3, OutputTokens: 4}, Model: "m"})
	require.Equal(t, turn.Action{Kind: turn.Finish, Status: agent.TurnCompleted, Stop: agent.StopEndTurn}, s.Next())
	require.Equal(t, agent.Usage{InputTokens: 3, OutputTokens: 4}, s.Usage)
	require.Equal(t, "m", s.Model)
}

func TestTurnWithTools(t *testing.T) {
	s := turn.New(turn.Version, agent.Limits{}, agent.Rules{})
	s = s.AfterModel(agent.ModelVerdict{Calls: []agent.CallVerdict{call("a", ""), call("b", agent.GateNone)}})
	a := s.Next()
	require.Equal(t, turn.CallTools, a.Kind)
	require.Equal(t, 1, a.Step)
	require.Len(t, a.Calls, 2)
	require.Equal(t, agent.CallID("a"), a.Calls[0].ID)

	s = s.AfterTools([]agent.ToolVerdict{{ID: "a"}, {ID: "b", Failed: true}})
	require.Equal(t, turn.Action{Kind: turn.CallModel, Step: 2}, s.Next())
}

func TestDecisionsComeInAnyOrder(t *testing.T) {
	s := turn.New(turn.Version, agent.Limits{}, agent.Rules{})
	s = s.AfterModel(agent.ModelVerdict{Calls: []agent.CallVerdict{
		call("a", agent.GateApproval), call("b", agent.GateNone), call("c", agent.GateApproval),
	}})
	a := s.Next()
	require.Equal(t, turn.Await, a.Kind)
	require.Len(t, a.Calls, 2, "nothing runs before everything is decided")

	before := s
	s = s.AfterDecision(agent.DecisionVerdict{CallID: "c", Run: false})
	require.Equal(t, turn.Await, before.Next().Kind)
	require.Len(t, before.Next().Calls, 2, "a state is a value")
	require.Len(t, s.Next().Calls, 1)

	require.Equal(t, s, s.AfterDecision(agent.DecisionVerdict{CallID: "b", Run: false}), "b does not wait")
	require.Equal(t, s, s.AfterDecision(agent.DecisionVerdict{CallID: "nobody", Run: true}))

	s = s.AfterDecision(agent.DecisionVerdict{CallID: "a", Run: true})
	a = s.Next()
	require.Equal(t, turn.CallTools, a.Kind)
	require.Len(t, a.Calls, 2)
	require.Equal(t, agent.CallID("a"), a.Calls[0].ID)
	require.Equal(t, agent.CallID("b"), a.Calls[1].ID)
}

// A call that the caller runs waits for its result behind all approvals, its own included, and runs with it.
func TestCallsThatTheCallerRuns(t *testing.T) {
	both := call("a", agent.GateApproval)
	both.Client = true
	client := call("b", agent.GateNone)
	client.Client = true
	s := turn.New(turn.Version, agent.Limits{}, agent.Rules{})
	s = s.AfterModel(agent.ModelVerdict{Calls: []agent.CallVerdict{both, client, call("c", agent.GateApproval)}})
	provided := func(id agent.CallID) agent.DecisionVerdict {
		return agent.DecisionVerdict{CallID: id, Decision: agent.DecisionProvide, Run: true, Client: true}
	}
	approved := agent.DecisionVerdict{CallID: "a", Decision: agent.DecisionApprove, Run: true}
	ids := func(a turn.Action) (out []agent.CallID) {
		for _, c := range a.Calls {
			out = append(out, c.ID)
		}
		return out
	}
	require.Equal(t, []agent.CallID{"a", "c"}, ids(s.Next()))
	require.False(t, s.Next().Client)
	require.Equal(t, s, s.AfterDecision(provided("a")), "a result is no approval")
	s = s.AfterDecision(approved).AfterDecision(agent.DecisionVerdict{CallID: "c", Decision: agent.DecisionReject})
	require.Equal(t, turn.Await, s.Next().Kind)
	require.True(t, s.Next().Client)
	require.Equal(t, []agent.CallID{"a", "b"}, ids(s.Next()))
	require.Equal(t, s, s.AfterDecision(approved), "the approval again is no result")
	s = s.AfterDecision(provided("a"))
	expired := s.AfterDecision(agent.DecisionVerdict{CallID: "b", Decision: agent.DecisionReject, By: agent.ExpiredBy, Client: true})
	require.Equal(t, turn.CallTools, expired.Next().Kind)
	require.Equal(t, []agent.CallID{"a"}, ids(expired.Next()))
	s = s.AfterDecision(provided("b"))
	require.Equal(t, turn.CallTools, s.Next().Kind)
	require.Equal(t, []agent.CallID{"a", "b"}, ids(s.Next()))
}

func TestEveryCallAnsweredByAPersonGoesBackToTheModel(t *testing.T) {
	s := turn.New(turn.Version, agent.Limits{}, agent.Rules{}).AfterModel(agent.ModelVerdict{Calls: []agent.CallVerdict{call("a", agent.GateApproval)}})
	s = s.AfterDecision(agent.DecisionVerdict{CallID: "a", Decision: agent.DecisionRespond})
	require.Equal(t, turn.Action{Kind: turn.CallModel, Step: 2}, s.Next())
}

// TestPause: a call that is to be made again is made again after a pause, costs no model call, and a new outage begins to count anew.
func TestPause(t *testing.T) {
	away := agent.ModelVerdict{Failure: &agent.Failure{Type: "unavailable"}, RetryInMS: 5_000, Usage: agent.Usage{InputTokens: 3}, Requests: 3}
	s := turn.New(turn.Version, agent.Limits{ModelCalls: 2, WallTimeSec: 60}, agent.Rules{}).AfterModel(away)
	require.Equal(t, turn.Action{Kind: turn.Pause, Step: 1, DelayMS: 5_000}, s.Next())
	require.Equal(t, agent.StopCancelled, s.Cancel().Next().Stop)
	s = s.Spend(5_000).AfterPause()
	require.Equal(t, turn.Action{Kind: turn.CallModel, Step: 1}, s.Next())
	s = s.AfterModel(away)
	require.EqualValues(t, 10_000, s.PausedMS)
	s = s.AfterPause().AfterModel(agent.ModelVerdict{Calls: []agent.CallVerdict{call("a", "")}})
	require.Equal(t, 1, s.ModelCalls)
	require.EqualValues(t, 6, s.Usage.InputTokens)
	require.Zero(t, s.PausedMS)

	late := s.AfterTools(nil).Spend(55_000).AfterModel(away).Next()
	require.Equal(t, turn.Finish, late.Kind)
	require.Equal(t, agent.StopModelError, late.Stop, "the pause would last longer than the turn may")
	preparing := turn.New(turn.Version, agent.Limits{WallTimeSec: 60}, agent.Rules{}).Preparing(true)
	outage := agent.PrepareVerdict{Failure: away.Failure, RetryInMS: 5_000, Requests: 1}
	p := preparing.AfterPrepare(outage)
	require.Equal(t, turn.Action{Kind: turn.Pause, Step: 1, DelayMS: 5_000}, p.Next())
	p = p.Spend(5_000).AfterPause()
	require.Equal(t, turn.Action{Kind: turn.Retrieve}, p.Next(), "it prepares again")
	require.EqualValues(t, 10_000, p.AfterPrepare(outage).PausedMS)
	require.Equal(t, agent.StopModelError, p.Spend(50_000).AfterPrepare(outage).Next().Stop)
	p = p.AfterPrepare(agent.PrepareVerdict{Requests: 2})
	require.Equal(t, turn.CallModel, p.Next().Kind)
	require.Equal(t, 2, p.ModelCalls)
	require.Zero(t, p.PausedMS)

	for name, v := range map[string]agent.ModelVerdict{"a failure for good": {Failure: away.Failure}, "no failure": {RetryInMS: 5_000}} {
		require.Equal(t, turn.Finish, turn.New(turn.Version, agent.Limits{}, agent.Rules{}).AfterModel(v).Next().Kind, name)
	}
}

func TestEnds(t *testing.T) {
	tooMuch := agent.ModelVerdict{Calls: []agent.CallVerdict{call("a", "")}, Usage: agent.Usage{InputTokens: 60, OutputTokens: 60, CostUSD: 0.2}}
	tools := []agent.ToolVerdict{{ID: "a"}}
	failure := &agent.Failure{Type: "unavailable", Message: "gone"}
	cases := map[string]struct {
		limits agent.Limits
		run    func(turn.State) turn.State
		status agent.TurnStatus
		stop   agent.StopReason
	}{
		"length": {run: func(s turn.State) turn.State {
			return s.AfterModel(agent.ModelVerdict{FinishReason: agent.FinishLength})
		}, status: agent.TurnCompleted, stop: agent.StopMaxTokens},
		"content filter": {run: func(s turn.State) turn.State {
			return s.AfterModel(agent.ModelVerdict{FinishReason: agent.FinishContentFilter})
		}, status: agent.TurnCompleted, stop: agent.StopFiltered},
		"jump end": {run: func(s turn.State) turn.State { v := tooMuch; v.Jump = agent.JumpEnd; return s.AfterModel(v) }, status: agent.TurnCompleted, stop: agent.StopEndTurn},
		"time during model": {limits: agent.Limits{WallTimeSec: 1}, run: func(s turn.State) turn.State {
			return s.AfterModel(agent.ModelVerdict{OutOfTime: true})
		}, status: agent.TurnFailed, stop: agent.StopWallTime},
		"model failed": {run: func(s turn.State) turn.State { return s.AfterModel(agent.ModelVerdict{Failure: failure}) }, status: agent.TurnFailed, stop: agent.StopModelError},
		"model cancelled": {run: func(s turn.State) turn.State {
			return s.AfterModel(agent.ModelVerdict{Cancelled: true, Calls: []agent.CallVerdict{call("a", "")}})
		}, status: agent.TurnCancelled, stop: agent.StopCancelled},
		"tool cancelled": {run: func(s turn.State) turn.State {
			return s.AfterModel(tooMuch).AfterTools([]agent.ToolVerdict{{ID: "a", Cancelled: true}})
		}, status: agent.TurnCancelled, stop: agent.StopCancelled},
		"cancelled while waiting": {run: func(s turn.State) turn.State {
			return s.AfterModel(agent.ModelVerdict{Calls: []agent.CallVerdict{call("a", agent.GateApproval)}}).Cancel()
		}, status: agent.TurnCancelled, stop: agent.StopCancelled},
		"model calls":       {limits: agent.Limits{ModelCalls: 1}, run: func(s turn.State) turn.State { return s.AfterModel(tooMuch).AfterTools(tools) }, status: agent.TurnFailed, stop: agent.StopModelCalls},
		"tool calls":        {limits: agent.Limits{ToolCalls: 1}, run: func(s turn.State) turn.State { return s.AfterModel(tooMuch).AfterTools(tools).AfterModel(tooMuch) }, status: agent.TurnFailed, stop: agent.StopToolCalls},
		"tokens":            {limits: agent.Limits{Tokens: 120}, run: func(s turn.State) turn.State { return s.AfterModel(tooMuch).AfterTools(tools) }, status: agent.TurnFailed, stop: agent.StopTokens},
		"cost":              {limits: agent.Limits{CostUSD: 0.2}, run: func(s turn.State) turn.State { return s.AfterModel(tooMuch).AfterTools(tools) }, status: agent.TurnFailed, stop: agent.StopCost},
		"time before tools": {limits: agent.Limits{WallTimeSec: 1}, run: func(s turn.State) turn.State { return s.AfterModel(tooMuch).Spend(1000) }, status: agent.TurnFailed, stop: agent.StopWallTime},
		"time before model": {limits: agent.Limits{WallTimeSec: 1}, run: func(s turn.State) turn.State { return s.Spend(1500) }, status: agent.TurnFailed, stop: agent.StopWallTime},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			a := c.run(turn.New(turn.Version, c.limits, agent.Rules{})).Next()
			require.Equal(t, turn.Finish, a.Kind)
			require.Equal(t, c.status, a.Status)
			require.Equal(t, c.stop, a.Stop)
			require.Equal(t, c.status == agent.TurnFailed, a.Failure != nil)
		})
	}
}

func TestBudget(t *testing.T) {
	require.Zero(t, turn.New(turn.Version, agent.Limits{}, agent.Rules{}).Spend(500).BudgetMS())
	s := turn.New(turn.Version, agent.Limits{WallTimeSec: 2}, agent.Rules{}).Spend(500)
	require.Equal(t, int64(1500), s.BudgetMS())
	require.Equal(t, int64(1), s.Spend(9000).BudgetMS())
}

func TestJumpModelAsksAgain(t *testing.T) {
	s := turn.New(turn.Version, agent.Limits{}, agent.Rules{}).AfterModel(agent.ModelVerdict{Jump: agent.JumpModel})
	require.Equal(t, turn.Action{Kind: turn.CallModel, Step: 2}, s.Next())
}
