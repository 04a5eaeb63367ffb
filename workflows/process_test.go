package workflows_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/workflow"

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

func TestProcessRetries(t *testing.T) {
	failing := func(kind string, retryable bool) agent.AgentStepOutput {
		return agent.AgentStepOutput{Status: agent.TurnFailed, StopReason: agent.StopModelError, Error: &agent.Failure{Type: kind, Message: "no", Retryable: retryable}}
	}
	cases := map[string]struct {
		retry  workflows.Retry
		plays  []any // outputs and errors, one for each attempt
		want   string
		asked  int
		lasted time.Duration
	}{
		"what may succeed later": {
			workflows.Retry{Attempts: 4, First: time.Minute, Most: 3 * time.Minute},
			[]any{failing("model_error", true), failing("rate_limited", true), failing("model_error", true), nil},
			"", 4, 6 * time.Minute,
		},
		"until the attempts are used up": {
			workflows.Retry{Attempts: 2}, []any{failing("model_error", true), failing("unavailable", true)}, "unavailable", 2, time.Second,
		},
		"not what will not":      {workflows.Retry{Attempts: 5}, []any{failing("invalid", false)}, "invalid", 1, 0},
		"not without being told": {workflows.Retry{}, []any{failing("model_error", true)}, "model_error", 1, 0},
		"the types that are named, whatever they say": {
			workflows.Retry{Attempts: 5, Types: []string{"token_limit"}},
			[]any{failing("token_limit", false), failing("model_error", true)},
			"model_error", 2, time.Second,
		},
		"not a refused request": {
			workflows.Retry{Attempts: 5},
			[]any{temporal.NewNonRetryableApplicationError("agent: no such", "not_found", nil, agent.Failure{Type: "not_found", Message: "agent: no such"})},
			"not_found", 1, 0,
		},
		"a full queue, which refuses for now": {
			workflows.Retry{Attempts: 2},
			[]any{temporal.NewNonRetryableApplicationError("full", "rate_limited", nil, agent.Failure{Type: "rate_limited", Message: "full", Retryable: true}), nil},
			"", 2, time.Second,
		},
		"not a turn that somebody cancelled": {
			workflows.Retry{Attempts: 5},
			[]any{agent.AgentStepOutput{Status: agent.TurnCancelled, StopReason: agent.StopCancelled}},
			"cancelled", 1, 0,
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			asked := 0
			env := newProcessEnv(t, func(_ workflow.Context, r agent.TurnRequest) (agent.AgentStepOutput, error) {
				asked++
				switch v := c.plays[asked-1].(type) {
				case error:
					return agent.AgentStepOutput{}, v
				case agent.AgentStepOutput:
					v.TurnID = r.TurnID
					return v, nil
				default:
					return completed(r, "at last"), nil
				}
			})
			var failed *workflows.StepError
			started := env.Now()
			_, err := runProcess(t, env, func(ctx workflow.Context, p *workflows.Process) (bool, error) {
				out, err := p.RunAgent(ctx, workflows.Step{Name: "s", Request: agent.TurnRequest{Message: "x"}, Retry: c.retry})
				if errors.As(err, &failed) {
					require.Equal(t, c.want, failed.Type)
					require.Equal(t, "s", failed.Step)
					if failed.Output != nil {
						require.Equal(t, out, *failed.Output)
					}
					return true, nil
				}
				require.Equal(t, "at last", out.Output)
				return true, err
			})
			require.NoError(t, err)
			require.Equal(t, c.want != "", failed != nil)
			require.Equal(t, c.asked, asked)
			require.Equal(t, c.lasted, env.Now().Sub(started).Truncate(time.Second))
		})
	}
}

func TestProcessBoundsAStep(t *testing.T) {
	obeys := func(ctx workflow.Context, r agent.TurnRequest) (agent.AgentStepOutput, error) {
		err := workflow.Sleep(ctx, time.Hour)
		out := completed(r, "so far")
		if temporal.IsCanceledError(err) {
			out.Status, out.StopReason = agent.TurnCancelled, agent.StopCancelled
		}
		return out, nil
	}
	deaf := func(ctx workflow.Context, r agent.TurnRequest) (agent.AgentStepOutput, error) { // no worker is there
		free, _ := workflow.NewDisconnectedContext(ctx)
		return completed(r, "late"), workflow.Sleep(free, time.Hour)
	}
	for name, c := range map[string]struct {
		play   turnOf
		output string
		lasted time.Duration
	}{
		"and takes what the turn has": {obeys, "so far", 10 * time.Minute},
		"also when nobody stops it":   {deaf, "", 11 * time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			env := newProcessEnv(t, c.play)
			_, err := runProcess(t, env, func(ctx workflow.Context, p *workflows.Process) (bool, error) {
				started := workflow.Now(ctx)
				out, err := p.RunAgent(ctx, workflows.Step{Request: agent.TurnRequest{Message: "x"}, Timeout: 10 * time.Minute})
				var failed *workflows.StepError
				require.ErrorAs(t, err, &failed)
				require.Equal(t, workflows.StepTimeout, failed.Type)
				require.True(t, failed.Retryable)
				require.Equal(t, c.output, out.Output)
				require.Equal(t, c.lasted, workflow.Now(ctx).Sub(started).Truncate(time.Second))
				return true, nil
			})
			require.NoError(t, err)
		})
	}
}

func TestProcessCancelsItsTurns(t *testing.T) {
	env := newProcessEnv(t, func(ctx workflow.Context, r agent.TurnRequest) (agent.AgentStepOutput, error) {
		require.True(t, temporal.IsCanceledError(workflow.Sleep(ctx, time.Hour)))
		free, _ := workflow.NewDisconnectedContext(ctx)
		require.NoError(t, workflow.Sleep(free, time.Second)) // to store
		out := completed(r, "so far")
		out.Status = agent.TurnCancelled
		return out, nil
	})
	env.RegisterDelayedCallback(env.CancelWorkflow, time.Minute)
	_, err := runProcess(t, env, func(ctx workflow.Context, p *workflows.Process) (bool, error) {
		out, err := p.RunAgent(ctx, workflows.Step{Request: agent.TurnRequest{Message: "x"}, Retry: workflows.Retry{Attempts: 9}, Timeout: time.Hour})
		require.True(t, temporal.IsCanceledError(err), "%v", err)
		require.Equal(t, "so far", out.Output, "its end was awaited")
		_, err = p.RunAgent(ctx, workflows.Step{Request: agent.TurnRequest{Message: "y"}})
		require.True(t, temporal.IsCanceledError(err), "nothing is begun any more")
		return true, nil
	})
	require.NoError(t, err)
}

func TestProcessHearsTokens(t *testing.T) {
	var batches []string
	var env *testsuite.TestWorkflowEnvironment
	env = newProcessEnv(t, func(ctx workflow.Context, r agent.TurnRequest) (agent.AgentStepOutput, error) {
		require.Equal(t, &agent.StreamTo{WorkflowID: "default-test-workflow-id", Signal: workflows.SignalTokens, IntervalMS: 100}, r.StreamTo)
		tell := func(b agent.TokenBatch) string {
			if b.TurnID == "" {
				b.TurnID = r.TurnID
			}
			env.SignalWorkflow(workflows.SignalTokens, b)
			require.NoError(t, workflow.Sleep(ctx, time.Millisecond))
			return queryState[workflows.ProcessView](t, env).Steps[0].Partial
		}
		require.Equal(t, "lost", tell(agent.TokenBatch{Step: 1, Attempt: 1, Batch: 1, Text: "lost"}))
		require.Equal(t, "hel", tell(agent.TokenBatch{Step: 1, Attempt: 2, Batch: 1, Text: "hel"}), "a new attempt voids the old one")
		require.Equal(t, "hel", tell(agent.TokenBatch{Step: 1, Attempt: 1, Batch: 2, Text: "zombie"}))
		require.Equal(t, "hel", tell(agent.TokenBatch{Step: 1, Attempt: 2, Batch: 1, Text: "hel"}), "the same once more")
		require.Equal(t, "hello", tell(agent.TokenBatch{Step: 1, Attempt: 2, Batch: 2, Text: "lo"}))
		require.Equal(t, "hello", tell(agent.TokenBatch{TurnID: "another", Step: 9, Attempt: 9, Batch: 9, Text: "foreign"}))
		require.Empty(t, tell(agent.TokenBatch{Step: 2, Attempt: 1, Batch: 1}))
		require.Len(t, tell(agent.TokenBatch{Step: 2, Attempt: 1, Batch: 2, Text: strings.Repeat("é", 9000)}), 16<<10, "bounded")
		return completed(r, ""), nil
	})
	_, err := runProcess(t, env, func(ctx workflow.Context, p *workflows.Process) (bool, error) {
		_, err := p.RunAgent(ctx, workflows.Step{
			Request: agent.TurnRequest{Message: "x"}, Stream: true,
			OnBatch: func(b agent.TokenBatch) {
				batches = append(batches, fmt.Sprintf("%d.%d.%d", b.Step, b.Attempt, b.Batch))
			},
		})
		return true, err
	})
	require.NoError(t, err)
	require.Equal(t, []string{"1.1.1", "1.2.1", "1.2.2", "2.1.1", "2.1.2"}, batches)
}

// TestProcessPassesDecisionsOn: two steps wait at once, and each gets its own decision.
func TestProcessPassesDecisionsOn(t *testing.T) {
	decisions := map[string]agent.Decision{}
	var env *testsuite.TestWorkflowEnvironment
	env = newProcessEnv(t, func(ctx workflow.Context, r agent.TurnRequest) (agent.AgentStepOutput, error) {
		pending := []agent.PendingApproval{{ApprovalID: "of " + r.Message, ToolName: "pay"}}
		env.SignalWorkflow(workflows.SignalTokens, agent.TokenBatch{TurnID: r.TurnID, Step: 1, Pending: pending})
		var d agent.Decision
		workflow.GetSignalChannel(ctx, workflows.UpdateDecide).Receive(ctx, &d)
		decisions[r.Message] = d
		require.NoError(t, workflow.Sleep(ctx, time.Minute))
		env.SignalWorkflow(workflows.SignalTokens, agent.TokenBatch{TurnID: r.TurnID, Step: 2, Attempt: 1, Batch: 1, Text: "paid"})
		return completed(r, ""), workflow.Sleep(ctx, time.Minute)
	})
	state := func() workflows.ProcessView { return queryState[workflows.ProcessView](t, env) }
	env.RegisterDelayedCallback(func() {
		v := state()
		require.Equal(t, "waiting", v.Status)
		require.Equal(t, "of a", v.Steps[0].Pending[0].ApprovalID)
		require.Equal(t, `temporal workflow update execute --workflow-id default-test-workflow-id --name decide `+
			`--input '{"approval_id":"of a","decision":"approve","by":"you"}'`, v.Steps[0].Pending[0].Command)
		env.UpdateWorkflow(workflows.UpdateDecide, "u1", &testsuite.TestUpdateCallback{
			OnAccept: func() {}, OnReject: func(err error) { require.NoError(t, err) },
			OnComplete: func(_ any, err error) {
				require.ErrorContains(t, err, `no step at work waits for the approval "of nobody"`)
			},
		}, agent.Decision{ApprovalID: "of nobody", Decision: agent.DecisionApprove})
		env.UpdateWorkflow(workflows.UpdateDecide, "u2", &testsuite.TestUpdateCallback{
			OnAccept: func() { require.Fail(t, "accepted") }, OnReject: func(err error) { require.ErrorContains(t, err, "approval_id: is empty") },
			OnComplete: func(any, error) {},
		}, agent.Decision{})
		env.UpdateWorkflowNoRejection(workflows.UpdateDecide, "u3", t, agent.Decision{ApprovalID: "of b", Decision: agent.DecisionReject, By: "ann"})
	}, 10*time.Second)
	env.RegisterDelayedCallback(func() {
		v := state()
		require.Equal(t, agent.DecisionReject, v.Steps[1].Pending[0].Sent, "the turn has not gone on yet")
		require.Equal(t, "running", v.Steps[1].Status)
		require.Equal(t, "waiting", v.Steps[0].Status)
		env.SignalWorkflow(workflows.UpdateDecide, agent.Decision{ApprovalID: "of a", Decision: agent.DecisionApprove, By: "bob"})
	}, 20*time.Second)
	env.RegisterDelayedCallback(func() { require.Empty(t, state().Steps[0].Pending, "the turn has gone on") }, 100*time.Second)
	_, err := runProcess(t, env, func(ctx workflow.Context, p *workflows.Process) (bool, error) {
		wg := workflow.NewWaitGroup(ctx)
		for _, name := range []string{"a", "b"} {
			wg.Add(1)
			workflow.Go(ctx, func(ctx workflow.Context) {
				defer wg.Done()
				_, err := p.RunAgent(ctx, workflows.Step{Name: name, Request: agent.TurnRequest{Message: name}, Stream: true})
				require.NoError(t, err)
			})
		}
		wg.Wait(ctx)
		return true, nil
	})
	require.NoError(t, err)
	require.Equal(t, map[string]agent.Decision{
		"a": {ApprovalID: "of a", Decision: agent.DecisionApprove, By: "bob"},
		"b": {ApprovalID: "of b", Decision: agent.DecisionReject, By: "ann"},
	}, decisions)
}

func TestProcessAsks(t *testing.T) {
	question := workflows.Question{Name: "publish", Prompt: "Publish it?", Options: []string{"yes", "no"}, Timeout: time.Hour, OnTimeout: "no"}
	rejected := 0
	refused := func(t *testing.T, env *testsuite.TestWorkflowEnvironment, want string, a workflows.Answer) {
		t.Helper()
		env.UpdateWorkflow(workflows.UpdateAnswer, fmt.Sprint(want, a.Question, len(a.By)), &testsuite.TestUpdateCallback{
			OnAccept: func() { require.Fail(t, "accepted", want) }, OnComplete: func(any, error) {},
			OnReject: func(err error) { rejected++; require.ErrorContains(t, err, want) },
		}, a)
	}
	for name, c := range map[string]struct {
		answer func(*testing.T, *testsuite.TestWorkflowEnvironment)
		want   workflows.Answer
	}{
		"and is answered": {func(t *testing.T, env *testsuite.TestWorkflowEnvironment) {
			v := queryState[workflows.ProcessView](t, env)
			require.Equal(t, "waiting", v.Status)
			require.Equal(t, "Publish it?", v.Questions[0].Prompt)
			require.Equal(t, []string{"yes", "no"}, v.Questions[0].Options)
			require.NotEmpty(t, v.Questions[0].Expires)
			require.Equal(t, `temporal workflow update execute --workflow-id default-test-workflow-id --name answer `+
				`--input '{"question":"publish","choice":"yes","by":"you"}'`, v.Questions[0].Command)
			refused(t, env, `no question "other" is open`, workflows.Answer{Question: "other", Choice: "yes"})
			refused(t, env, "choice: want one of yes, no", workflows.Answer{Question: "publish", Choice: "maybe"})
			refused(t, env, "message: is", workflows.Answer{Question: "publish", Choice: "yes", Message: strings.Repeat("m", 64<<10)})
			refused(t, env, "by: is longer", workflows.Answer{Question: "publish", Choice: "yes", By: strings.Repeat("b", 257)})
			env.UpdateWorkflowNoRejection(workflows.UpdateAnswer, "u", t,
				workflows.Answer{Question: "publish", Choice: "yes", Message: "on Monday", By: "ann", TimedOut: true})
			env.SignalWorkflow(workflows.UpdateAnswer, workflows.Answer{Question: "publish", Choice: "no", By: "too late"})
		}, workflows.Answer{Question: "publish", Choice: "yes", Message: "on Monday", By: "ann"}},
		"and is answered by a signal": {func(_ *testing.T, env *testsuite.TestWorkflowEnvironment) {
			env.SignalWorkflow(workflows.UpdateAnswer, workflows.Answer{Question: "publish", Choice: "never"})
			env.SignalWorkflow(workflows.UpdateAnswer, workflows.Answer{Question: "publish", Choice: "no", By: "bob"})
			env.SignalWorkflow(workflows.UpdateAnswer, workflows.Answer{Question: "publish", Choice: "yes", By: "too late"})
		}, workflows.Answer{Question: "publish", Choice: "no", By: "bob"}},
		"in vain": {nil, workflows.Answer{Question: "publish", Choice: "no", TimedOut: true}},
	} {
		t.Run(name, func(t *testing.T) {
			env := newProcessEnv(t, untold)
			if c.answer != nil {
				env.RegisterDelayedCallback(func() { c.answer(t, env) }, time.Minute)
			}
			got, err := runProcess(t, env, func(ctx workflow.Context, p *workflows.Process) (workflows.Answer, error) {
				return p.Ask(ctx, question)
			})
			require.NoError(t, err)
			require.Equal(t, c.want, got)
		})
	}
	require.Equal(t, 4, rejected)
	t.Run("until it is cancelled", func(t *testing.T) {
		env := newProcessEnv(t, untold)
		env.RegisterDelayedCallback(env.CancelWorkflow, 30*24*time.Hour)
		_, err := runProcess(t, env, func(ctx workflow.Context, p *workflows.Process) (workflows.Answer, error) {
			a, err := p.Ask(ctx, workflows.Question{Name: "ever"})
			require.Empty(t, p.View().Questions)
			return a, err
		})
		require.True(t, temporal.IsCanceledError(err))
	})
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
