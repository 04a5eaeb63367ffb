package llmtest

import (
	"encoding/json"
	"os"
	"path/filepath"

	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/agent"
)

func withTools() agent.ModelRequest {
	req := ask()
	req.Tools = []agent.ToolSpec{
		{
			Name: "forecast", Description: "The weather to come.",
			Parameters: json.RawMessage(`{"type":"object","properties":{"city":{"type":"string"},"days":{"type":"integer","maximum":10}},` +
				`"required":["city","days"],"additionalProperties":false}`),
			Strict: true,
		},
		{Name: "now", Description: "The time."},
	}
	return req
}

// fullRequest sets everything that a request can set.
func fullRequest() agent.ModelRequest {
	req := withTools()
	zero := 0.0
	req.System = "You are brief."
	req.Temperature = &zero
	req.MaxTokens = 300
	req.ToolChoice = "required"
	req.OutputSchema = json.RawMessage(
		`{"type":"object","properties":{"answer":{"type":"string"}},"required":["answer"],"additionalProperties":false}`)
	return req
}

// pixel is a picture of one pixel.
const pixel = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="

// history is a conversation with everything in it: media, reasoning, parallel calls of which one failed, a call whose arguments were
// no JSON and one that was never answered.
func history() []agent.Message {
	result := func(id, status, output string) agent.Block {
		return agent.Block{
			Type: agent.BlockToolResult, ToolCallID: agent.CallID(id), Name: "forecast", Status: status, Output: json.RawMessage(output),
		}
	}
	return []agent.Message{
		{Role: agent.RoleUser, Blocks: []agent.Block{
			agent.Text("What is in these?"),
			{Type: agent.BlockImage, Base64: pixel, MIMEType: "image/png"},
			agent.Text("Be exact."),
		}},
		{Role: agent.RoleAssistant, Blocks: []agent.Block{
			{Type: agent.BlockReasoning, Reasoning: "I should look.", Signature: "c2lnbmVk"},
			agent.Text("Looking."),
			call("call_a", "forecast", `{"city":"NYC","days":1}`),
			call("call_b", "forecast", `{"city":"LAX","days":2}`),
		}},
		{Role: agent.RoleTool, Blocks: []agent.Block{result("call_a", agent.ResultSuccess, `{"high":31, "low":22}`)}},
		{Role: agent.RoleTool, Blocks: []agent.Block{result("call_b", agent.ResultError, `"no such place"`)}},
		{Role: agent.RoleAssistant, Blocks: []agent.Block{
			{Type: agent.BlockInvalidToolCall, ID: "call_c", Name: "forecast", Args: json.RawMessage(`"{\"city\":"`), Error: "the arguments are not valid JSON"},
			call("call_d", "now", `{}`),
		}},
		agent.UserText("And now?"),
	}
}

func historyRequest() agent.ModelRequest {
	req := withTools()
	req.System = "You are brief."
	req.Messages = history()
	return req
}

// sent asks and returns the request as the provider received it.
func (c *C) sent(req agent.ModelRequest) ([]byte, sentRequest) {
	s := c.replies(TextReply("Hi", 9))
	o := generate(c.model(s), req)
	require.NoError(c, o.err)
	body, header, requests := s.request()
	require.Equal(c, 1, requests, "exactly one request per call")
	if key := c.h.Dialect.traits().Key; key != nil {
		require.Equal(c, testKey, key(header))
	}
	what, err := c.h.Dialect.read(body)
	require.NoError(c, err)
	return body, what
}

// golden holds a request body against the file that records it.
func (c *C) golden(name string, body []byte) {
	path := filepath.Join(c.h.Requests, name+".json")
	want, err := os.ReadFile(path)
	require.NoError(c, err, "the request was:\n%s", body)
	require.JSONEq(c, string(want), string(body))
}

func requestCases() []testCase {
	var cases []testCase
	for _, g := range []struct {
		name    string
		request func() agent.ModelRequest
	}{{"minimal", ask}, {"full", fullRequest}, {"history", historyRequest}} {
		cases = append(cases, testCase{"request/body " + g.name, func(c *C) {
			body, _ := c.sent(g.request())
			c.golden(g.name, body)
		}})
	}
	return append(cases, []testCase{
		{"request/temperature", func(c *C) {
			_, s := c.sent(ask())
			require.Nil(c, s.Temperature, "nil leaves it to the provider")
			for _, want := range []float64{0, 0.7} {
				req := ask()
				req.Temperature = &want
				_, s = c.sent(req)
				require.NotNil(c, s.Temperature)
				require.InDelta(c, want, *s.Temperature, 1e-9)
			}
		}},
		{"request/tools and choice", func(c *C) {
			for _, choice := range []string{"", "auto", "none", "required", "now"} {
				req := withTools()
				req.ToolChoice = choice
				_, s := c.sent(req)
				require.Equal(c, []string{"forecast", "now"}, s.Tools)
				require.Equal(c, choice, s.ToolChoice)
			}
		}},
		{"request/output schema", func(c *C) {
			_, s := c.sent(fullRequest())
			require.True(c, s.Schema, "the schema is asked for")
		}},
		{"request/every call has one result", func(c *C) {
			_, s := c.sent(historyRequest())
			require.Equal(c, []string{"call_a", "call_b", "call_c", "call_d"}, s.Results)
		}},
		{"request/reply goes back as it came", func(c *C) {
			events := append([]Event{{Reasoning: "Look first."}, {Signature: "c2lnbmVk"}}, callEvents(0, "call_a", "now", "{}")...)
			req := withTools()
			o := generate(c.model(c.replies(callsReply(events...))), req)
			require.NoError(c, o.err)
			req.Messages = append(req.Messages,
				agent.Message{Role: agent.RoleAssistant, Blocks: o.reply.Blocks},
				agent.Message{Role: agent.RoleTool, Blocks: []agent.Block{
					{Type: agent.BlockToolResult, ToolCallID: "call_a", Status: agent.ResultSuccess, Output: json.RawMessage(`"noon"`)},
				}})
			_, s := c.sent(req)
			require.Equal(c, []string{"call_a"}, s.Results)
			if c.h.Dialect.traits().SignsReasoning {
				require.Equal(c, "c2lnbmVk", s.Signature, "the thinking goes back with its signature")
			}
		}},
		{"request/orphaned result is left out", func(c *C) {
			req := ask()
			req.Messages = append(req.Messages, history()[2], agent.UserText("Go on."))
			_, s := c.sent(req)
			require.Empty(c, s.Results)
		}},
		{"request/schema that is none", func(c *C) {
			req := withTools()
			req.Tools[1].Parameters = json.RawMessage(`"text"`)
			s := c.replies(TextReply("Hi", 9))
			e := c.fails(generate(c.model(s), req), agent.CodeInvalid)
			require.Equal(c, "tools[1].parameters", e.Field)
			_, _, requests := s.request()
			require.Zero(c, requests)
		}},
	}...)
}
