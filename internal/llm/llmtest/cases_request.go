package llmtest

import (
	"encoding/json"
	"os"
	"path/filepath"

	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/agent"
)

// simpleRequest has nothing but a message.
func simpleRequest() agent.ModelRequest {
	return agent.ModelRequest{Model: ModelName, Messages: []agent.Message{agent.UserText("Hello")}}
}

// toolRequest is a simple request with tools.
func toolRequest() agent.ModelRequest {
	req := simpleRequest()
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
	req := toolRequest()
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

// history is a conversation with an image, reasoning, parallel calls of which one failed, a call with invalid arguments, and a call without a result.
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
			callBlock("call_a", "forecast", `{"city":"NYC","days":1}`),
			callBlock("call_b", "forecast", `{"city":"LAX","days":2}`),
		}},
		{Role: agent.RoleTool, Blocks: []agent.Block{result("call_a", agent.ResultSuccess, `{"high":31, "low":22}`)}},
		{Role: agent.RoleTool, Blocks: []agent.Block{result("call_b", agent.ResultError, `"no such place"`)}},
		{Role: agent.RoleAssistant, Blocks: []agent.Block{
			{Type: agent.BlockInvalidToolCall, ID: "call_c", Name: "forecast", Args: json.RawMessage(`"{\"city\":"`), Error: "the arguments are not valid JSON"},
			callBlock("call_d", "now", `{}`),
		}},
		agent.UserText("And now?"),
	}
}

func historyRequest() agent.ModelRequest {
	req := toolRequest()
	req.System = "You are brief."
	req.Messages = history()
	return req
}

// send sends a request and returns its body and what the suite checks of it.
func (c *caseRun) send(req agent.ModelRequest) ([]byte, parsedRequest) {
	s := c.serveReply(TextReply("Hi", 9))
	o := generate(c.openModel(s), req)
	require.NoError(c, o.err)
	body, header, requests := s.lastRequest()
	require.Equal(c, 1, requests, "a call is one request")
	if apiKey := c.h.Dialect.traits().APIKey; apiKey != nil {
		require.Equal(c, testKey, apiKey(header))
	}
	parsed, err := parseRequest(c.h.Dialect, body)
	require.NoError(c, err)
	return body, parsed
}

func requestCases() []testCase {
	var cases []testCase
	for name, request := range map[string]func() agent.ModelRequest{"minimal": simpleRequest, "full": fullRequest, "history": historyRequest} {
		cases = append(cases, testCase{"request/body " + name, func(c *caseRun) {
			body, _ := c.send(request())
			want, err := os.ReadFile(filepath.Join(c.h.Requests, name+".json"))
			require.NoError(c, err, "the request was:\n%s", body)
			require.JSONEq(c, string(want), string(body))
		}})
	}
	return append(cases, []testCase{
		{"request/temperature", func(c *caseRun) {
			_, sent := c.send(simpleRequest())
			require.Nil(c, sent.Temperature, "nil leaves it to the provider")
			for _, want := range []float64{0, 0.7} {
				req := simpleRequest()
				req.Temperature = &want
				_, sent = c.send(req)
				require.NotNil(c, sent.Temperature)
				require.InDelta(c, want, *sent.Temperature, 1e-9)
			}
		}},
		{"request/tools and choice", func(c *caseRun) {
			for _, choice := range []string{"", "auto", "none", "required", "now"} {
				req := toolRequest()
				req.ToolChoice = choice
				_, sent := c.send(req)
				require.Equal(c, []string{"forecast", "now"}, sent.Tools)
				require.Equal(c, choice, sent.ToolChoice)
			}
		}},
		{"request/output schema", func(c *caseRun) {
			_, sent := c.send(fullRequest())
			require.True(c, sent.HasSchema, "the schema is asked for")
		}},
		{"request/every call has one result", func(c *caseRun) {
			_, sent := c.send(historyRequest())
			require.Equal(c, []string{"call_a", "call_b", "call_c", "call_d"}, sent.Results)
		}},
		{"request/reply goes back as it came", func(c *caseRun) {
			events := append([]Event{{Reasoning: "Look first."}, {Signature: "c2lnbmVk"}}, callEvents(0, "call_a", "now", "{}")...)
			req := toolRequest()
			o := c.generateReply(callsReply(events...), req)
			req.Messages = append(req.Messages,
				agent.Message{Role: agent.RoleAssistant, Blocks: o.reply.Blocks},
				agent.Message{Role: agent.RoleTool, Blocks: []agent.Block{
					{Type: agent.BlockToolResult, ToolCallID: "call_a", Status: agent.ResultSuccess, Output: json.RawMessage(`"noon"`)},
				}})
			_, sent := c.send(req)
			require.Equal(c, []string{"call_a"}, sent.Results)
			if c.h.Dialect.traits().SignsReasoning {
				require.Equal(c, "c2lnbmVk", sent.Signature, "reasoning goes back with its signature")
			}
		}},
		{"request/result without its call is left out", func(c *caseRun) {
			req := simpleRequest()
			req.Messages = append(req.Messages, history()[2], agent.UserText("Go on."))
			_, sent := c.send(req)
			require.Empty(c, sent.Results)
		}},
		{"request/invalid schema", func(c *caseRun) {
			req := toolRequest()
			req.Tools[1].Parameters = json.RawMessage(`"text"`)
			s := c.serveReply(TextReply("Hi", 9))
			e := c.requireError(generate(c.openModel(s), req), agent.CodeInvalid)
			require.Equal(c, "tools[1].parameters", e.Field)
			_, _, requests := s.lastRequest()
			require.Zero(c, requests)
		}},
	}...)
}
