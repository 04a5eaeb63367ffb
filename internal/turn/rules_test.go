package turn_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/turn"
)

// replies answers a model call with calls of these tools; the ids are their places.
func replies(tools ...string) agent.ModelVerdict {
	var v agent.ModelVerdict
	for i, name := range tools {
		v.Calls = append(v.Calls, agent.CallVerdict{ID: agent.CallID(string(rune('a' + i))), Name: name})
	}
	return v
}

func TestModelCallLimit(t *testing.T) {
	cases := map[string]struct {
		limit   agent.CallLimit
		steps   int // that the model is asked
		status  agent.TurnStatus
		closing string
	}{
		"run, end":                {agent.CallLimit{Run: 2, Exit: agent.ExitEnd}, 2, agent.TurnCompleted, "Model call limit reached: 2 calls in this turn."},
		"run, error":              {agent.CallLimit{Run: 1, Exit: agent.ExitError}, 1, agent.TurnFailed, ""},
		"thread":                  {agent.CallLimit{Thread: 5, Before: 3, Exit: agent.ExitEnd}, 2, agent.TurnCompleted, "Model call limit reached: 5 calls in this session."},
		"thread was used up":      {agent.CallLimit{Thread: 5, Before: 7, Exit: agent.ExitEnd}, 0, agent.TurnCompleted, "Model call limit reached: 5 calls in this session."},
		"the stricter of the two": {agent.CallLimit{Run: 1, Thread: 9, Before: 3, Exit: agent.ExitEnd}, 1, agent.TurnCompleted, "Model call limit reached: 1 calls in this turn."},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			s := turn.New(turn.Version, agent.Limits{}, agent.Rules{ModelCalls: []agent.CallLimit{c.limit}})
			steps := 0
			for s.Next().Kind != turn.Finish {
				if s.Next().Kind == turn.CallModel {
					steps++
					s = s.AfterModel(replies("x"))
					continue
				}
				s = s.AfterTools(nil)
			}
			a := s.Next()
			require.Equal(t, c.steps, steps)
			require.Equal(t, agent.StopModelCalls, a.Stop)
			require.Equal(t, c.status, a.Status)
			require.Equal(t, c.closing, a.Closing)
			require.Equal(t, c.status == agent.TurnFailed, a.Failure != nil)
		})
	}
}

func TestToolCallLimit(t *testing.T) {
	search := agent.CallLimit{Tool: "search", Run: 2, Exit: agent.ExitContinue}
	s := turn.New(turn.Version, agent.Limits{}, agent.Rules{ToolCalls: []agent.CallLimit{search, {Run: 5, Exit: agent.ExitContinue}}})
	before := s
	s = s.AfterModel(replies("search", "other", "search", "search"))
	a := s.Next()
	require.Equal(t, turn.CallTools, a.Kind)
	require.Len(t, a.Calls, 4, "a refused call is answered too")
	require.Equal(t, []string{"", "", "", "Tool call limit exceeded. Do not call 'search' again."},
		[]string{a.Calls[0].Refused, a.Calls[1].Refused, a.Calls[2].Refused, a.Calls[3].Refused})
	require.True(t, a.Calls[3].Local)
	require.Empty(t, before.Asked[0].Run, "a state is a value")

	// Three of five calls ran; the tool of its own limit is refused at once, and does not count against the other limit.
	s = s.AfterTools(nil).AfterModel(replies("other", "search", "other", "other"))
	a = s.Next()
	require.Equal(t, "Tool call limit exceeded. Do not make additional tool calls.", a.Calls[3].Refused)
	require.Equal(t, []string{"", ""}, []string{a.Calls[0].Refused, a.Calls[2].Refused})
	require.NotEmpty(t, a.Calls[1].Refused)
}

func TestToolCallLimitEnds(t *testing.T) {
	for exit, status := range map[agent.Exit]agent.TurnStatus{agent.ExitEnd: agent.TurnCompleted, agent.ExitError: agent.TurnFailed} {
		rules := agent.Rules{ToolCalls: []agent.CallLimit{{Tool: "search", Thread: 4, Before: 3, Exit: exit}}}
		s := turn.New(turn.Version, agent.Limits{}, rules).AfterModel(replies("other", "search"))
		require.Equal(t, turn.CallTools, s.Next().Kind)
		a := s.AfterTools(nil).AfterModel(replies("other", "search")).Next()
		require.Equal(t, turn.Finish, a.Kind, "nothing runs")
		require.Equal(t, agent.StopToolCalls, a.Stop)
		require.Equal(t, status, a.Status)
		words := `Call limit of tool "search" reached: 4 calls in this session.`
		if exit == agent.ExitEnd {
			require.Equal(t, words, a.Closing)
		} else {
			require.Equal(t, words, a.Failure.Message)
		}
	}
}

func TestRepliesThatMissTheSchema(t *testing.T) {
	missed := agent.ModelVerdict{Unstructured: "output: want an object"}
	s := turn.New(turn.Version, agent.Limits{}, agent.Rules{StructuredTries: 1})
	s = s.AfterModel(missed)
	require.Equal(t, turn.Action{Kind: turn.CallModel, Step: 2}, s.Next(), "the model is told")
	good := s.AfterModel(agent.ModelVerdict{})
	require.Equal(t, agent.StopEndTurn, good.Next().Stop)
	a := s.AfterModel(missed).Next()
	require.Equal(t, agent.StopStructured, a.Stop)
	require.Equal(t, agent.TurnFailed, a.Status)
	require.Contains(t, a.Failure.Message, "want an object")
	limited := turn.New(turn.Version, agent.Limits{Iterations: 1}, agent.Rules{StructuredTries: 9}).AfterModel(missed)
	require.Equal(t, agent.StopIterations, limited.Next().Stop, "within the limits")
}

func TestIterationsAndRequests(t *testing.T) {
	s := turn.New(turn.Version, agent.Limits{Iterations: 2, ModelCalls: 3}, agent.Rules{})
	s = s.AfterModel(replies("x")).AfterTools(nil)
	require.Equal(t, turn.CallModel, s.Next().Kind)
	require.Equal(t, agent.StopIterations, s.AfterModel(replies("x")).AfterTools(nil).Next().Stop)
	repeated := replies("x")
	repeated.Requests = 3
	require.Equal(t, agent.StopModelCalls, turn.New(turn.Version, agent.Limits{ModelCalls: 3}, agent.Rules{}).AfterModel(repeated).AfterTools(nil).Next().Stop)
}

func TestPreparation(t *testing.T) {
	s := turn.New(turn.Version, agent.Limits{Tokens: 100}, agent.Rules{}).Preparing(true)
	require.Equal(t, turn.Action{Kind: turn.Retrieve}, s.Next())
	done := s.AfterPrepare(agent.PrepareVerdict{Requests: 2, Usage: agent.Usage{InputTokens: 7}})
	require.Equal(t, turn.Action{Kind: turn.CallModel, Step: 1}, done.Next())
	require.Equal(t, int64(7), done.Usage.InputTokens)
	require.Equal(t, 2, done.ModelCalls)
	for name, c := range map[string]struct {
		verdict agent.PrepareVerdict
		stop    agent.StopReason
	}{
		"cancelled":   {agent.PrepareVerdict{Cancelled: true}, agent.StopCancelled},
		"out of time": {agent.PrepareVerdict{OutOfTime: true}, agent.StopWallTime},
		"failed":      {agent.PrepareVerdict{Failure: &agent.Failure{Type: "unavailable"}}, agent.StopModelError},
		"too much":    {agent.PrepareVerdict{Usage: agent.Usage{InputTokens: 100}}, agent.StopTokens},
	} {
		require.Equal(t, c.stop, s.AfterPrepare(c.verdict).Next().Stop, name)
	}
}

func TestAnApprovalThatExpiresMayEndTheTurn(t *testing.T) {
	s := turn.New(turn.Version, agent.Limits{}, agent.Rules{})
	s = s.AfterModel(agent.ModelVerdict{Calls: []agent.CallVerdict{call("a", agent.GateApproval), call("b", agent.GateDenied)}})
	require.Len(t, s.Next().Calls, 1, "a denied call waits for nobody")
	require.Equal(t, s, s.AfterDecision(agent.DecisionVerdict{CallID: "b", End: true}), "b does not wait")
	a := s.AfterDecision(agent.DecisionVerdict{ApprovalID: "x", CallID: "a", End: true}).Next()
	require.Equal(t, agent.StopApprovalExpired, a.Stop)
	require.Equal(t, agent.TurnFailed, a.Status)

	s = s.AfterDecision(agent.DecisionVerdict{CallID: "a", Run: true})
	require.Len(t, s.Next().Calls, 2)
	require.NotNil(t, s.Next().Calls[1], "answered with its rule")
}

func TestWhatIsLeftForChildren(t *testing.T) {
	s := turn.New(turn.Version, agent.Limits{Iterations: 9, ModelCalls: 10, ToolCalls: 3, Tokens: 1000, CostUSD: 1, WallTimeSec: 60}, agent.Rules{})
	v := replies("x", "x", "x")
	v.Usage = agent.Usage{InputTokens: 400, OutputTokens: 200, CostUSD: 0.5}
	s = s.AfterModel(v).Spend(20_500)
	require.Equal(t, agent.Limits{ModelCalls: 4, ToolCalls: 1, Tokens: 200, CostUSD: 0.25, WallTimeSec: 40}, s.Remaining(2))
	s = s.AfterTools([]agent.ToolVerdict{{ID: "a", Usage: agent.Usage{InputTokens: 399, CostUSD: 0.5}, ModelCalls: 4, ToolCalls: 2}})
	require.Equal(t, 5, s.ModelCalls)
	require.Equal(t, 5, s.ToolCalls)
	require.Equal(t, int64(999), s.Usage.InputTokens+s.Usage.OutputTokens, "what a child used is the turn's too")
	left := s.Remaining(4)
	require.Equal(t, int64(1), left.Tokens)
	require.Positive(t, left.CostUSD, "0 would be no bound")
	require.Equal(t, agent.Limits{}, turn.New(turn.Version, agent.Limits{}, agent.Rules{}).Remaining(3))
}

// TestApprovalRequired: a model call whose tools need an approval that nobody is waited for ends the turn with that reason; any other failure is
// the model's.
func TestApprovalRequired(t *testing.T) {
	for kind, want := range map[string]agent.StopReason{"approval_required": agent.StopApprovalRequired, "unavailable": agent.StopModelError} {
		v := agent.ModelVerdict{Failure: &agent.Failure{Type: kind}, Calls: []agent.CallVerdict{{ID: "a", Gate: agent.GateApproval}}}
		a := turn.New(turn.Version, agent.Limits{}, agent.Rules{}).AfterModel(v).Next()
		require.Equal(t, turn.Finish, a.Kind)
		require.Equal(t, want, a.Stop)
		require.Equal(t, agent.TurnFailed, a.Status)
	}
}
