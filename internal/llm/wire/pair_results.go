package wire

import (
	"encoding/json"
	"slices"

	"github.com/turnstone-run/turnstone/agent"
)

const interruptedCall = "The call was interrupted: there is no result."

// PairResults returns the conversation with exactly one result for every tool call, after the message with the call, as providers require. A call
// without a result, because its turn was cancelled or its arguments were invalid, gets an error result. A result without a call is left out, and
// so is a second result. PairResults does not change its input.
func PairResults(messages []agent.Message) []agent.Message {
	paired := make([]agent.Message, 0, len(messages))
	for i := 0; i < len(messages); i++ {
		m := messages[i]
		if m.Role == agent.RoleTool { // its calls are not in the message before it
			continue
		}
		paired = append(paired, m)
		open := openCallsOf(m)
		for i+1 < len(messages) && messages[i+1].Role == agent.RoleTool {
			i++
			if results := open.takeResults(messages[i].Blocks); len(results) > 0 {
				paired = append(paired, agent.Message{Role: agent.RoleTool, Blocks: results})
			}
		}
		if missing := open.missingResults(); len(missing) > 0 {
			paired = append(paired, agent.Message{Role: agent.RoleTool, Blocks: missing})
		}
	}
	return paired
}

// openCalls are the calls of one message that have no result yet, in order.
type openCalls []agent.Block

func openCallsOf(m agent.Message) openCalls {
	if m.Role != agent.RoleAssistant {
		return nil
	}
	var open openCalls
	for i := range m.Blocks {
		if IsToolCall(&m.Blocks[i]) {
			open = append(open, m.Blocks[i])
		}
	}
	return open
}

// IsToolCall reports whether a block is a tool call that is sent to providers: a valid one, or an invalid one with an id and a name.
func IsToolCall(b *agent.Block) bool {
	switch b.Type {
	case agent.BlockToolCall:
		return true
	case agent.BlockInvalidToolCall:
		return b.ID != "" && b.Name != ""
	default:
		return false
	}
}

// takeResults returns the results of open calls among blocks, and removes those calls.
func (c *openCalls) takeResults(blocks []agent.Block) []agent.Block {
	var results []agent.Block
	for i := range blocks {
		if blocks[i].Type != agent.BlockToolResult {
			continue
		}
		id := string(blocks[i].ToolCallID)
		if j := slices.IndexFunc(*c, func(call agent.Block) bool { return call.ID == id }); j >= 0 {
			results = append(results, blocks[i])
			*c = slices.Delete(*c, j, j+1)
		}
	}
	return results
}

// missingResults returns an error result for each open call.
func (c openCalls) missingResults() []agent.Block {
	var results []agent.Block
	for i := range c {
		call := &c[i]
		text := interruptedCall
		if call.Type == agent.BlockInvalidToolCall && call.Error != "" {
			text = "The call was not made: " + call.Error + "."
		}
		output, _ := json.Marshal(text) // a string always marshals
		results = append(results, agent.Block{
			Type: agent.BlockToolResult, ToolCallID: agent.CallID(call.ID), Name: call.Name, Status: agent.ResultError, Output: output,
		})
	}
	return results
}
