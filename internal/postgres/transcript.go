package postgres

import (
	"encoding/json"

	"github.com/jackc/pgx/v5"

	"github.com/turnstone-run/turnstone/agent"
)

// unfinishedResult is the result in the transcript for a call that has none, because providers refuse a conversation in which a call has no result.
const unfinishedResult = `{"error":"the turn ended before this tool call was answered; if it had begun, it may have taken effect"}`

// stepMessages returns the steps of a turn as messages: for each step the model's reply, then one tool message with the results of its calls in the order
// of the calls, then the feedback as a user message. models must be ordered by step; tools may be in any order.
func stepMessages(models []agent.ModelStep, tools []agent.ToolStep) []agent.Message {
	results := toolsByKey(tools)
	var messages []agent.Message
	for i := range models {
		messages = append(messages, messagesOfStep(&models[i], results)...)
	}
	return messages
}

// toolsByKey returns tool steps by their keys without the turn's id.
func toolsByKey(tools []agent.ToolStep) map[agent.StepKey]*agent.ToolStep {
	byKey := make(map[agent.StepKey]*agent.ToolStep, len(tools))
	for i := range tools {
		key := tools[i].Key
		key.TurnID = ""
		byKey[key] = &tools[i]
	}
	return byKey
}

func messagesOfStep(m *agent.ModelStep, results map[agent.StepKey]*agent.ToolStep) []agent.Message {
	var messages []agent.Message
	useRunArgs(m, results)
	if len(m.Blocks) > 0 {
		messages = append(messages, agent.Message{Role: agent.RoleAssistant, Blocks: m.Blocks})
	}
	if calls := agent.ToolCalls(m.Blocks); len(calls) > 0 {
		messages = append(messages, agent.Message{Role: agent.RoleTool, Blocks: callResults(calls, m.Key.Step, results)})
	}
	if m.Feedback != "" {
		messages = append(messages, agent.UserText(m.Feedback))
	}
	return messages
}

// useRunArgs replaces the arguments of a reply's tool calls by those that a person has edited, with which the calls ran. Otherwise the model would see its
// own arguments with the results of others.
func useRunArgs(m *agent.ModelStep, results map[agent.StepKey]*agent.ToolStep) {
	for i := range m.Blocks {
		b := &m.Blocks[i]
		t := results[agent.StepKey{Step: m.Key.Step, CallID: agent.CallID(b.ID)}]
		if b.Type == agent.BlockToolCall && t != nil && len(t.Args) > 0 && !isSameJSON(b.Args, t.Args) {
			b.Args = t.Args
		}
	}
}

func callResults(calls []agent.ToolCall, step int, results map[agent.StepKey]*agent.ToolStep) []agent.Block {
	blocks := make([]agent.Block, len(calls))
	for i, call := range calls {
		if t := results[agent.StepKey{Step: step, CallID: call.ID}]; t != nil {
			blocks[i] = t.Result
			continue
		}
		blocks[i] = agent.Block{
			Type: agent.BlockToolResult, ToolCallID: call.ID, Name: call.Name, Status: agent.ResultError,
			Output: json.RawMessage(unfinishedResult),
		}
	}
	return blocks
}

// messageColumns are the columns of messages to insert into the transcript.
type messageColumns struct {
	roles  []string
	blocks []string
}

func encodeMessages(messages []agent.Message) (messageColumns, error) {
	e := messageColumns{roles: []string{}, blocks: []string{}} // a nil slice would be NULL
	for _, m := range messages {
		b, err := encode(m.Blocks)
		if err != nil {
			return messageColumns{}, err
		}
		e.roles = append(e.roles, string(m.Role))
		e.blocks = append(e.blocks, string(b))
	}
	return e, nil
}

const appendMessages = `
INSERT INTO messages (tenant, session_id, turn_id, position, role, blocks, size)
SELECT $1, $2, $3, $4::bigint + m.n, m.role, m.blocks::json, octet_length(m.blocks)
FROM unnest($5::text[], $6::text[]) WITH ORDINALITY AS m (role, blocks, n)`

// queue queues the statement that inserts the messages after the position last.
func (e messageColumns) queue(b *pgx.Batch, tenant string, session agent.SessionID, turn agent.TurnID, last int64) {
	if len(e.roles) > 0 {
		b.Queue(appendMessages, tenant, session, turn, last, e.roles, e.blocks)
	}
}
