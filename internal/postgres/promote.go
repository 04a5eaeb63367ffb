package postgres

import (
	"encoding/json"

	"github.com/turnstone-run/turnstone/agent"
)

// unfinished is what a model, and a reader of the transcript, sees as the result of a call that never got one: providers refuse a
// conversation in which a call dangles.
const unfinished = `{"error":"the turn ended before this tool call was answered; if it had begun, it may have taken effect"}`

// promote turns the steps of a turn into messages: for each step the model's reply, then one tool message with the results of its
// calls in the order of the calls, then as a user's message what the model was told when it was asked again. steps are ordered by step;
// within a step the order does not matter.
func promote(models []agent.ModelStep, tools []agent.ToolStep) []agent.Message {
	results := indexTools(tools)
	var messages []agent.Message
	for i := range models {
		messages = append(messages, promoteStep(&models[i], results)...)
	}
	return messages
}

func indexTools(tools []agent.ToolStep) map[agent.StepKey]*agent.ToolStep {
	byKey := make(map[agent.StepKey]*agent.ToolStep, len(tools))
	for i := range tools {
		key := tools[i].Key
		key.TurnID = ""
		byKey[key] = &tools[i]
	}
	return byKey
}

func promoteStep(m *agent.ModelStep, results map[agent.StepKey]*agent.ToolStep) []agent.Message {
	var messages []agent.Message
	if len(m.Blocks) > 0 {
		messages = append(messages, agent.Message{Role: agent.RoleAssistant, Blocks: m.Blocks})
	}
	if calls := agent.ToolCalls(m.Blocks); len(calls) > 0 {
		messages = append(messages, agent.Message{Role: agent.RoleTool, Blocks: answersTo(calls, m.Key.Step, results)})
	}
	if m.Feedback != "" {
		messages = append(messages, agent.UserText(m.Feedback))
	}
	return messages
}

func answersTo(calls []agent.ToolCall, step int, results map[agent.StepKey]*agent.ToolStep) []agent.Block {
	answers := make([]agent.Block, len(calls))
	for i, call := range calls {
		if t := results[agent.StepKey{Step: step, CallID: call.ID}]; t != nil {
			answers[i] = t.Result
			continue
		}
		answers[i] = agent.Block{
			Type: agent.BlockToolResult, ToolCallID: call.ID, Name: call.Name, Status: agent.ResultError,
			Output: json.RawMessage(unfinished),
		}
	}
	return answers
}

// callRow is one row of tool_calls.
type callRow struct {
	step     int
	id       agent.CallID
	name     string
	args     json.RawMessage
	status   string
	ref      string
	duration int64
	dataset  *agent.Dataset
	cacheHit bool
}

// stored is the reference of what the call left in the blob store, empty for nothing.
func (c *callRow) stored() string {
	if c.ref == "" && c.dataset != nil {
		return c.dataset.Ref
	}
	return c.ref
}

const callUnfinished = "unfinished"

// callRows lists the calls that the models asked for and how each ended.
func callRows(models []agent.ModelStep, tools []agent.ToolStep) []callRow {
	results := indexTools(tools)
	var rows []callRow
	for i := range models {
		for _, call := range agent.ToolCalls(models[i].Blocks) {
			row := callRow{step: models[i].Key.Step, id: call.ID, name: call.Name, args: call.Args, status: callUnfinished}
			if t := results[agent.StepKey{Step: row.step, CallID: call.ID}]; t != nil {
				row.status, row.ref, row.duration = agent.ResultSuccess, t.Verdict.Ref, t.DurationMS
				row.dataset, row.cacheHit = t.Dataset, t.CacheHit
				if t.Verdict.Failed || t.Result.Status == agent.ResultError {
					row.status = agent.ResultError
				}
			}
			rows = append(rows, row)
		}
	}
	return rows
}
