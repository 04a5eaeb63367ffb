package workflows_test

import (
	"encoding/json"
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
		commands := pasted(t, details(t, env))
		require.Len(t, commands, 2)
		require.Equal(t, words(t, v.Steps[0].Pending[0].Command)[:8], commands[0][:8])
		for i, id := range []string{"of a", "of b"} {
			require.Equal(t, map[string]string{"approval_id": id, "decision": "approve", "by": "you"},
				sends(t, commands[i], "default-test-workflow-id", workflows.UpdateDecide))
		}
		env.UpdateWorkflow(workflows.UpdateDecide, "u1", &testsuite.TestUpdateCallback{
			OnAccept: func() { require.Fail(t, "accepted") }, OnComplete: func(any, error) {},
			OnReject: func(err error) {
				require.ErrorContains(t, err, `no step at work waits for the approval "of nobody"`)
			},
		}, agent.Decision{ApprovalID: "of nobody", Decision: agent.DecisionApprove})
		for want, d := range map[string]agent.Decision{
			"approval_id: is empty": {},
			`decision: want approve, edit, reject or respond, got "ok"`: {ApprovalID: "of b", Decision: "ok"},
			"args: decision edit needs the new arguments as an object":  {ApprovalID: "of b", Decision: agent.DecisionEdit},
			"args: go with decision edit only":                          {ApprovalID: "of b", Decision: agent.DecisionReject, Args: json.RawMessage(`{}`)},
			"message: decision respond needs the answer":                {ApprovalID: "of b", Decision: agent.DecisionRespond},
		} {
			env.UpdateWorkflow(workflows.UpdateDecide, want, &testsuite.TestUpdateCallback{
				OnAccept: func() { require.Fail(t, "accepted") }, OnReject: func(err error) { require.ErrorContains(t, err, want) },
				OnComplete: func(any, error) {},
			}, d)
		}
		env.UpdateWorkflowNoRejection(workflows.UpdateDecide, "u3", t, agent.Decision{ApprovalID: "of b", Decision: agent.DecisionReject, By: "ann"})
	}, 10*time.Second)
	env.RegisterDelayedCallback(func() {
		v := state()
		require.Equal(t, agent.DecisionReject, v.Steps[1].Pending[0].Sent, "the turn has not gone on yet")
		require.Equal(t, "running", v.Steps[1].Status)
		require.Equal(t, "waiting", v.Steps[0].Status)
		commands := pasted(t, details(t, env))
		require.Len(t, commands, 1, "nobody is asked twice")
		require.Equal(t, "of a", sends(t, commands[0], "default-test-workflow-id", workflows.UpdateDecide)["approval_id"])
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
			shown := details(t, env)
			require.Contains(t, shown, "\nPublish it?\n")
			require.Equal(t, map[string]string{"question": "publish", "choice": "yes", "by": "you"},
				sends(t, pasted(t, shown)[0], "default-test-workflow-id", workflows.UpdateAnswer))
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
