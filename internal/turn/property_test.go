package turn_test

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/turn"
)

// drive runs a turn against answers drawn one after the other and returns its last action. It fails when the turn does more than
// its limits allow, or anything that no driver could carry out.
func drive(t require.TestingT, limits agent.Limits, draw func(n int) int) turn.Action {
	s := turn.New(turn.Version, limits, agent.Rules{})
	models, tools, awaits := 0, 0, 0
	for range 5_000 {
		// What continue-as-new does to a state must not change its decisions.
		raw, err := json.Marshal(s)
		require.NoError(t, err)
		var carried turn.State
		require.NoError(t, json.Unmarshal(raw, &carried))
		a := s.Next()
		require.Equal(t, a, carried.Next())

		switch a.Kind {
		case turn.CallModel:
			models++
			require.Equal(t, models, a.Step)
			s = s.AfterModel(drawModel(models, draw)).Spend(int64(draw(400)))
		case turn.CallTools:
			require.NotEmpty(t, a.Calls)
			tools += len(a.Calls)
			s = s.AfterTools(drawTools(a.Calls, draw)).Spend(int64(draw(400)))
		case turn.Await:
			require.NotEmpty(t, a.Calls)
			awaits++
			v := agent.DecisionVerdict{CallID: a.Calls[draw(len(a.Calls))].ID, Run: draw(2) == 0}
			if draw(20) == 0 {
				s = s.Cancel()
			}
			s = s.AfterDecision(v)
		case turn.Finish:
			require.LessOrEqual(t, models, limits.ModelCalls)
			require.LessOrEqual(t, tools, limits.ToolCalls)
			require.NotEmpty(t, a.Stop)
			require.NotEmpty(t, a.Status)
			require.Equal(t, a.Status == agent.TurnFailed, a.Failure != nil)
			return a
		default:
			require.Fail(t, "unknown action", "%v", a.Kind)
		}
	}
	require.Fail(t, "the turn does not end")
	return turn.Action{}
}

func drawModel(step int, draw func(int) int) agent.ModelVerdict {
	v := agent.ModelVerdict{Usage: agent.Usage{InputTokens: int64(draw(50)), OutputTokens: int64(draw(50))}}
	for i := range draw(4) {
		gate := []agent.Gate{agent.GateNone, agent.GateApproval, ""}[draw(3)]
		v.Calls = append(v.Calls, agent.CallVerdict{ID: agent.CallID(fmt.Sprint(step, ".", i%(1+draw(3)))), Gate: gate, Local: draw(2) == 0})
	}
	v.Jump = []agent.Jump{"", agent.JumpNone, agent.JumpModel, agent.JumpTools, agent.JumpEnd}[draw(5)*boolInt(draw(10) == 0)]
	v.Cancelled = draw(60) == 0
	if draw(60) == 0 {
		v.Failure = &agent.Failure{Type: "unavailable", Message: "x"}
	}
	return v
}

func drawTools(calls []turn.Call, draw func(int) int) []agent.ToolVerdict {
	var out []agent.ToolVerdict
	for i := range calls {
		switch draw(10) {
		case 0: // no verdict at all
		case 1:
			out = append(out, agent.ToolVerdict{ID: "stranger", Failed: true})
		default:
			out = append(out, agent.ToolVerdict{ID: calls[i].ID, Failed: draw(3) == 0, Cancelled: draw(80) == 0})
		}
	}
	return out
}

func boolInt(b bool) int {
	if b {
		return 1
	}
	return 0
}

func TestEveryTurnEndsWithinItsLimits(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		limits := agent.Limits{
			ModelCalls:  rapid.IntRange(1, 30).Draw(t, "model calls"),
			ToolCalls:   rapid.IntRange(1, 60).Draw(t, "tool calls"),
			Tokens:      rapid.Int64Range(0, 2_000).Draw(t, "tokens"),
			WallTimeSec: rapid.Int64Range(0, 20).Draw(t, "seconds"),
		}
		drive(t, limits, func(n int) int { return rapid.IntRange(0, n-1).Draw(t, "draw") })
	})
}

func TestATurnWithoutLimitsEndsToo(t *testing.T) {
	s := turn.New(turn.Version, agent.Limits{}, agent.Rules{})
	for range 1_000 {
		require.Equal(t, turn.CallModel, s.Next().Kind)
		s = s.AfterModel(agent.ModelVerdict{Jump: agent.JumpModel})
	}
	require.Equal(t, agent.StopIterations, s.Next().Stop)
}

func FuzzTurn(f *testing.F) {
	f.Add([]byte{3, 2, 0, 0, 1, 1, 1})
	f.Add([]byte{0, 0, 0, 0})
	f.Add([]byte("any sequence of replies and results"))
	f.Fuzz(func(t *testing.T, data []byte) {
		i := 0
		drive(t, agent.Limits{ModelCalls: 25, ToolCalls: 50}, func(n int) int {
			if i >= len(data) {
				return 0
			}
			i++
			return int(data[i-1]) % n
		})
	})
}
