package turns_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/turnstone-run/turnstone/agent"
	redaction "github.com/turnstone-run/turnstone/internal/redact"
	"github.com/turnstone-run/turnstone/internal/telemetry/logs"
	"github.com/turnstone-run/turnstone/internal/turns"
)

// observerNotes is an observer that records its calls as text.
type observerNotes struct {
	mu      sync.Mutex
	lines   []string
	ended   []agent.TurnEnded
	carried string
	input   []agent.Message
}

type workNameKey struct{}

func (n *observerNotes) addNote(format string, args ...any) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.lines = append(n.lines, fmt.Sprintf(format, args...))
}

func (n *observerNotes) take() []string {
	n.mu.Lock()
	defer n.mu.Unlock()
	out := n.lines
	n.lines = nil
	return out
}

func (n *observerNotes) Carry(context.Context) string { return n.carried }

func (n *observerNotes) Delegate(_ context.Context, t *agent.Observed, child agent.TurnID) string {
	return string(t.TurnID) + " asks " + string(child)
}

func (n *observerNotes) Work(ctx context.Context, w agent.Work) (context.Context, func(error)) {
	return context.WithValue(ctx, workNameKey{}, w.Name), func(err error) { n.addNote("%s %s: %v", w.Name, w.Turn.TurnID, err) }
}

func (n *observerNotes) Request(ctx context.Context, r agent.ModelObservation) (context.Context, func(agent.ModelOutcome)) {
	in := ctx.Value(workNameKey{})
	return ctx, func(o agent.ModelOutcome) {
		n.addNote("%v %s %s %d/%d: %d tokens, heard %t, first %t: %v %v", in, r.Purpose, r.Model.Model, r.Step, r.Epoch, o.Usage.OutputTokens,
			o.FirstDelta > 0, o.FirstOfTurn, o.Err, o.Cause)
	}
}

func (n *observerNotes) Tool(ctx context.Context, t agent.ToolObservation) (context.Context, func(agent.ToolOutcome)) {
	in := ctx.Value(workNameKey{})
	return ctx, func(o agent.ToolOutcome) {
		n.addNote("%v %s %s %d/%d child %t refused %t failed %t: %v", in, t.Name, t.Args, t.Step, t.Epoch, t.Child != "", o.Refused, o.Result.Failure != nil, o.Err)
	}
}

func (n *observerNotes) Decided(_ context.Context, t *agent.Observed, a *agent.Approval) {
	n.addNote("%s decided %s: %s", t.TurnID, a.CallID, a.Decision)
}

func (n *observerNotes) Ended(ctx context.Context, e agent.TurnEnded) {
	n.ended = append(n.ended, e)
	r, err := e.Record(ctx)
	n.input = r.Input
	n.addNote("%s ended %s %v", e.Turn.TurnID, e.Output.Status, err)
}

// TestObserver: each request and each attempt is reported once, even if it fails, and so is the end of the turn.
func TestObserver(t *testing.T) {
	n := &observerNotes{carried: "00-trace"}
	core, logged := observer.New(zap.InfoLevel)
	h := newHarness(t, func(c *turns.Config) { c.Observer, c.Logger = n, zap.New(core) })
	h.begin(agent.TurnRequest{TurnID: "t1", SessionID: "s1", Context: agent.InvocationContext{Tenant: "acme", UserID: "u"}})
	require.Equal(t, []string{"BeginTurn t1: <nil>"}, n.take())

	away := agent.Errorf(agent.CodeUnavailable, "", "away")
	h.model.script(
		func(_ context.Context, _ agent.ModelRequest, emit func(agent.Delta) error) (agent.ModelReply, error) {
			return agent.ModelReply{Usage: agent.Usage{OutputTokens: 3}}, errors.Join(emit(agent.Delta{Text: "half"}), away)
		},
		calls(toolCall("a", `{"n":1}`), agent.Block{Type: agent.BlockToolCall, ID: "b", Name: "unknown", Args: json.RawMessage(`{}`)}),
		says("done"))
	h.callModel("t1", 1)
	h.callModel("t1", 1) // stored already
	require.Equal(t, []string{
		"CallModel reply scripted-1 1/1: 3 tokens, heard true, first true: away <nil>",
		"CallModel reply scripted-1 1/2: 0 tokens, heard false, first false: <nil> <nil>",
		"CallModel t1: <nil>", "CallModel t1: <nil>",
	}, n.take())
	entry := logged.FilterMessage("model call").All()
	require.Len(t, entry, 1)
	require.Equal(t, map[string]any{
		"turn": "t1", "tenant": "acme", "session": "s1", "agent_instance_id": "analyst@1", "step": int64(1), "error": "away",
	}, entry[0].ContextMap(), "says whose it is")

	h.tool.effectFree = true
	h.tool.call = returns(agent.ToolResult{}, away)
	for range 3 {
		_, _ = h.CallTool(t.Context(), turns.CallToolInput{TurnID: "t1", Step: 1, CallID: "a"})
	}
	h.callTool(turns.CallToolInput{TurnID: "t1", Step: 1, CallID: "b"})
	require.Equal(t, []string{
		`CallTool lookup {"n":1} 1/1 child false refused false failed false: away`, "CallTool t1: away",
		`CallTool lookup {"n":1} 1/2 child false refused false failed false: away`, "CallTool t1: away",
		`CallTool lookup {"n":1} 1/3 child false refused false failed true: <nil>`, "CallTool t1: <nil>",
		`CallTool unknown {} 1/1 child false refused true failed true: <nil>`, "CallTool t1: <nil>",
	}, n.take())
	finished := logged.FilterMessage("tool call finished").All()
	require.Len(t, finished, 2, "one entry for each call, for any number of attempts")
	fields := finished[0].ContextMap()
	require.Equal(t, map[string]any{
		"turn": "t1", "tenant": "acme", "session": "s1", "agent_instance_id": "analyst@1", "step": int64(1), "tool": "lookup", "toolkit": "", "call": "a",
		"attempt": int64(3), "duration_ms": fields["duration_ms"], "status": "error", "input": `{"n":1}`, "output": fields["output"], "output_ref": "",
	}, fields)
	require.Contains(t, fields["output"], "away")
	require.Equal(t, "unknown", finished[1].ContextMap()["tool"])
	for _, e := range logged.All() {
		require.Equal(t, "analyst@1", e.ContextMap()["agent_instance_id"], e.Message)
	}
	h.callModel("t1", 2)
	require.Equal(t, "CallModel reply scripted-1 2/1: 10 tokens, heard true, first false: <nil> <nil>", n.take()[0])

	in := turns.StoreTurnInput{TurnID: "t1", Status: agent.TurnCompleted, Stop: agent.StopEndTurn}
	for range 2 {
		h.storeTurn(in)
	}
	require.Equal(t, []string{"t1 ended completed <nil>", "StoreTurn t1: <nil>", "StoreTurn t1: <nil>"}, n.take())
	require.Equal(t, []agent.Message{agent.UserText("hello")}, n.input)
	seen := n.ended[0].Turn
	require.False(t, seen.Since.IsZero())
	seen.Since = n.ended[0].Ended
	require.Equal(t, &agent.Observed{
		TurnID: "t1", Tenant: "acme", SessionID: "s1", UserID: "u", Agent: "analyst", InstanceID: "analyst@1", PlanHash: seen.PlanHash, WorkflowID: "turn/t1",
		Mode: agent.ModeDurable, Trace: "00-trace", Since: n.ended[0].Ended,
	}, seen)
}

// TestTraceOfAChild: a child turn belongs to the trace of the call that asked for it, also in another process.
func TestTraceOfAChild(t *testing.T) {
	n := &observerNotes{carried: "00-trace"}
	h := newDelegatingHarness(t, func(c *turns.Config) { c.Observer = n })
	h.beginDelegation(`{"agent_type":"langchain_agent","inputs":{"message":"count the stars"}}`)
	child := h.beginChild(turns.BeginChildInput{TurnID: "t1", Step: 1, CallID: "a"})
	n.carried = "00-other"
	_, err := h.Begin(t.Context(), agent.TurnRequest{TurnID: child.Child, Context: agent.InvocationContext{Tenant: "acme"}},
		turns.BeginTurnInput{WorkflowID: child.Child.WorkflowID(), RunID: "r"})
	require.NoError(t, err)
	h.model.script(says("nine"))
	other := h.process()
	_, err = other.CallModel(t.Context(), turns.CallModelInput{TurnID: child.Child, Step: 1})
	require.NoError(t, err)
	_, err = other.StoreTurn(t.Context(), turns.StoreTurnInput{TurnID: child.Child, Status: agent.TurnCompleted, Stop: agent.StopEndTurn})
	require.NoError(t, err)
	require.Len(t, n.ended, 1)
	require.Equal(t, "t1 asks "+string(child.Child), n.ended[0].Turn.Trace)
	require.Equal(t, agent.TurnID("t1"), n.ended[0].Turn.Parent)
	n.take()
	for range 2 {
		_, err := h.StoreChild(t.Context(), turns.StoreChildInput{TurnID: "t1", Step: 1, CallID: "a", Child: child.Child})
		require.NoError(t, err)
	}
	require.Equal(t, []string{
		`StoreChild delegate_to_agent {"agent_type":"langchain_agent","inputs":{"message":"count the stars"}} 1/1 child true refused false failed false: <nil>`,
		"StoreChild t1: <nil>", "StoreChild t1: <nil>",
	}, n.take())
}

// TestToolCallsAreLoggedRedacted: the log has the input and output of a call, shortened and without secrets.
func TestToolCallsAreLoggedRedacted(t *testing.T) {
	var out bytes.Buffer
	redactor := redaction.New(redaction.Rules{Secrets: []string{"marigold-" + "hunter2"}})
	logger, err := logs.New(logs.Config{Level: "info", Format: logs.FormatJSON, Output: zapcore.AddSync(&out), Redactor: redactor})
	require.NoError(t, err)
	h, in := beginWithCall(t, true, func(c *turns.Config) { c.Logger = logger })
	h.tool.call = returns(agent.ToolResult{Output: json.RawMessage(
		`{"note":"marigold-hunter2","password":"sesame","rows":"` + strings.Repeat("x", 20<<10) + `"}`)}, nil)
	h.callTool(in)
	line := lineWith(t, out.String(), "tool call finished")
	require.Contains(t, line, `"agent_instance_id":"analyst@1"`)
	require.Contains(t, line, `"input":"{\"q\":1}"`)
	require.Contains(t, line, "[cut: ")
	require.NotContains(t, line, "hunter2")
	require.NotContains(t, line, "sesame")
	require.Less(t, len(line), 20<<10)
}

func lineWith(t *testing.T, text, part string) string {
	t.Helper()
	for line := range strings.SplitSeq(text, "\n") {
		if strings.Contains(line, part) {
			return line
		}
	}
	require.Fail(t, "no line", "with %q in %s", part, text)
	return ""
}
