package workflows_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/workflow"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/workflows"
)

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
