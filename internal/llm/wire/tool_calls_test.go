package wire_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/llm/wire"
)

func TestToolCall(t *testing.T) {
	for _, row := range []struct {
		name, raw, args string
		kind            agent.BlockType
	}{
		{"f", `{"a":1}`, `{"a":1}`, agent.BlockToolCall},
		{"f", ``, `{}`, agent.BlockToolCall},
		{"f", ` null `, `{}`, agent.BlockToolCall},
		{"f", " {\n} ", " {\n} ", agent.BlockToolCall},
		{"f", `{"a":`, `"{\"a\":"`, agent.BlockInvalidToolCall},
		{"f", `{}{}`, `"{}{}"`, agent.BlockInvalidToolCall},
		{"f", `[1]`, `"[1]"`, agent.BlockInvalidToolCall},
		{"f", `"text"`, `"\"text\""`, agent.BlockInvalidToolCall},
		{"", `{}`, `"{}"`, agent.BlockInvalidToolCall},
	} {
		b := wire.ToolCall("id", row.name, row.raw)
		require.Equal(t, row.kind, b.Type, row.raw)
		require.Equal(t, row.args, string(b.Args))
		require.Equal(t, row.kind == agent.BlockInvalidToolCall, b.Error != "")
		require.NoError(t, b.Validate("block"))
	}
	one, two := wire.ToolCall("", "f", ""), wire.ToolCall("", "f", "")
	require.NotEmpty(t, one.ID)
	require.NotEqual(t, one.ID, two.ID)
}

func TestResultText(t *testing.T) {
	for _, row := range []struct {
		block agent.Block
		text  string
	}{
		{agent.Block{Output: json.RawMessage(`"plain \"text\""`)}, `plain "text"`},
		{agent.Block{Output: json.RawMessage(`{"a": [1, 2]}`)}, `{"a":[1,2]}`},
		{agent.Block{Output: json.RawMessage(`{"big": 12345678901234567890}`)}, `{"big":12345678901234567890}`},
		{agent.Block{Ref: "cas://sha256:00"}, "cas://sha256:00"},
		{agent.Block{Output: json.RawMessage(`null`)}, ""},
		{agent.Block{Output: json.RawMessage(`{broken`)}, "{broken"},
	} {
		require.Equal(t, row.text, wire.ResultText(&row.block))
		row.block.Status = agent.ResultError
		require.Equal(t, "Error: "+row.text, wire.ResultTextMarked(&row.block))
	}
}

func TestPairResultsKeepsACompleteConversation(t *testing.T) {
	messages := []agent.Message{
		agent.UserText("Hi"),
		{Role: agent.RoleAssistant, Blocks: []agent.Block{call("a"), call("b")}},
		{Role: agent.RoleTool, Blocks: []agent.Block{result("a")}},
		{Role: agent.RoleTool, Blocks: []agent.Block{result("b")}},
		{Role: agent.RoleAssistant, Blocks: []agent.Block{agent.Text("Done.")}},
	}
	require.Equal(t, messages, wire.PairResults(messages))
}

func TestPairResultsAddsAndRemovesResults(t *testing.T) {
	got := wire.PairResults([]agent.Message{
		{Role: agent.RoleTool, Blocks: []agent.Block{result("gone")}},
		{Role: agent.RoleAssistant, Blocks: []agent.Block{call("a"), call("b")}},
		{Role: agent.RoleTool, Blocks: []agent.Block{result("b"), result("b"), result("other")}},
		agent.UserText("Go on."),
		{Role: agent.RoleTool, Blocks: []agent.Block{result("a")}},
	})
	require.Len(t, got, 4)
	require.Equal(t, []agent.Block{result("b")}, got[1].Blocks)
	require.Equal(t, agent.CallID("a"), got[2].Blocks[0].ToolCallID)
	require.Equal(t, agent.ResultError, got[2].Blocks[0].Status)
	require.Equal(t, agent.UserText("Go on."), got[3])
}

func call(id string) agent.Block {
	return agent.Block{Type: agent.BlockToolCall, ID: id, Name: "f", Args: json.RawMessage(`{}`)}
}

func result(id string) agent.Block {
	return agent.Block{Type: agent.BlockToolResult, ToolCallID: agent.CallID(id), Status: agent.ResultSuccess, Output: json.RawMessage(`1`)}
}

// FuzzPairResults makes a conversation with a block for each byte. It checks that exactly one result for each call follows the message with the call.
func FuzzPairResults(f *testing.F) {
	f.Add([]byte("uabrAtAtB"))
	f.Add([]byte("AuaABbAtu"))
	f.Fuzz(func(t *testing.T, script []byte) {
		var messages []agent.Message
		for _, c := range script {
			switch {
			case c >= 'a' && c <= 'e':
				last := len(messages) - 1
				if last >= 0 && messages[last].Role == agent.RoleAssistant && c%2 == 0 {
					messages[last].Blocks = append(messages[last].Blocks, call(string(c)))
					continue
				}
				messages = append(messages, agent.Message{Role: agent.RoleAssistant, Blocks: []agent.Block{call(string(c))}})
			case c >= 'A' && c <= 'E':
				messages = append(messages, agent.Message{Role: agent.RoleTool, Blocks: []agent.Block{result(string(c - 'A' + 'a'))}})
			default:
				messages = append(messages, agent.UserText("Hi"))
			}
		}
		paired := wire.PairResults(messages)
		for i := 0; i < len(paired); i++ {
			m := paired[i]
			require.NotEqual(t, agent.RoleTool, m.Role)
			calls, results := map[string]int{}, map[string]int{}
			for _, c := range agent.ToolCalls(m.Blocks) {
				calls[string(c.ID)]++
			}
			for i+1 < len(paired) && paired[i+1].Role == agent.RoleTool {
				i++
				for _, b := range paired[i].Blocks {
					results[string(b.ToolCallID)]++
				}
			}
			require.Equal(t, calls, results)
		}
		require.Equal(t, paired, wire.PairResults(paired), "pairing twice changes nothing")
	})
}

func FuzzToolCall(f *testing.F) {
	f.Add("id", "name", `{"a":1}`)
	f.Add("", "", `{"a":`)
	f.Add("x", "n", "\xff")
	f.Fuzz(func(t *testing.T, id, name, raw string) {
		b := wire.ToolCall(id, name, raw)
		require.NotEmpty(t, b.ID)
		require.True(t, json.Valid(b.Args), "%q", b.Args)
		require.NoError(t, b.Validate("block"))
		var object map[string]json.RawMessage
		require.NoError(t, json.Unmarshal(wire.ToolArguments(&b), &object))
		require.NotNil(t, object)
	})
}
