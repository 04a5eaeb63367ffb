package wire

import (
	"encoding/json"

	"github.com/turnstone-run/turnstone/agent"
)

const interruptedCall = "The call was interrupted: there is no result."

// PairResults returns the conversation with exactly one result behind every tool call, as providers require. A call without a result (its
// turn was cancelled, or its arguments were invalid) gets an error result. A result without its call, or a second one, is left out. It
// does not change its input.
func PairResults(messages []agent.Message) []agent.Message {
	paired := make([]agent.Message, 0, len(messages))
	for i := 0; i < len(messages); i++ {
		m := messages[i]
		if m.Role == agent.RoleTool { // without its call: other results are taken below
			continue
		}
		paired = append(paired, m)
		open := openCallsOf(m)
		for i+1 < len(messages) && messages[i+1].Role == agent.RoleTool {
			i++
			if kept := open.takeResults(messages[i].Blocks); len(kept) > 0 {
				paired = append(paired, agent.Message{Role: agent.RoleTool, Blocks: kept})
			}
		}
		if missing := open.missingResults(); len(missing) > 0 {
			paired = append(paired, agent.Message{Role: agent.RoleTool, Blocks: missing})
		}
	}
	return paired
}

// openCalls are the calls of one message that wait for their results, in order.
type openCalls []agent.Block

func openCallsOf(m agent.Message) openCalls {
	var open openCalls
	if m.Role != agent.RoleAssistant {
		return nil
	}
	for i := range m.Blocks {
		if IsToolCall(&m.Blocks[i]) {
			open = append(open, m.Blocks[i])
		}
	}
	return open
}

// IsToolCall reports whether a block is a tool call that providers are shown, valid or not.
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

// takeResults returns the results among blocks that answer an open call, and closes those calls.
func (c *openCalls) takeResults(blocks []agent.Block) []agent.Block {
	var kept []agent.Block
	for i := range blocks {
		if blocks[i].Type != agent.BlockToolResult {
			continue
		}
		for j := range *c {
			if (*c)[j].ID == string(blocks[i].ToolCallID) {
				kept = append(kept, blocks[i])
				*c = append((*c)[:j:j], (*c)[j+1:]...)
				break
			}
		}
	}
	return kept
}

func (c *openCalls) missingResults() []agent.Block {
	var results []agent.Block
	for i := range *c {
		call := &(*c)[i]
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
