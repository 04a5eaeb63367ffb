package workflows_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/mock"
	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/interceptor"
	"go.temporal.io/sdk/worker"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/workflows"
)

// TestStateShowsTheAnswerGrowing: the query of a running turn has the text from its stream, that of an ended one has none.
func TestStateShowsTheAnswerGrowing(t *testing.T) {
	env := newEnv(t)
	env.SetWorkerOptions(worker.Options{Interceptors: []interceptor.WorkerInterceptor{
		workflows.ShowPartialText(func(id agent.TurnID) string { return "words of " + string(id) }),
	}})
	env.OnActivity("BeginTurn", mock.Anything, mock.Anything, mock.Anything).Return(ready(), nil).Once()
	env.OnActivity("CallModel", mock.Anything, mock.Anything).After(3*time.Second).Return(agent.ModelVerdict{}, nil).Once()
	stores(env)
	env.RegisterDelayedCallback(func() {
		v := queryState[workflows.TurnView](t, env)
		require.Equal(t, "running", v.Status)
		require.Equal(t, 1, v.Step, "the step at work, not the last one that is over")
		require.Equal(t, "words of t1", v.Partial)
	}, time.Second)
	require.Equal(t, agent.TurnCompleted, run(t, env, nil).Status)
	require.Empty(t, queryState[workflows.TurnView](t, env).Partial)
}
