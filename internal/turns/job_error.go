package turns

import (
	"cmp"
	"encoding/json"
	"slices"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/clip"
)

const maxJobErrorText = 4 << 10 // bytes of a job error's message

// jobError returns why a job failed although its turn completed: the failure of the last tool call that has a result, in the order in which the model
// made the calls. It returns nil if that call succeeded, or if there is none.
func jobError(models []agent.ModelStep, tools []agent.ToolStep) *agent.Failure {
	last := lastAnswered(models, tools)
	if last == nil || !last.Verdict.Failed && last.Result.Status != agent.ResultError {
		return nil
	}
	var answer struct {
		Error agent.Failure `json:"error"`
	}
	_ = json.Unmarshal(last.Result.Output, &answer) // an output that was moved to the blob store has no error: then the message is general
	f := agent.Failure{
		Type: agent.JobExecutionError, Tool: cmp.Or(answer.Error.Tool, last.Name), Step: answer.Error.Step, Field: answer.Error.Field,
		Message: clip.Bytes(cmp.Or(answer.Error.Message, "the tool "+last.Name+" failed"), maxJobErrorText), Retryable: answer.Error.Retryable,
	}
	if answer.Error.Type == string(agent.StopApprovalRequired) { // of a child turn
		f.Type = answer.Error.Type
	}
	return &f
}

// lastAnswered returns the tool step of the last call that has a result, or nil.
func lastAnswered(models []agent.ModelStep, tools []agent.ToolStep) *agent.ToolStep {
	for i := range slices.Backward(models) {
		for _, call := range slices.Backward(agent.ToolCalls(models[i].Blocks)) {
			j := slices.IndexFunc(tools, func(t agent.ToolStep) bool {
				return t.Key.Step == models[i].Key.Step && t.Key.CallID == call.ID
			})
			if j >= 0 {
				return &tools[j]
			}
		}
	}
	return nil
}
