package pii_test

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/middleware/pii"
)

func newMiddleware(t testing.TB, options string) agent.Middleware {
	t.Helper()
	m, err := pii.New(json.RawMessage(options))
	require.NoError(t, err)
	return m
}

func said(role agent.Role, blocks ...agent.Block) agent.Message {
	return agent.Message{Role: role, Blocks: blocks}
}

func toolResult(output string) agent.Block {
	return agent.Block{Type: agent.BlockToolResult, ToolCallID: "c", Status: agent.ResultSuccess, Output: json.RawMessage(output)}
}

func TestOptions(t *testing.T) {
	for options, field := range map[string]string{
		``: "pii_type", `{}`: "pii_type", `{"pii_type":5}`: "pii_type", `{"pii_type":"ssn"}`: "detector", `{"pii_type":"email","strategy":"x"}`: "strategy",
		`{"pii_type":"email","apply_to_all":true}`: "apply_to_all", `{"pii_type":"email","apply_to_input":"yes"}`: "apply_to_input",
		`{"pii_type":"email","pii_type":"ip"}`: "pii_type", `{"pii_type":"x","detector":"x","stream_lookback":1}`: "stream_lookback",
	} {
		_, err := pii.New(json.RawMessage(options))
		var e *agent.Error
		require.ErrorAs(t, err, &e, options)
		require.Equal(t, field, e.Field, options)
	}
}

func TestDefaultsAreInputOnly(t *testing.T) {
	m := newMiddleware(t, `{"pii_type":"email"}`)
	req := agent.ModelRequest{Messages: []agent.Message{
		agent.UserText("joe@example.com"), said(agent.RoleAssistant, agent.Text("joe@example.com")), said(agent.RoleTool, toolResult(`"joe@example.com"`)),
	}}
	change(t, m, &req)
	require.Equal(t, "[REDACTED_EMAIL]", req.Messages[0].Blocks[0].Text)
	require.Equal(t, "joe@example.com", req.Messages[1].Blocks[0].Text)
	require.JSONEq(t, `"joe@example.com"`, string(req.Messages[2].Blocks[0].Output))
	reply := agent.ModelReply{Blocks: []agent.Block{agent.Text("joe@example.com")}}
	err := after(t, m, &reply)
	require.NoError(t, err)
	require.Equal(t, "joe@example.com", reply.Blocks[0].Text)
	typed, ok := m.(*pii.Middleware)
	require.True(t, ok)
	require.Nil(t, typed.OutputRule())
	typed, ok = newMiddleware(t, `{"pii_type":"email","apply_to_output":true}`).(*pii.Middleware)
	require.True(t, ok)
	require.Equal(t, "email", typed.OutputRule().Type())
	result, err := m.WrapTool(answers(`"joe@example.com"`))(t.Context(), agent.Invocation{}, agent.ToolCall{})
	require.NoError(t, err)
	require.JSONEq(t, `"joe@example.com"`, string(result.Output))
}

func TestInputOff(t *testing.T) {
	m := newMiddleware(t, `{"pii_type":"email","apply_to_input":false,"apply_to_tool_results":true}`)
	req := agent.ModelRequest{Messages: []agent.Message{agent.UserText("joe@example.com"), said(agent.RoleTool, toolResult(`["joe@example.com"]`))}}
	change(t, m, &req)
	require.Equal(t, "joe@example.com", req.Messages[0].Blocks[0].Text)
	require.JSONEq(t, `["[REDACTED_EMAIL]"]`, string(req.Messages[1].Blocks[0].Output))
}

// A request shares its messages with whoever loaded them.
func TestTheCallersMessagesStay(t *testing.T) {
	m := newMiddleware(t, `{"pii_type":"email","apply_to_tool_results":true,"apply_to_output":true}`)
	messages := []agent.Message{
		said(agent.RoleUser, agent.Block{Type: agent.BlockText, Text: "joe@example.com", Annotations: []agent.Annotation{{Title: "joe@example.com"}}}, agent.Text("joe@example.com")),
		said(agent.RoleTool, toolResult(`{"a":"joe@example.com"}`)),
	}
	before, err := json.Marshal(messages)
	require.NoError(t, err)
	req := agent.ModelRequest{Messages: messages}
	change(t, m, &req)
	reply := agent.ModelReply{Blocks: messages[0].Blocks}
	err = after(t, m, &reply)
	require.NoError(t, err)
	after, err := json.Marshal(messages)
	require.NoError(t, err)
	require.JSONEq(t, string(before), string(after))
	changed, err := json.Marshal([]any{req.Messages, reply})
	require.NoError(t, err)
	require.NotContains(t, string(changed), "joe")
}

func TestBlock(t *testing.T) {
	m := newMiddleware(t, `{"pii_type":"email","strategy":"block","apply_to_tool_results":true,"apply_to_output":true}`)
	secret, calls := agent.UserText("joe@example.com"), said(agent.RoleAssistant, agent.Text("ok"))
	for name, c := range map[string]struct {
		messages []agent.Message
		denied   bool
	}{
		"the newest message":          {[]agent.Message{secret}, true},
		"one of the newest messages":  {[]agent.Message{calls, secret, agent.UserText("hello")}, true},
		"the newest, at a later step": {[]agent.Message{secret, calls, said(agent.RoleTool, toolResult(`1`))}, true},
		"a new tool result":           {[]agent.Message{agent.UserText("x"), calls, said(agent.RoleTool, toolResult(`1`)), said(agent.RoleTool, toolResult(`"joe@example.com"`))}, true},
		"an older message":            {[]agent.Message{secret, calls, agent.UserText("x")}, false},
		"an older tool result":        {[]agent.Message{agent.UserText("x"), calls, said(agent.RoleTool, toolResult(`"joe@example.com"`)), calls, agent.UserText("x")}, false},
		"nothing":                     {nil, false},
	} {
		req := agent.ModelRequest{Messages: c.messages}
		_, err := m.BeforeModel(t.Context(), agent.Invocation{}, &req)
		if c.denied {
			require.Equal(t, agent.CodeDenied, agent.CodeOf(err), name)
			require.ErrorContains(t, err, "message: detected 1 instance(s) of email in text content")
			require.NotContains(t, err.Error(), "joe")
			continue
		}
		require.NoError(t, err, name)
		out, err := json.Marshal(req.Messages)
		require.NoError(t, err)
		require.NotContains(t, string(out), "joe", name)
	}
	for _, b := range []agent.Block{
		agent.Text("joe@example.com"),
		{Type: agent.BlockReasoning, Reasoning: "joe@example.com"},
		{Type: agent.BlockToolCall, Args: json.RawMessage(`{"joe@example.com":1}`)},
	} {
		reply := agent.ModelReply{Blocks: []agent.Block{b}}
		err := after(t, m, &reply)
		require.EqualError(t, err, "check the reply: detected 1 instance(s) of email in text content")
		require.Equal(t, agent.CodeDenied, agent.CodeOf(err))
	}
	reply := agent.ModelReply{Blocks: []agent.Block{agent.Text("joe@exam"), agent.Text("ple.com")}}
	err := after(t, m, &reply)
	require.Equal(t, agent.CodeDenied, agent.CodeOf(err))
}

func TestBlocksOfAReply(t *testing.T) {
	five := 5
	in := []agent.Block{
		{Type: agent.BlockReasoning, Reasoning: "about joe@example.com", Signature: "s1"},
		{Type: agent.BlockReasoning, Reasoning: " about nothing", Signature: "s2"},
		{Type: agent.BlockText, Text: "Write to joe@", Annotations: []agent.Annotation{{StartIndex: &five, EndIndex: &five, CitedText: "ann@example.com", URL: "mailto:joe@example.com"}}},
		agent.Text("example."),
		agent.Text("com or ann@example.com"),
		{Type: agent.BlockToolCall, ID: "joe@example.com", Name: "send", Args: json.RawMessage(`{"to": ["joe@example.com", "x"], "n": 1.50}`)},
		{Type: agent.BlockInvalidToolCall, Name: "send", Args: json.RawMessage(`"{to: joe@example.com"`), Error: "bad joe@example.com"},
		{Type: agent.BlockServerToolCall, ID: "i", Name: "n", Args: json.RawMessage(`{"q":"joe\u0040example.com"}`)},
		{Type: agent.BlockServerToolResult, ToolCallID: "i", Output: json.RawMessage(`{"joe@example.com":1,"ann@example.com":2,"[REDACTED_EMAIL]":{"a@b.co":true}}`)},
		{Type: agent.BlockNonStandard, Value: json.RawMessage(`[null, "joe@example.com"]`)},
		{Type: agent.BlockFile, URL: "https://x/joe@example.com", Name: "joe@example.com"},
		{Type: agent.BlockToolCall, Args: json.RawMessage(`{"left" : "alone"}`)},
		{Type: agent.BlockText, Annotations: []agent.Annotation{{Title: "joe@example.com"}}}, // a citation of its own
		agent.Text("clean"),
	}
	reply := agent.ModelReply{Blocks: in}
	err := after(t, newMiddleware(t, `{"pii_type":"email","apply_to_output":true}`), &reply)
	require.NoError(t, err)
	require.Equal(t, []agent.Block{
		{Type: agent.BlockReasoning, Reasoning: "about [REDACTED_EMAIL]"},
		in[1],
		{Type: agent.BlockText, Text: "Write to [REDACTED_EMAIL]", Annotations: []agent.Annotation{{CitedText: "[REDACTED_EMAIL]", URL: "mailto:joe@example.com"}}},
		agent.Text(" or [REDACTED_EMAIL]"),
		{Type: agent.BlockToolCall, ID: "joe@example.com", Name: "send", Args: json.RawMessage(`{"to":["[REDACTED_EMAIL]","x"],"n":1.50}`)},
		{Type: agent.BlockInvalidToolCall, Name: "send", Args: json.RawMessage(`"{to: [REDACTED_EMAIL]"`), Error: "bad [REDACTED_EMAIL]"},
		{Type: agent.BlockServerToolCall, ID: "i", Name: "n", Args: json.RawMessage(`{"q":"[REDACTED_EMAIL]"}`)},
		{
			Type: agent.BlockServerToolResult, ToolCallID: "i",
			Output: json.RawMessage(`{"[REDACTED_EMAIL]":1,"[REDACTED_EMAIL]_2":2,"[REDACTED_EMAIL]_3":{"[REDACTED_EMAIL]":true}}`),
		},
		{Type: agent.BlockNonStandard, Value: json.RawMessage(`[null,"[REDACTED_EMAIL]"]`)},
		in[10], in[11],
		{Type: agent.BlockText, Annotations: []agent.Annotation{{Title: "[REDACTED_EMAIL]"}}},
		in[13],
	}, reply.Blocks)
}

// A value that ends with its block is found though the next block goes on with a letter.
func TestBlocksAreTakenAloneToo(t *testing.T) {
	reply := agent.ModelReply{Blocks: []agent.Block{agent.Text("4111111111111111"), agent.Text("Next")}}
	err := after(t, newMiddleware(t, `{"pii_type":"credit_card","apply_to_output":true}`), &reply)
	require.NoError(t, err)
	require.Equal(t, "[REDACTED_CREDIT_CARD]Next", agent.Normalize(reply.Blocks))
}

// A value that is cut into text blocks anywhere never shows, and a stream of the blocks shows what is stored.
func TestBlocksSplitAnywhere(t *testing.T) {
	const text = "Mail joe@example.com, please"
	typed, ok := newMiddleware(t, `{"pii_type":"email","apply_to_output":true}`).(*pii.Middleware)
	require.True(t, ok)
	for i := 1; i < len(text); i++ {
		for j := i + 1; j < len(text); j++ {
			reply := agent.ModelReply{Blocks: []agent.Block{agent.Text(text[:i]), agent.Text(text[i:j]), agent.Text(text[j:])}}
			s := pii.NewStream(typed.OutputRule())
			shown := s.Write(text[:i]) + s.Write(text[i:j]) + s.Write(text[j:]) + s.Flush()
			err := after(t, typed, &reply)
			require.NoError(t, err)
			require.Equal(t, "Mail [REDACTED_EMAIL], please", agent.Normalize(reply.Blocks), "%d %d", i, j)
			require.Equal(t, shown, agent.Normalize(reply.Blocks))
			require.NotContains(t, reply.Blocks, agent.Text(""))
		}
	}
}

func TestJSONNumbers(t *testing.T) {
	m := newMiddleware(t, `{"pii_type":"credit_card","apply_to_tool_results":true,"strategy":"mask"}`)
	result, err := m.WrapTool(answers(`{"card": 4111111111111111, "sum": 4111111111111112, "deep": [{"x": [-4111111111111111]}], "big": 12345678901234567890, "f": 1e3}`))(
		t.Context(), agent.Invocation{}, agent.ToolCall{})
	require.NoError(t, err)
	require.Equal(t, `{"card":"************1111","sum":4111111111111112,"deep":[{"x":["-************1111"]}],"big":12345678901234567890,"f":1e3}`, string(result.Output)) //nolint:testifylint // byte by byte
}

func answers(output string) agent.ToolFunc {
	return func(context.Context, agent.Invocation, agent.ToolCall) (agent.ToolResult, error) {
		return agent.ToolResult{Output: json.RawMessage(output)}, nil
	}
}

func TestWrapTool(t *testing.T) {
	m := newMiddleware(t, `{"pii_type":"email","apply_to_tool_results":true}`)
	failure := &agent.Failure{Type: "invalid", Message: "no joe@example.com", Faults: agent.Faults{{Message: "joe@example.com"}}}
	var progress []string
	inv := agent.Invocation{Progress: func(s string) { progress = append(progress, s) }}
	result, err := m.WrapTool(func(_ context.Context, inv agent.Invocation, _ agent.ToolCall) (agent.ToolResult, error) {
		inv.Report("asking joe@example.com")
		return agent.ToolResult{
			Output: json.RawMessage(`"joe@example.com"`), Data: json.RawMessage(`["joe@example.com"]`), Preview: json.RawMessage(`{"sample":"joe@example.com"}`), Failure: failure,
		}, nil
	})(t.Context(), inv, agent.ToolCall{})
	require.NoError(t, err)
	require.Equal(t, agent.ToolResult{
		Output: json.RawMessage(`"[REDACTED_EMAIL]"`), Data: json.RawMessage(`["[REDACTED_EMAIL]"]`), Preview: json.RawMessage(`{"sample":"[REDACTED_EMAIL]"}`),
		Failure: &agent.Failure{Type: "invalid", Message: "no [REDACTED_EMAIL]", Faults: agent.Faults{{Message: "[REDACTED_EMAIL]"}}},
	}, result)
	require.Equal(t, []string{"asking [REDACTED_EMAIL]"}, progress)
	require.Equal(t, "no joe@example.com", failure.Message, "the tool's own failure is not changed")

	cause := &agent.Error{Code: agent.CodeUnavailable, Op: "ask", RetryAfter: time.Second, Err: errors.New("joe@example.com is away")}
	for _, strategy := range []string{"redact", "block"} {
		m := newMiddleware(t, `{"pii_type":"email","apply_to_tool_results":true,"strategy":"`+strategy+`"}`)
		_, err = m.WrapTool(func(context.Context, agent.Invocation, agent.ToolCall) (agent.ToolResult, error) {
			return agent.ToolResult{}, cause
		})(t.Context(), inv, agent.ToolCall{})
		require.Equal(t, &agent.Error{Code: agent.CodeUnavailable, RetryAfter: time.Second, Err: errors.New("ask: [REDACTED_EMAIL] is away")}, err)
	}
	_, err = m.WrapTool(func(context.Context, agent.Invocation, agent.ToolCall) (agent.ToolResult, error) {
		return agent.ToolResult{}, context.Canceled
	})(t.Context(), inv, agent.ToolCall{})
	require.Equal(t, context.Canceled, err)
}

func TestWrapToolBlocks(t *testing.T) {
	m := newMiddleware(t, `{"pii_type":"email","apply_to_tool_results":true,"strategy":"block"}`)
	var progress []string
	inv := agent.Invocation{Progress: func(s string) { progress = append(progress, s) }}
	for _, result := range []agent.ToolResult{
		{Output: json.RawMessage(`{"joe@example.com":null}`)},
		{Preview: json.RawMessage(`["joe@example.com"]`)},
		{Data: json.RawMessage(`"joe@example.com"`)},
		{Failure: &agent.Failure{Message: "joe@example.com"}},
	} {
		got, err := m.WrapTool(func(_ context.Context, inv agent.Invocation, _ agent.ToolCall) (agent.ToolResult, error) {
			inv.Report("joe@example.com")
			inv.Report("half")
			return result, nil
		})(t.Context(), inv, agent.ToolCall{Name: "find"})
		require.EqualError(t, err, "check the result of find: detected 1 instance(s) of email in text content")
		require.Equal(t, agent.CodeDenied, agent.CodeOf(err))
		require.Equal(t, agent.ToolResult{}, got)
	}
	require.Equal(t, []string{"half"}, slices.Compact(progress))
}

func TestMalformedJSONIsNotQuoted(t *testing.T) {
	m := newMiddleware(t, `{"pii_type":"email","apply_to_tool_results":true}`)
	for _, output := range []string{`{"joe@example.com": joe@example.com}`, `{"joe@example.com"`, `["joe@example.com"`, `"joe@example.com`} {
		_, err := m.WrapTool(answers(output))(t.Context(), agent.Invocation{}, agent.ToolCall{Name: "find"})
		require.EqualError(t, err, "check the result of find: is no JSON", output)
		require.Equal(t, agent.CodeInternal, agent.CodeOf(err))
	}
}

// after is what a middleware makes of a reply that is not streamed.
func after(t *testing.T, m agent.Middleware, reply *agent.ModelReply) error {
	t.Helper()
	said := *reply
	var err error
	*reply, err = m.WrapModel(func(context.Context, agent.Invocation, agent.ModelRequest, func(agent.Delta) error) (agent.ModelReply, error) {
		return said, nil
	})(t.Context(), agent.Invocation{}, agent.ModelRequest{}, func(agent.Delta) error { return nil })
	return err
}

func change(t *testing.T, m agent.Middleware, req *agent.ModelRequest) {
	t.Helper()
	_, err := m.BeforeModel(t.Context(), agent.Invocation{}, req)
	require.NoError(t, err)
}

// What a tool stores by itself is cleaned by all rules around it.
func TestWhatToolsStore(t *testing.T) {
	mails := newMiddleware(t, `{"pii_type":"email","apply_to_tool_results":true}`)
	blocks := newMiddleware(t, `{"pii_type":"ip","strategy":"block","apply_to_tool_results":true}`)
	cards := newMiddleware(t, `{"pii_type":"credit_card","strategy":"mask","apply_to_tool_results":true}`)
	store := func(raw string) (stored string, err error) {
		tool := func(_ context.Context, inv agent.Invocation, _ agent.ToolCall) (agent.ToolResult, error) {
			clean, err := inv.Redact(json.RawMessage(raw))
			stored = string(clean)
			return agent.ToolResult{Output: json.RawMessage(`{}`)}, err
		}
		_, err = mails.WrapTool(blocks.WrapTool(cards.WrapTool(tool)))(t.Context(), agent.Invocation{}, agent.ToolCall{})
		return stored, err
	}
	got, err := store(`{"to":"joe@example.com","card":"4111 1111 1111 1111"}`)
	require.NoError(t, err)
	require.NotContains(t, got, "joe")
	require.NotContains(t, got, "4111 1111 1111")
	got, err = store(`{"from":"10.1.2.3"}`)
	require.Equal(t, agent.CodeDenied, agent.CodeOf(err))
	require.Empty(t, got)
}
