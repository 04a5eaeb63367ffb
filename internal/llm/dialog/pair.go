package dialog

import (
	"encoding/json"

	"github.com/turnstone-run/turnstone/agent"
)

const interrupted = "The call was interrupted: there is no result."

// Pair returns the conversation with exactly one result behind every tool call, as providers demand: a call that was never answered
// (its turn was cancelled, or its arguments were not valid) gets an error result; a result whose call is gone, or that comes
// twice, is left out. Messages in order are returned as they are; the input is not changed.
func Pair(messages []agent.Message) []agent.Message {
	paired := make([]agent.Message, 0, len(messages))
	for i := 0; i < len(messages); i++ {
		m := messages[i]
		if m.Role == agent.RoleTool { // its call is gone: results are taken below, with their calls
			continue
		}
		paired = append(paired, m)
		open := openCalls(m)
		for i+1 < len(messages) && messages[i+1].Role == agent.RoleTool {
			i++
			if kept := open.take(messages[i].Blocks); len(kept) > 0 {
				paired = append(paired, agent.Message{Role: agent.RoleTool, Blocks: kept})
			}
		}
		if missing := open.missing(); len(missing) > 0 {
			paired = append(paired, agent.Message{Role: agent.RoleTool, Blocks: missing})
		}
	}
	return paired
}

// calls are the calls of one message that wait for their results, in order.
type calls []agent.Block

func openCalls(m agent.Message) calls {
	var open calls
	if m.Role != agent.RoleAssistant {
		return nil
	}
	for i := range m.Blocks {
		if IsCall(&m.Blocks[i]) {
			open = append(open, m.Blocks[i])
		}
	}
	return open
}

// IsCall reports whether a block is a tool call that a provider is shown, valid or not.
func IsCall(b *agent.Block) bool {
	switch b.Type {
	case agent.BlockToolCall:
		return true
	case agent.BlockInvalidToolCall:
		return b.ID != "" && b.Name != ""
	default:
		return false
	}
}

// take returns the results among blocks that answer an open call, and closes those calls.
func (c *calls) take(blocks []agent.Block) []agent.Block {
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

func (c *calls) missing() []agent.Block {
	var results []agent.Block
	for i := range *c {
		call := &(*c)[i]
		text := interrupted
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
