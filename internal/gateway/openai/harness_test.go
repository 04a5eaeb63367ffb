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

// door is a gateway with the OpenAI-compatible door over a scripted runtime.
type door struct {
	*gateway.Gateway

	rt      *gatewaytest.Runtime
	catalog *gatewaytest.Catalog
	busy    *atomic.Int64 // requests that are being handled
	url     string
	t       *testing.T
}

// counted is a door that counts the requests that it handles.
type counted struct {
	*openai.Door

	busy atomic.Int64
}

func (c *counted) Routes() []gateway.Route {
	routes := c.Door.Routes()
	for i := range routes {
		handle := routes[i].Handle
		routes[i].Handle = func(w http.ResponseWriter, r *http.Request, v *gateway.Call) error {
			c.busy.Add(1)
			defer c.busy.Add(-1)
			return handle(w, r, v)
		}
	}
	return routes
}

func open(t *testing.T, change func(*gateway.Config)) *door {
	t.Helper()
	return openWith(t, gatewaytest.New(), &gatewaytest.Catalog{}, change)
}

func openWith(t *testing.T, rt *gatewaytest.Runtime, catalog *gatewaytest.Catalog, change func(*gateway.Config)) *door {
	t.Helper()
	served := &counted{Door: openai.New()}
	cfg := gateway.Config{Ports: gatewaytest.Ports(rt, catalog), Version: "test", Doors: []gateway.Door{served}}
	if change != nil {
		change(&cfg)
	}
	g := gatewaytest.Serve(t, cfg)
	return &door{Gateway: g, rt: rt, catalog: catalog, busy: &served.busy, url: "http://" + g.HTTPAddr(), t: t}
}

// script makes every turn emit events.
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
	status, answered, data := gatewaytest.Send(d.t, method, d.url+path, body, header...)
	return answer{status, answered, string(data)}
}

func (d *door) open(ctx context.Context, method, path, body string, header ...string) *http.Response {
	d.t.Helper()
	return gatewaytest.Open(ctx, d.t, method, d.url+path, body, header...)
}

// ask sends a request for an answer.
func (d *door) ask(more string, header ...string) answer {
	d.t.Helper()
	return d.send("POST", "/v1/chat/completions", `{"model":"analyst","messages":[{"role":"user","content":"hello"}]`+more+`}`, header...)
}

type problem struct {
	Message string           `json:"message"`
	Type    string           `json:"type"`
	Param   *string          `json:"param"`
	Code    string           `json:"code"`
	TurnID  string           `json:"turn_id"`
	Pending []agent.Approval `json:"pending"`
}

// problem is the error of an answer, whose members are all there.
func (a answer) problem(t *testing.T) problem {
	t.Helper()
	require.Equal(t, "application/json", a.header.Get("Content-Type"), "%s", a.body)
	return newProblem(t, a.body)
}

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

// heard is a streamed answer put together.
type heard struct {
	content, reasoning, finish string
	usage                      json.RawMessage
	deltas                     int
	err                        *problem
	done                       bool
}

func listen(t *testing.T, body string) heard {
	t.Helper()
	var h heard
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
			if choice.Delta.Content != "" {
				h.deltas++
			}
			h.content += choice.Delta.Content
			h.reasoning += choice.Delta.Reasoning
			h.finish += choice.Finish
		}
	}
	require.True(t, h.done, "the stream has no end: %s", body)
	return h
}

var createdPattern = regexp.MustCompile(`"created":\d{10}`)

// timeless is a body without what depends on the clock.
func timeless(t *testing.T, body string) string {
	t.Helper()
	require.Regexp(t, createdPattern, body)
	return createdPattern.ReplaceAllString(body, `"created":1`)
}

// Events that scripts are made of.

func running() agent.Event { return gatewaytest.Status(agent.StatusRunning) }

func says(producer, text string) agent.Event {
	return agent.Event{Meta: agent.EventMeta{Producer: producer}, Type: agent.EventToken, Text: text}
}

func thinks(producer, text string) agent.Event {
	return agent.Event{
		Meta: agent.EventMeta{Producer: producer}, Type: agent.EventContent,
		ContentBlocks: []agent.Block{{Type: agent.BlockReasoning, Reasoning: text}},
	}
}

func reset(producer string, from int64) agent.Event {
	return agent.Event{Type: agent.EventReset, Producer: producer, FromIndex: from}
}

func calls(id, tool, args string) []agent.Event {
	meta := agent.EventMeta{Producer: "tool/1/" + id}
	return []agent.Event{
		{Meta: meta, Type: agent.EventToolStart, ToolCallID: agent.CallID(id), ToolName: tool, Input: json.RawMessage(args)},
		{Meta: meta, Type: agent.EventToolEnd, ToolCallID: agent.CallID(id), ToolName: tool, Output: json.RawMessage(`"done"`)},
	}
}

// ends is the terminal event with a result; change may alter it.
func ends(text string, change func(*agent.AgentStepOutput)) agent.Event {
	o := &agent.AgentStepOutput{
		Agent: "analyst", Status: agent.TurnCompleted, StopReason: agent.StopEndTurn, Output: text, Blocks: []agent.Block{agent.Text(text)},
		Usage: agent.Usage{InputTokens: 10, OutputTokens: 5, CachedTokens: 4, ReasoningTokens: 2},
	}
	if change != nil {
		change(o)
	}
	return agent.Event{Type: agent.EventStatus, Status: agent.TerminalStatus(o.Status), Result: o}
}

// callsClient are the events of a turn that waits for the result of a client's tool.
func callsClient(id, tool, args string) []agent.Event {
	return []agent.Event{
		{Type: agent.EventInputRequested, Approval: &agent.Approval{
			Kind: agent.WaitClientTool, ApprovalID: id, CallID: "c-" + agent.CallID(id), ToolName: tool, Args: json.RawMessage(args),
		}},
		gatewaytest.Status(agent.StatusWaiting),
	}
}

// provided is the event that a result has come.
func provided(id string) agent.Event {
	return agent.Event{Type: agent.EventInputResolved, Approval: &agent.Approval{Kind: agent.WaitClientTool, ApprovalID: id}}
}

func asks(id, tool string) []agent.Event {
	return []agent.Event{
		{Type: agent.EventApprovalRequested, Approval: &agent.Approval{ApprovalID: id, CallID: "c1", ToolName: tool}},
		gatewaytest.Status(agent.StatusWaiting),
	}
}
