package workflows_test

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/workflow"

	"github.com/turnstone-run/turnstone/activities"
	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/workflows"
)

// turnOf plays the turns that a process starts.
type turnOf func(ctx workflow.Context, r agent.TurnRequest) (agent.AgentStepOutput, error)

// newProcessEnv has no turns but those that are played.
func newProcessEnv(t *testing.T, play turnOf) *testsuite.TestWorkflowEnvironment {
	t.Helper()
	var suite testsuite.WorkflowTestSuite
	env := suite.NewTestWorkflowEnvironment()
	env.SetTestTimeout(20 * time.Second)
	turn := func(ctx workflow.Context, raw converter.RawValue) (agent.AgentStepOutput, error) {
		var r agent.TurnRequest
		require.NoError(t, json.Unmarshal(raw.Payload().GetData(), &r))
		require.Equal(t, r.TurnID.WorkflowID(), workflow.GetInfo(ctx).WorkflowExecution.ID)
		return play(ctx, r)
	}
	env.RegisterWorkflowWithOptions(turn, workflow.RegisterOptions{Name: workflows.AgentTurnType})
	env.RegisterWorkflowWithOptions(workflows.IntelligentProcess, workflow.RegisterOptions{Name: workflows.IntelligentProcessType})
	var checks *activities.Activities // to check an input needs nothing of it
	workflows.RegisterActivities(env, checks)
	return env
}

// untold is a turn that nobody should start.
func untold(workflow.Context, agent.TurnRequest) (agent.AgentStepOutput, error) {
	return agent.AgentStepOutput{}, errors.New("no turn was expected")
}

func completed(r agent.TurnRequest, output string) agent.AgentStepOutput {
	return agent.AgentStepOutput{
		TurnID: r.TurnID, Status: agent.TurnCompleted, StopReason: agent.StopEndTurn, Output: output, ResultRef: "artifact://" + string(r.TurnID),
		Usage: agent.Usage{OutputTokens: 1},
	}
}

// runProcess runs a process workflow whose body is given.
func runProcess[T any](t *testing.T, env *testsuite.TestWorkflowEnvironment, body func(workflow.Context, *workflows.Process) (T, error)) (T, error) {
	t.Helper()
	env.RegisterWorkflowWithOptions(func(ctx workflow.Context) (T, error) {
		p, err := workflows.NewProcess(ctx, workflows.ProcessConfig{IntervalMS: 100})
		if err != nil {
			var zero T
			return zero, err
		}
		out, err := body(ctx, p)
		p.Settle(ctx)
		return out, err
	}, workflow.RegisterOptions{Name: "TestProcess"})
	env.ExecuteWorkflow("TestProcess")
	require.True(t, env.IsWorkflowCompleted())
	var out T
	if err := env.GetWorkflowError(); err != nil {
		return out, err
	}
	return out, env.GetWorkflowResult(&out)
}

func queryState[V any](t *testing.T, env *testsuite.TestWorkflowEnvironment) (v V) {
	t.Helper()
	value, err := env.QueryWorkflow(workflows.QueryState)
	require.NoError(t, err)
	require.NoError(t, value.Get(&v))
	return v
}

func TestProcessRunsAStep(t *testing.T) {
	var asked agent.TurnRequest
	var env *testsuite.TestWorkflowEnvironment
	env = newProcessEnv(t, func(ctx workflow.Context, r agent.TurnRequest) (agent.AgentStepOutput, error) {
		asked = r
		require.Equal(t, workflows.TaskQueue, workflow.GetInfo(ctx).TaskQueueName)
		v := queryState[workflows.ProcessView](t, env)
		require.Equal(t, "running", v.Status)
		require.Equal(t, workflows.StepView{
			Name: "clerk", Status: "running", TurnID: r.TurnID, Attempt: 1, Pending: []workflows.PendingView{},
		}, v.Steps[0])
		return completed(r, "booked"), nil
	})
	out, err := runProcess(t, env, func(ctx workflow.Context, p *workflows.Process) (agent.AgentStepOutput, error) {
		return p.RunAgent(ctx, workflows.Step{Request: agent.TurnRequest{Agent: "clerk", Message: "book it", SessionID: "s1"}})
	})
	require.NoError(t, err)
	require.Equal(t, "booked", out.Output)
	require.Equal(t, out.TurnID, asked.TurnID)
	require.Nil(t, asked.StreamTo, "signals cost history: only who asks for them gets them")
	asked.TurnID = ""
	require.Equal(t, agent.TurnRequest{Agent: "clerk", Message: "book it", SessionID: "s1"}, asked)
	require.Equal(t, "idle", queryState[workflows.ProcessView](t, env).Status)
}

func TestProcessNamesTurnsTheSameOnReplay(t *testing.T) {
	names := func() (ids []agent.TurnID) {
		env := newProcessEnv(t, func(_ workflow.Context, r agent.TurnRequest) (agent.AgentStepOutput, error) {
			ids = append(ids, r.TurnID)
			return completed(r, ""), nil
		})
		_, err := runProcess(t, env, func(ctx workflow.Context, p *workflows.Process) (bool, error) {
			for range 3 {
				if _, err := p.RunAgent(ctx, workflows.Step{Request: agent.TurnRequest{Message: "x"}}); err != nil {
					return false, err
				}
			}
			return true, nil
		})
		require.NoError(t, err)
		return ids
	}
	first := names()
	require.Len(t, first, 3)
	require.NotEqual(t, first[0], first[1])
	require.NotEqual(t, first[1], first[2])
	require.Equal(t, first, names())
}

// TestProcessGoesPastTakenNames: after a reset the turns of the earlier run still have the names that come next. A second process of one run
// begins where the first one did.
func TestProcessGoesPastTakenNames(t *testing.T) {
	var ran []agent.TurnID
	env := newProcessEnv(t, func(_ workflow.Context, r agent.TurnRequest) (agent.AgentStepOutput, error) {
		ran = append(ran, r.TurnID)
		return completed(r, ""), nil
	})
	_, err := runProcess(t, env, func(ctx workflow.Context, p *workflows.Process) (bool, error) {
		again, err := workflows.NewProcess(ctx, workflows.ProcessConfig{})
		require.NoError(t, err)
		for _, process := range []*workflows.Process{p, p, p, p, again, again} {
			out, err := process.RunAgent(ctx, workflows.Step{Request: agent.TurnRequest{Message: "x"}})
			require.NoError(t, err)
			require.Equal(t, ran[len(ran)-1], out.TurnID)
		}
		return true, nil
	})
	require.NoError(t, err)
	require.Len(t, slices.Compact(slices.Sorted(slices.Values(ran))), 6)
}

func TestProcessRefusesMistakes(t *testing.T) {
	env := newProcessEnv(t, untold)
	_, err := runProcess(t, env, func(ctx workflow.Context, p *workflows.Process) (bool, error) {
		for want, s := range map[string]workflows.Step{
			"name: want":            {Name: "a b"},
			"request.turn_id":       {Request: agent.TurnRequest{TurnID: "mine"}},
			"request.stream_to":     {Request: agent.TurnRequest{StreamTo: &agent.StreamTo{}}},
			"timeout: is negative":  {Timeout: -1},
			"retry.attempts: is -1": {Retry: workflows.Retry{Attempts: -1}},
			"retry: a pause":        {Retry: workflows.Retry{Most: -1}},
		} {
			_, err := p.RunAgent(ctx, s)
			require.ErrorContains(t, err, want)
		}
		for want, q := range map[string]workflows.Question{
			"question.name":          {},
			"question.prompt":        {Name: "q", Prompt: strings.Repeat("p", 9<<10)},
			"question.options: are":  {Name: "q", Options: make([]string, 101)},
			"question.options: want": {Name: "q", Options: []string{`a"b`}},
			"question.timeout":       {Name: "q", Timeout: -1},
		} {
			_, err := p.Ask(ctx, q)
			require.ErrorContains(t, err, want)
		}
		workflow.Go(ctx, func(ctx workflow.Context) { _, _ = p.Ask(ctx, workflows.Question{Name: "q", Timeout: time.Minute}) })
		require.NoError(t, workflow.Sleep(ctx, time.Second))
		_, err := p.Ask(ctx, workflows.Question{Name: "q"})
		require.ErrorContains(t, err, "is open already")
		return true, nil
	})
	require.NoError(t, err)

	env = newProcessEnv(t, untold)
	env.RegisterWorkflowWithOptions(func(ctx workflow.Context) error {
		_, err := workflows.NewProcess(ctx, workflows.ProcessConfig{IntervalMS: 50})
		return err
	}, workflow.RegisterOptions{Name: "Hasty"})
	env.ExecuteWorkflow("Hasty")
	require.ErrorContains(t, env.GetWorkflowError(), "interval_ms: is 50")
}

func TestProcessContinuesAsNewWhenQuiet(t *testing.T) {
	ended := false
	var env *testsuite.TestWorkflowEnvironment
	env = newProcessEnv(t, func(ctx workflow.Context, r agent.TurnRequest) (agent.AgentStepOutput, error) {
		env.SetCurrentHistoryLength(50)
		err := workflow.Sleep(ctx, time.Minute)
		ended = err == nil
		return completed(r, ""), err
	})
	_, err := runProcess(t, env, func(ctx workflow.Context, p *workflows.Process) (bool, error) {
		require.False(t, p.Due(ctx, 0), "the server suggests nothing")
		workflow.Go(ctx, func(ctx workflow.Context) {
			_, _ = p.RunAgent(ctx, workflows.Step{Request: agent.TurnRequest{Message: "x"}})
		})
		require.NoError(t, workflow.Sleep(ctx, time.Second))
		require.False(t, p.Due(ctx, 51))
		require.True(t, p.Due(ctx, 50))
		return true, p.ContinueAsNew(ctx, "TestProcess", "artifact://1")
	})
	var next *workflow.ContinueAsNewError
	require.ErrorAs(t, err, &next)
	require.True(t, ended, "no step is left behind")
	require.JSONEq(t, `"artifact://1"`, string(next.Input.GetPayloads()[0].GetData()))
}
