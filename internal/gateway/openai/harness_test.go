package openai_test

import (
	"context"
	"encoding/json"
	"net/http"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/gateway"
	"github.com/turnstone-run/turnstone/internal/gateway/gatewaytest"
	"github.com/turnstone-run/turnstone/internal/gateway/openai"
)

// door is a gateway with the OpenAI-compatible door and a scripted runtime.
type door struct {
	*gateway.Gateway

	rt         *gatewaytest.Runtime
	catalog    *gatewaytest.Catalog
	inProgress *atomic.Int64 // requests
	url        string
	t          *testing.T
}

// countingDoor counts the requests in progress.
type countingDoor struct {
	*openai.Door

	inProgress atomic.Int64
}

func (c *countingDoor) Routes() []gateway.Route {
	routes := c.Door.Routes()
	for i := range routes {
		handle := routes[i].Handle
		routes[i].Handle = func(w http.ResponseWriter, r *http.Request, v *gateway.Call) error {
			c.inProgress.Add(1)
			defer c.inProgress.Add(-1)
			return handle(w, r, v)
		}
	}
	return routes
}

// open starts a gateway with the door. change may change its configuration.
func open(t *testing.T, change func(*gateway.Config)) *door {
	t.Helper()
	return openOver(t, gatewaytest.New(), &gatewaytest.Catalog{}, change)
}

// openOver is open with a runtime and a catalog that several doors may share.
func openOver(t *testing.T, rt *gatewaytest.Runtime, catalog *gatewaytest.Catalog, change func(*gateway.Config)) *door {
	t.Helper()
	served := &countingDoor{Door: openai.New()}
	cfg := gateway.Config{Ports: gatewaytest.Ports(rt, catalog), Version: "test", Doors: []gateway.Door{served}}
	if change != nil {
		change(&cfg)
	}
	g := gatewaytest.Serve(t, cfg)
	return &door{Gateway: g, rt: rt, catalog: catalog, inProgress: &served.inProgress, url: "http://" + g.HTTPAddr(), t: t}
}

// script sets the events of every turn.
func (d *door) script(events ...agent.Event) {
	d.rt.Script = func(rt *gatewaytest.Runtime, id agent.TurnID, _ agent.TurnRequest) {
		rt.Emit(id, events...)
	}
}

type answer struct {
	status int
	header http.Header
	body   string
}

func (d *door) send(method, path, body string, header ...string) answer {
	d.t.Helper()
	status, responseHeader, data := gatewaytest.Send(d.t, method, d.url+path, body, header...)
	return answer{status, responseHeader, string(data)}
}

func (d *door) open(ctx context.Context, method, path, body string, header ...string) *http.Response {
	d.t.Helper()
	return gatewaytest.Open(ctx, d.t, method, d.url+path, body, header...)
}

// complete sends a request with additional members, such as `,"stream":true`.
func (d *door) complete(members string, header ...string) answer {
	d.t.Helper()
	return d.send("POST", "/v1/chat/completions", `{"model":"analyst","messages":[{"role":"user","content":"hello"}]`+members+`}`, header...)
}

type problem struct {
	Message string           `json:"message"`
	Type    string           `json:"type"`
	Param   *string          `json:"param"`
	Code    string           `json:"code"`
	TurnID  string           `json:"turn_id"`
	Pending []agent.Approval `json:"pending"`
}

// problem returns the error in an answer, which must have all members.
func (a answer) problem(t *testing.T) problem {
	t.Helper()
	require.Equal(t, "application/json", a.header.Get("Content-Type"), "%s", a.body)
	return newProblem(t, a.body)
}

// newProblem parses the body of an error.
func newProblem(t *testing.T, body string) problem {
	t.Helper()
	var b struct {
		Error *problem `json:"error"`
	}
	require.NoError(t, json.Unmarshal([]byte(body), &b), "%s", body)
	require.NotNil(t, b.Error, "%s", body)
	var raw struct {
		Error map[string]json.RawMessage `json:"error"`
	}
	require.NoError(t, json.Unmarshal([]byte(body), &raw))
	for _, name := range []string{"message", "type", "param", "code"} {
		require.Contains(t, raw.Error, name)
	}
	return *b.Error
}

// streamedAnswer is the sum of the chunks of a streamed answer.
type streamedAnswer struct {
	content, reasoning, finish string
	usage                      json.RawMessage
	err                        *problem
	done                       bool
}

// readStream parses the events of a streamed answer, which must have an end.
func readStream(t *testing.T, body string) streamedAnswer {
	t.Helper()
	var h streamedAnswer
	for event := range strings.SplitSeq(strings.TrimSuffix(body, "\n\n"), "\n\n") {
		data, ok := strings.CutPrefix(event, "data: ")
		if !ok {
			require.Equal(t, ":", event, "neither data nor a comment")
			continue
		}
		require.False(t, h.done, "nothing follows the end")
		if data == "[DONE]" {
			h.done = true
			continue
		}
		if strings.HasPrefix(data, `{"error"`) {
			p := newProblem(t, data)
			h.err, h.done = &p, true
			continue
		}
		var c struct {
			Choices []struct {
				Delta struct {
					Content   string `json:"content"`
					Reasoning string `json:"reasoning_content"`
				} `json:"delta"`
				Finish string `json:"finish_reason"`
			} `json:"choices"`
			Usage json.RawMessage `json:"usage"`
		}
		require.NoError(t, json.Unmarshal([]byte(data), &c), "%s", data)
		h.usage = c.Usage
		for _, choice := range c.Choices {
			h.content += choice.Delta.Content
			h.reasoning += choice.Delta.Reasoning
			h.finish += choice.Finish
		}
	}
	require.True(t, h.done, "the stream has no end: %s", body)
	return h
}

var createdPattern = regexp.MustCompile(`"created":\d{10}`)

// withoutTimes returns a body with fixed times.
func withoutTimes(t *testing.T, body string) string {
	t.Helper()
	require.Regexp(t, createdPattern, body)
	return createdPattern.ReplaceAllString(body, `"created":1`)
}

func running() agent.Event { return gatewaytest.Status(agent.StatusRunning) }

func token(producer, text string) agent.Event {
	return agent.Event{Meta: agent.EventMeta{Producer: producer}, Type: agent.EventToken, Text: text}
}

func reasoning(producer, text string) agent.Event {
	return agent.Event{
		Meta: agent.EventMeta{Producer: producer}, Type: agent.EventContent,
		ContentBlocks: []agent.Block{{Type: agent.BlockReasoning, Reasoning: text}},
	}
}

func reset(producer string, from int64) agent.Event {
	return agent.Event{Type: agent.EventReset, Producer: producer, FromIndex: from}
}

// toolCall returns the events of a tool call of the agent.
func toolCall(id, tool, args string) []agent.Event {
	meta := agent.EventMeta{Producer: "tool/1/" + id}
	return []agent.Event{
		{Meta: meta, Type: agent.EventToolStart, ToolCallID: agent.CallID(id), ToolName: tool, Input: json.RawMessage(args)},
		{Meta: meta, Type: agent.EventToolEnd, ToolCallID: agent.CallID(id), ToolName: tool, Output: json.RawMessage(`"done"`)},
	}
}

// terminal returns the terminal event with a result, which change may change.
func terminal(text string, change func(*agent.AgentStepOutput)) agent.Event {
	o := &agent.AgentStepOutput{
		Agent: "analyst", Status: agent.TurnCompleted, StopReason: agent.StopEndTurn, Output: text, Blocks: []agent.Block{agent.Text(text)},
		Usage: agent.Usage{InputTokens: 10, OutputTokens: 5, CachedTokens: 4, ReasoningTokens: 2},
	}
	if change != nil {
		change(o)
	}
	return agent.Event{Type: agent.EventStatus, Status: agent.TerminalStatus(o.Status), Result: o}
}

// clientToolCall returns the events of a turn that waits for the result of a client's tool.
func clientToolCall(id, tool, args string) []agent.Event {
	return []agent.Event{
		{Type: agent.EventInputRequested, Approval: &agent.Approval{
			Kind: agent.WaitClientTool, ApprovalID: id, CallID: "c-" + agent.CallID(id), ToolName: tool, Args: json.RawMessage(args),
		}},
		gatewaytest.Status(agent.StatusWaiting),
	}
}

// inputResolved returns the event for the result of a client's tool.
func inputResolved(id string) agent.Event {
	return agent.Event{Type: agent.EventInputResolved, Approval: &agent.Approval{Kind: agent.WaitClientTool, ApprovalID: id}}
}

// approvalRequest returns the events of a turn that waits for an approval.
func approvalRequest(id, tool string) []agent.Event {
	return []agent.Event{
		{Type: agent.EventApprovalRequested, Approval: &agent.Approval{ApprovalID: id, CallID: "c1", ToolName: tool}},
		gatewaytest.Status(agent.StatusWaiting),
	}
}
