package workflows_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/mock"
	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/temporal"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/turn"
	"github.com/turnstone-run/turnstone/internal/turns"
	"github.com/turnstone-run/turnstone/workflows"
)

// TestTurnTakesItsPlanFromLoadPlan: limits and model are those of LoadPlan, and a plan that cannot be loaded fails the turn, which is stored.
func TestTurnTakesItsPlanFromLoadPlan(t *testing.T) {
	begun := ready()
	begun.CoreVersion, begun.ModelName = turn.Version, ""
	plan := turns.LoadPlanResult{Limits: agent.Limits{ModelCalls: 2}, ModelName: "planned"}
	for name, c := range map[string]struct {
		err   error
		calls int
		stop  agent.StopReason
	}{
		"loaded":        {calls: 2, stop: agent.StopModelCalls},
		"not to be had": {err: temporal.NewNonRetryableApplicationError("plan sha256:x is gone", "not_found", nil), stop: agent.StopInternal},
	} {
		t.Run(name, func(t *testing.T) {
			env := newEnv(t)
			env.OnActivity("BeginTurn", mock.Anything, mock.Anything, mock.Anything).Return(begun, nil).Once()
			env.OnActivity("RouteTurn", mock.Anything, turns.TurnInput{TurnID: ref.TurnID}).Return(turns.RouteTurnResult{}, nil).Once()
			env.OnActivity("LoadPlan", mock.Anything, turns.TurnInput{TurnID: ref.TurnID}).Return(plan, c.err).Once()
			if c.calls > 0 {
				env.OnActivity("CallModel", mock.Anything, mock.Anything).Return(agent.ModelVerdict{Jump: agent.JumpModel}, nil).Times(c.calls)
			}
			stores(env)
			out := run(t, env, nil)
			require.Equal(t, c.stop, out.StopReason)
			require.Equal(t, agent.TurnFailed, out.Status)
			if c.err == nil {
				require.Equal(t, "planned", out.Model)
				return
			}
			require.Equal(t, &agent.Failure{Type: "not_found", Message: "plan sha256:x is gone"}, out.Error)
		})
	}
}

// TestModelCallsRunLocally: with LoadPlan's verdict, model calls are local activities, also after continue-as-new. A call that fails for a
// passing reason is made again as a normal activity.
func TestModelCallsRunLocally(t *testing.T) {
	const local, normal = true, false
	passing := errors.New("the store is away")
	lasting := temporal.NewNonRetryableApplicationError("no such turn", "not_found", nil)
	for name, c := range map[string]struct {
		plan   turns.LoadPlanResult
		errs   []error
		calls  []bool
		status agent.TurnStatus
	}{
		"short calls":         {turns.LoadPlanResult{LocalCalls: true}, []error{nil}, []bool{local}, agent.TurnCompleted},
		"long calls":          {turns.LoadPlanResult{}, []error{nil}, []bool{normal}, agent.TurnCompleted},
		"a passing failure":   {turns.LoadPlanResult{LocalCalls: true}, []error{passing, nil}, []bool{local, normal}, agent.TurnCompleted},
		"a permanent failure": {turns.LoadPlanResult{LocalCalls: true}, []error{lasting}, []bool{local}, agent.TurnFailed},
	} {
		for _, carried := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, carried %t", name, carried), func(t *testing.T) {
				env := newEnv(t)
				var carry *workflows.Carry
				if carried {
					carry = &workflows.Carry{Turn: ref, State: turn.New(turn.Version, agent.Limits{}, agent.Rules{}), LocalCalls: c.plan.LocalCalls}
				} else {
					begun := ready()
					begun.CoreVersion = turn.Version
					env.OnActivity("BeginTurn", mock.Anything, mock.Anything, mock.Anything).Return(begun, nil).Once()
					env.OnActivity("RouteTurn", mock.Anything, mock.Anything).Return(turns.RouteTurnResult{}, nil).Once()
					env.OnActivity("LoadPlan", mock.Anything, mock.Anything).Return(c.plan, nil).Once()
				}
				var calls []bool
				env.OnActivity("CallModel", mock.Anything, mock.Anything).Return(
					func(ctx context.Context, _ turns.CallModelInput) (agent.ModelVerdict, error) {
						calls = append(calls, activity.GetInfo(ctx).IsLocalActivity)
						return agent.ModelVerdict{FinishReason: agent.FinishStop}, c.errs[len(calls)-1]
					})
				stores(env)
				require.Equal(t, c.status, run(t, env, carry).Status)
				require.Equal(t, c.calls, calls)
			})
		}
	}
}

// TestPauseForTheProvider: a turn waits on a timer and makes the call again; a cancel ends the wait.
func TestPauseForTheProvider(t *testing.T) {
	away := agent.ModelVerdict{Failure: &agent.Failure{Type: "unavailable", Message: "away", Retryable: true}, RetryInMS: 40_000}
	for name, cancelled := range map[string]bool{"answered": false, "cancelled": true} {
		t.Run(name, func(t *testing.T) {
			env := newEnv(t)
			env.OnActivity("BeginTurn", mock.Anything, mock.Anything, mock.Anything).Return(ready(), nil).Once()
			var paused []int64
			env.OnActivity("CallModel", mock.Anything, mock.Anything).Return(
				func(_ context.Context, in turns.CallModelInput) (agent.ModelVerdict, error) {
					require.Equal(t, 1, in.Step)
					if paused = append(paused, in.PausedMS); len(paused) < 3 {
						return away, nil
					}
					return agent.ModelVerdict{FinishReason: agent.FinishStop}, nil
				})
			stores(env)
			began := env.Now()
			if cancelled {
				env.OnActivity("CancelTurn", mock.Anything, mock.Anything).Return(nil).Once()
				env.RegisterDelayedCallback(func() { env.SignalWorkflow(workflows.UpdateCancel, agent.CancelRequest{By: "ops"}) }, 50*time.Second)
			}
			out := run(t, env, nil)
			if cancelled {
				require.Equal(t, agent.TurnCancelled, out.Status)
				require.InDelta(t, 50, env.Now().Sub(began).Seconds(), 5)
				return
			}
			require.Equal(t, agent.TurnCompleted, out.Status)
			require.Equal(t, []int64{0, 40_000, 80_000}, paused)
			require.GreaterOrEqual(t, env.Now().Sub(began), 80*time.Second)
			require.GreaterOrEqual(t, out.ExecutionTimeMS, int64(80_000))
		})
	}
}
