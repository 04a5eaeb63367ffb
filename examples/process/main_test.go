package main

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/workflow"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/workflows"
)

// digest runs the process. turn takes the place of the agent, and each question gets the next answer.
func digest(t *testing.T, turn func(agent.TurnRequest) agent.AgentStepOutput, answers ...workflows.Answer) *testsuite.TestWorkflowEnvironment {
	t.Helper()
	var suite testsuite.WorkflowTestSuite
	env := suite.NewTestWorkflowEnvironment()
	env.RegisterWorkflow(WriteDigest)
	env.RegisterWorkflowWithOptions(func(_ workflow.Context, r agent.TurnRequest) (agent.AgentStepOutput, error) {
		out := turn(r)
		out.TurnID, out.SessionID, out.ResultRef = r.TurnID, "s1", "artifact://of-"+r.Message
		return out, nil
	}, workflow.RegisterOptions{Name: workflows.AgentTurnType})
	for i, a := range answers {
		env.RegisterDelayedCallback(func() {
			value, err := env.QueryWorkflow(workflows.QueryState)
			require.NoError(t, err)
			var v workflows.ProcessView
			require.NoError(t, value.Get(&v))
			require.Equal(t, "waiting", v.Status)
			a.Question = v.Questions[0].Name
			env.UpdateWorkflowNoRejection(workflows.UpdateAnswer, fmt.Sprint(i), t, a)
		}, time.Duration(i+1)*time.Hour)
	}
	env.ExecuteWorkflow(WriteDigest, Digest{Topics: []string{"tea", "coffee"}})
	return env
}

func TestDigest(t *testing.T) {
	var asked []agent.TurnRequest
	env := digest(t, func(r agent.TurnRequest) agent.AgentStepOutput {
		asked = append(asked, r)
		return agent.AgentStepOutput{Status: agent.TurnCompleted, Output: "a text"}
	}, workflows.Answer{Choice: "again", Message: "shorter"}, workflows.Answer{Choice: "yes", By: "ann"})
	var out Digest
	require.NoError(t, env.GetWorkflowResult(&out))
	require.Equal(t, []Entry{
		{Topic: "tea", Status: "published", ResultRef: "artifact://of-shorter", By: "ann"},
		{Topic: "coffee", Status: "rejected", ResultRef: "artifact://of-Write three sentences about coffee."}, // nobody answered for 72 hours
	}, out.Entries)
	require.Equal(t, agent.SessionID("s1"), asked[1].SessionID, "a remark goes to the session of the text")
	require.Empty(t, asked[2].SessionID)
}

func TestDigestGoesOnWithoutWhatFails(t *testing.T) {
	asked := 0
	env := digest(t, func(agent.TurnRequest) agent.AgentStepOutput {
		asked++
		f := &agent.Failure{Type: "model_error", Message: "away", Retryable: true}
		return agent.AgentStepOutput{Status: agent.TurnFailed, Error: f}
	})
	var out Digest
	require.NoError(t, env.GetWorkflowResult(&out))
	require.Equal(t, []Entry{{Topic: "tea", Status: "model_error"}, {Topic: "coffee", Status: "model_error"}}, out.Entries)
	require.Equal(t, 6, asked)
}

func TestDigestContinuesAsNew(t *testing.T) {
	var suite testsuite.WorkflowTestSuite
	env := suite.NewTestWorkflowEnvironment()
	env.RegisterWorkflow(WriteDigest)
	env.RegisterWorkflowWithOptions(func(_ workflow.Context, r agent.TurnRequest) (agent.AgentStepOutput, error) {
		env.SetCurrentHistoryLength(3000)
		return agent.AgentStepOutput{TurnID: r.TurnID, Status: agent.TurnFailed, StopReason: agent.StopTokens}, nil
	}, workflow.RegisterOptions{Name: workflows.AgentTurnType})
	env.ExecuteWorkflow(WriteDigest, Digest{Topics: []string{"tea", "coffee"}})
	var next *workflow.ContinueAsNewError
	require.ErrorAs(t, env.GetWorkflowError(), &next)
	require.JSONEq(t, `{"topics":["coffee"],"entries":[{"topic":"tea","status":"token_limit"}]}`, string(next.Input.GetPayloads()[0].GetData()))
}
