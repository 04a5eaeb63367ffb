package middleware

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/turnstone-run/turnstone/agent"
)

func called(id, name, args string) agent.Block {
	return agent.Block{Type: agent.BlockToolCall, ID: id, Name: name, Args: json.RawMessage(args)}
}

func answered(id, name, output string) agent.Block {
	return agent.Block{Type: agent.BlockToolResult, ToolCallID: agent.CallID(id), Name: name, Status: agent.ResultSuccess, Output: json.RawMessage(output)}
}

func said(role agent.Role, blocks ...agent.Block) agent.Message {
	return agent.Message{Role: role, Blocks: blocks}
}

// conversation has four uses of tools; ids repeat between replies, and two calls are parallel.
func conversation() []agent.Message {
	long := `"` + strings.Repeat("x", 400) + `"`
	stored := answered("1", "", `{"ref":"cas://sha256:ab","preview":{}}`)
	stored.Ref, stored.Status, stored.Extras = "cas://sha256:ab", agent.ResultError, json.RawMessage(`{"a":1}`)
	return []agent.Message{
		agent.UserText("what is the weather?"),
		said(agent.RoleAssistant, agent.Text("let me see"), called("1", "read", `{"city":"Oslo"}`), called("2", "search", `{"q":"rain"}`)),
		said(agent.RoleTool, answered("1", "read", long), answered("2", "search", long)),
		said(agent.RoleAssistant, called("1", "search", `{"q":"snow"}`)),
		said(agent.RoleTool, stored),
		said(agent.RoleAssistant, called("2", "read", `{"city":"Rome"}`)),
		said(agent.RoleTool, answered("2", "read", long)),
	}
}

func TestContextEditing(t *testing.T) {
	const always = `{"edits":[{"type":"clear_tool_uses","trigger":1,`
	cases := map[string]struct {
		options string
		cleared []string // message/block of results, and of calls whose arguments went
		text    string
	}{
		"below the default trigger":    {``, nil, ""},
		"no edits are the default":     {`{"edits":[]}`, nil, ""},
		"all but the three newest":     {`{"edits":[{"trigger":1}]}`, []string{"2/0"}, "[cleared]"},
		"just above":                   {fmt.Sprintf(`{"edits":[{"type":"clear_tool_uses","keep":0,"trigger":%d}]}`, approximateTokens(charsOf(conversation()))-1), []string{"2/0", "2/1", "4/0", "6/0"}, "[cleared]"},
		"at the trigger":               {fmt.Sprintf(`{"edits":[{"type":"clear_tool_uses","keep":0,"trigger":%d}]}`, approximateTokens(charsOf(conversation()))), nil, ""},
		"keeps none":                   {always + `"keep":0}]}`, []string{"2/0", "2/1", "4/0", "6/0"}, "[cleared]"},
		"keeps more than there are":    {always + `"keep":9}]}`, nil, ""},
		"another text":                 {always + `"keep":3,"placeholder":"<gone & \"done\">"}]}`, []string{"2/0"}, `<gone & "done">`},
		"inputs as well":               {always + `"keep":1,"clear_tool_inputs":true}]}`, []string{"1/1", "1/2", "2/0", "2/1", "3/0", "4/0"}, "[cleared]"},
		"not an excluded tool":         {always + `"keep":0,"exclude_tools":["read"]}]}`, []string{"2/1", "4/0"}, "[cleared]"},
		"excluded tools count as kept": {always + `"keep":1,"exclude_tools":["search"],"clear_tool_inputs":true}]}`, []string{"1/1", "2/0"}, "[cleared]"},
		"no more than needed":          {always + `"keep":0,"clear_at_least":97}]}`, []string{"2/0"}, "[cleared]"},
		"as much as needed":            {always + `"keep":0,"clear_at_least":98}]}`, []string{"2/0", "2/1"}, "[cleared]"},
		"as much as there is":          {always + `"keep":0,"clear_at_least":100000}]}`, []string{"2/0", "2/1", "4/0", "6/0"}, "[cleared]"},
		"one edit after the other": {
			always + `"keep":0,"exclude_tools":["read"]},{"type":"clear_tool_uses","trigger":100000,"keep":0}]}`, []string{"2/1", "4/0"}, "[cleared]",
		},
		"two edits": {
			always + `"keep":0,"exclude_tools":["read"]},{"type":"clear_tool_uses","trigger":1,"keep":3}]}`, []string{"2/0", "2/1", "4/0"}, "[cleared]",
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			want := conversation()
			text, err := json.Marshal(c.text)
			require.NoError(t, err)
			for _, at := range c.cleared {
				var m, b int
				_, err := fmt.Sscanf(at, "%d/%d", &m, &b)
				require.NoError(t, err)
				if block := &want[m].Blocks[b]; block.Type == agent.BlockToolCall {
					block.Args = json.RawMessage(`{}`)
				} else {
					block.Output, block.Ref = text, ""
				}
			}
			stored := conversation()
			req := agent.ModelRequest{System: "s", Messages: stored}
			edit(t, build(t, newContextEditing, c.options), &req)
			require.Equal(t, want, req.Messages)
			require.Equal(t, conversation(), stored, "messages may be shared")
			require.Equal(t, "s", req.System)
		})
	}
}

func TestContextEditingLeavesWhatHasNoCall(t *testing.T) {
	server := agent.Block{Type: agent.BlockServerToolResult, ToolCallID: "1", Status: agent.ResultSuccess, Output: json.RawMessage(`"found"`)}
	search := agent.Block{Type: agent.BlockServerToolCall, ID: "2", Name: "search"}
	messages := []agent.Message{
		said(agent.RoleTool, answered("1", "read", `"no reply before it"`)),
		said(agent.RoleAssistant, called("1", "read", `{}`), search, server),
		said(agent.RoleTool, answered("2", "read", `"no such call"`), agent.Text("note")),
		said(agent.RoleAssistant, agent.Text("done")),
		said(agent.RoleTool, answered("1", "read", `"an older reply's"`)),
	}
	req := agent.ModelRequest{Messages: messages}
	m := build(t, newContextEditing, `{"edits":[{"type":"clear_tool_uses","trigger":1,"keep":0,"clear_tool_inputs":true}]}`)
	edit(t, m, &req)
	require.Equal(t, messages, req.Messages)
	edit(t, m, &agent.ModelRequest{})
}

func TestApproximateTokens(t *testing.T) {
	image := agent.Block{Type: agent.BlockImage, Base64: strings.Repeat("A", 100_000), MIMEType: "image/png"}
	cases := map[string]struct {
		message agent.Message
		want    int
	}{
		"nothing but a role": {agent.Message{Role: "user"}, 1 + 3},
		"rounded up":         {agent.UserText("x"), 2 + 3},
		"characters":         {agent.UserText("éééé"), 2 + 3},
		"an image":           {said(agent.RoleUser, image), 1 + 85 + 3},
		"a call":             {said("user", called("1234", "read", `{"a":123}`)), (4+4+4+9+3)/4 + 3},
		"a result":           {said("user", answered("1234", "read", `"12345"`)), (4+4+4+7+3)/4 + 3},
		"a reference":        {said("user", agent.Block{Type: agent.BlockToolResult, Ref: "cas://12"}), 3 + 3},
		"a shown preview":    {said("user", agent.Block{Type: agent.BlockToolResult, Ref: "cas://12", Output: json.RawMessage("1234")}), 2 + 3},
		"reasoning":          {said("user", agent.Block{Type: agent.BlockReasoning, Reasoning: "1234", Signature: "5678"}), 3 + 3},
	}
	for name, c := range cases {
		require.Equal(t, c.want, approximateTokens(charsOf([]agent.Message{c.message})), name)
		require.Equal(t, 2*c.want, approximateTokens(charsOf([]agent.Message{c.message, c.message})), name)
	}
}

// drawConversation draws replies with parallel calls, results in any order, some of them missing or without a call.
func drawConversation(t *rapid.T) []agent.Message {
	messages := []agent.Message{agent.UserText("go")}
	tool := rapid.SampledFrom([]string{"read", "search", "pay"})
	for range rapid.IntRange(0, 8).Draw(t, "replies") {
		reply := said(agent.RoleAssistant, agent.Text("thinking"))
		results := said(agent.RoleTool)
		for c := range rapid.IntRange(0, 4).Draw(t, "calls") {
			id, name := fmt.Sprint("call_", c), tool.Draw(t, "tool")
			if rapid.IntRange(0, 9).Draw(t, "lost call") > 0 {
				reply.Blocks = append(reply.Blocks, called(id, name, `{"n":"`+strings.Repeat("a", rapid.IntRange(0, 60).Draw(t, "args"))+`"}`))
			}
			result := answered(id, name, `"`+strings.Repeat("o", rapid.IntRange(0, 400).Draw(t, "output"))+`"`)
			if rapid.Bool().Draw(t, "unnamed") {
				result.Name = ""
			}
			if rapid.IntRange(0, 9).Draw(t, "lost result") > 0 {
				results.Blocks = append(results.Blocks, result)
			}
		}
		messages = append(messages, reply)
		if len(results.Blocks) == 0 {
			continue
		}
		results.Blocks = rapid.Permutation(results.Blocks).Draw(t, "order")
		if cut := rapid.IntRange(0, len(results.Blocks)).Draw(t, "cut"); cut > 0 && cut < len(results.Blocks) { // in two messages
			messages = append(messages, said(agent.RoleTool, results.Blocks[:cut:cut]...))
			results.Blocks = results.Blocks[cut:]
		}
		messages = append(messages, results)
		if rapid.Bool().Draw(t, "user") {
			messages = append(messages, agent.UserText("go on"))
		}
	}
	return messages
}

// same is a block without what an edit may change.
func same(b agent.Block) agent.Block {
	switch b.Type {
	case agent.BlockToolResult:
		b.Output, b.Ref = nil, ""
	case agent.BlockToolCall:
		b.Args = nil
	default:
	}
	return b
}

func TestContextEditingKeepsTheConversation(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		messages := drawConversation(t)
		e := clearToolUses{
			trigger: rapid.IntRange(1, 1500).Draw(t, "trigger"), keep: rapid.IntRange(0, 6).Draw(t, "keep"),
			clearAtLeast: rapid.SampledFrom([]int{0, 0, 1, 50, 200, 5000}).Draw(t, "clear at least"), clearToolInputs: rapid.Bool().Draw(t, "inputs"),
			excludeTools: rapid.SampledFrom([][]string{nil, {"pay"}, {"pay", "read"}}).Draw(t, "exclude"), placeholder: json.RawMessage(`"[cleared]"`),
		}
		before, err := json.Marshal(messages)
		require.NoError(t, err)
		got := e.apply(messages)
		after, err := json.Marshal(messages)
		require.NoError(t, err)
		require.Equal(t, string(before), string(after), "the input is not changed")
		one, err := json.Marshal(got)
		require.NoError(t, err)
		two, err := json.Marshal(e.apply(messages))
		require.NoError(t, err)
		require.Equal(t, string(one), string(two), "the same messages give the same bytes")

		total := approximateTokens(charsOf(messages))
		if total <= e.trigger {
			require.Equal(t, string(before), string(one))
			return
		}
		require.Len(t, got, len(messages))
		for i := range messages {
			require.Equal(t, messages[i].Role, got[i].Role)
			require.Len(t, got[i].Blocks, len(messages[i].Blocks))
			for j := range messages[i].Blocks {
				require.Equal(t, same(messages[i].Blocks[j]), same(got[i].Blocks[j]), "pairs and order stay")
			}
		}
		cleared, left := uses(t, &e, messages, got)
		saved := total - approximateTokens(charsOf(got))
		switch {
		case e.clearAtLeast == 0:
			require.Zero(t, left, "all that may go is gone")
		case left > 0:
			require.Positive(t, cleared)
			require.GreaterOrEqual(t, saved, e.clearAtLeast, "it stops only when enough is gone")
		}
	})
}

// uses checks, by a plain reading of the rules, what became of each result and call. It returns how many of the results that may be
// cleared were, and how many were left: those come after.
func uses(t *rapid.T, e *clearToolUses, before, after []agent.Message) (cleared, left int) {
	results := 0
	for i := range before {
		if before[i].Role == agent.RoleTool {
			results += len(before[i].Blocks)
		}
	}
	emptied := map[string]bool{} // calls whose arguments went, by message/id
	reply, n := 0, 0
	for i := range before {
		if before[i].Role == agent.RoleAssistant {
			reply = i
		}
		if before[i].Role != agent.RoleTool {
			continue
		}
		for j := range before[i].Blocks {
			n++
			was, is := before[i].Blocks[j], after[i].Blocks[j]
			at := slices.IndexFunc(before[reply].Blocks, func(b agent.Block) bool {
				return b.Type == agent.BlockToolCall && b.ID == string(was.ToolCallID)
			})
			if n > results-e.keep || at < 0 || slices.Contains(e.excludeTools, before[reply].Blocks[at].Name) {
				require.Equal(t, string(was.Output), string(is.Output), "it may not go")
				continue
			}
			if left > 0 || string(is.Output) != string(e.placeholder) {
				require.Equal(t, string(was.Output), string(is.Output), "the oldest go first")
				left++
				continue
			}
			cleared++
			if e.clearToolInputs {
				emptied[fmt.Sprint(reply, "/", was.ToolCallID)] = true
			}
		}
	}
	for i := range before {
		for j, b := range before[i].Blocks {
			if b.Type != agent.BlockToolCall {
				continue
			}
			want := string(b.Args)
			if emptied[fmt.Sprint(i, "/", b.ID)] {
				want = `{}`
			}
			require.Equal(t, want, string(after[i].Blocks[j].Args))
		}
	}
	return cleared, left
}

func TestContextEditingRefusesOptions(t *testing.T) {
	edit := func(s string) string {
		return `{"edits":[{"type":"clear_tool_uses"},{"type":"clear_tool_uses",` + s + `}]}`
	}
	refuses(t, newContextEditing, map[string]string{
		edit(`"trigger":0`):                                        "edits[1].trigger",
		edit(`"trigger":100000001`):                                "edits[1].trigger",
		edit(`"trigger":1.5`):                                      "edits[1].trigger",
		edit(`"trigger":{"tokens":5}`):                             "edits[1].trigger",
		edit(`"keep":-1`):                                          "edits[1].keep",
		edit(`"keep":10001`):                                       "edits[1].keep",
		edit(`"clear_at_least":-1`):                                "edits[1].clear_at_least",
		edit(`"exclude_tools":["a",""]`):                           "edits[1].exclude_tools[1]",
		edit(`"placeholder":" "`):                                  "edits[1].placeholder",
		edit(`"placeholder":"` + strings.Repeat("x", 1_001) + `"`): "edits[1].placeholder",
		edit(`"model":"m"`):                                        "edits[1].model",
		`{"edits":[{"type":"clear_thinking"}]}`:                    "edits[0].type",
		`{"edits":{}}`:                                             "edits",
		`{"edits":[` + strings.Repeat(`{"type":"clear_tool_uses"},`, 8) + `{"type":"clear_tool_uses"}]}`: "edits",
		`{"token_count_method":"model"}`: "token_count_method",
	})
}

func edit(t *testing.T, m agent.Middleware, req *agent.ModelRequest) {
	t.Helper()
	jump, err := m.BeforeModel(t.Context(), agent.Invocation{}, req)
	require.NoError(t, err)
	require.Equal(t, agent.JumpNone, jump)
}
