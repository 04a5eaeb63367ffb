package traces_test

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/telemetry/traces"
	"github.com/turnstone-run/turnstone/internal/telemetry/traces/tracetest"
)

var start = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func open(t testing.TB, cfg traces.Config) *traces.Tracing {
	t.Helper()
	if cfg.SampleRatio == 0 {
		cfg.SampleRatio = 1
	}
	tr, err := traces.Open(t.Context(), cfg)
	require.NoError(t, err)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		_ = tr.Shutdown(ctx)
	})
	return tr
}

func flush(t testing.TB, tr *traces.Tracing) {
	t.Helper()
	require.NoError(t, tr.Flush(t.Context()))
}

func observed(id agent.TurnID) *agent.Observed {
	return &agent.Observed{
		TurnID: id, Tenant: "acme", SessionID: "chat-1", UserID: "u-17", Agent: "analyst", InstanceID: "acme/analyst@3",
		PlanHash: "sha256:0102abcdef0123456789", WorkflowID: id.WorkflowID(), Channel: "http", Mode: agent.ModeDurable, Since: start,
	}
}

// turnTexts are the texts of a turn. Tests look for them in exported spans.
type turnTexts struct{ system, question, thought, args, result, failure, answer, refused string }

func plainTexts() turnTexts {
	return turnTexts{"be brief", "how many orders", "let me count", `{"table":"orders"}`, `{"rows":7}`, "disk full", "seven", "no mail today"}
}

var temperature = 0.25

func model() agent.PlanModel {
	return agent.PlanModel{
		Profile: "fast", Provider: "openai", Model: "gpt-x", BaseURL: "https://user@llm.example.com/v1?key=hidden", Temperature: &temperature, MaxTokens: 500,
	}
}

// requestModel makes a request whose reply has these calls.
func requestModel(ctx context.Context, tr agent.Observer, o *agent.Observed, step int, w turnTexts, calls ...agent.CallID) {
	ctx, done := tr.Request(ctx, agent.ModelObservation{
		Turn: o, Model: model(), Step: step, Epoch: agent.Epoch(step), Purpose: agent.PurposeReply,
		Request: &agent.ModelRequest{Model: "gpt-x", System: w.system, Messages: []agent.Message{agent.UserText(w.question)}},
	})
	_ = ctx
	reply := agent.ModelReply{Model: "gpt-x-0301", FinishReason: "stop", Blocks: []agent.Block{{Type: agent.BlockReasoning, Reasoning: w.thought}}}
	for _, c := range calls {
		reply.FinishReason = "tool_calls"
		reply.Blocks = append(reply.Blocks, agent.Block{Type: agent.BlockToolCall, ID: string(c), Name: "count", Args: json.RawMessage(w.args)})
	}
	if len(calls) == 0 {
		reply.Blocks = append(reply.Blocks, agent.Text(w.answer))
	}
	done(agent.ModelOutcome{
		Reply: &reply, FirstDelta: 40 * time.Millisecond, FirstOfTurn: step == 1,
		Usage: agent.Usage{InputTokens: 100, OutputTokens: 20, CachedTokens: 60, ReasoningTokens: 5, CostUSD: 0.00125},
	})
}

// callTool runs a tool in an activity. It fails once with each error and then succeeds.
func callTool(tr agent.Observer, o *agent.Observed, id agent.CallID, w turnTexts, errs ...error) {
	for attempt := range len(errs) + 1 {
		ctx, end := tr.Work(context.Background(), agent.Work{Name: "CallTool", Turn: o, Step: 1, Attempt: attempt + 1})
		_, done := tr.Tool(ctx, agent.ToolObservation{
			Turn: o, Step: 1, CallID: id, Name: "count", Description: "Counts rows", Toolkit: "sql", Args: []byte(w.args), Epoch: agent.Epoch(attempt + 1),
		})
		if attempt < len(errs) {
			done(agent.ToolOutcome{Err: errs[attempt]})
			end(errs[attempt])
			continue
		}
		done(agent.ToolOutcome{Result: &agent.ToolResult{Output: json.RawMessage(w.result)}})
		end(nil)
	}
}

// finishTurn ends a turn.
func finishTurn(tr agent.Observer, o *agent.Observed, w turnTexts) {
	ctx, end := tr.Work(context.Background(), agent.Work{Name: "StoreTurn", Turn: o, Attempt: 1})
	tr.Ended(ctx, agent.TurnEnded{
		Turn: o, Ended: start.Add(3 * time.Second),
		Output: &agent.AgentStepOutput{
			TurnID: o.TurnID, Status: agent.TurnCompleted, StopReason: agent.StopEndTurn, Model: "gpt-x", Output: w.answer,
			Blocks: []agent.Block{agent.Text(w.answer)}, Usage: agent.Usage{InputTokens: 200, OutputTokens: 40, CostUSD: 0.0025},
			ToolCalls: []agent.ToolCallNote{{ID: "a"}, {ID: "b"}},
		},
		Record: func(context.Context) (agent.TurnRecord, error) {
			return agent.TurnRecord{
				Input: []agent.Message{agent.UserText(w.question)},
				Binding: agent.Binding{
					Route: &agent.RouteDecision{Agent: "analyst", Reason: agent.RouteRuled, Table: "acme/main", Rule: "numbers", Mismatch: true},
				},
			}, nil
		},
	})
	end(nil)
}

// playTurn observes a turn: a model call, two tool calls of which one is retried, an approval, a turn of another agent, and the answer. tr returns the
// observer for each part, because several processes may work on a turn.
func playTurn(o *agent.Observed, w turnTexts, tr func() agent.Observer) (child *agent.Observed) {
	ctx, end := tr().Work(context.Background(), agent.Work{Name: "CallModel", Turn: o, Step: 1, Attempt: 1})
	requestModel(ctx, tr(), o, 1, w, "a", "b")
	end(nil)
	callTool(tr(), o, "a", w)
	callTool(tr(), o, "b", w, agent.Errorf(agent.CodeUnavailable, "call tool", "%s", w.failure))

	decided := start.Add(2 * time.Second)
	tr().Decided(context.Background(), o, &agent.Approval{
		ApprovalID: "ap-1", CallID: "a", Step: 1, ToolName: "mail", Decision: agent.DecisionReject, By: "boss", Rule: "mails", Args: json.RawMessage(w.args),
		Message: w.refused, CreatedAt: &start, DecidedAt: &decided,
	})

	child = observed(o.TurnID + "-child")
	child.SessionID, child.Agent, child.Parent, child.Channel = agent.SessionID(child.TurnID), "helper", o.TurnID, "agent"
	child.Trace = tr().Delegate(context.Background(), o, child.TurnID)
	ctx, end = tr().Work(context.Background(), agent.Work{Name: "CallModel", Turn: child, Step: 1, Attempt: 1})
	requestModel(ctx, tr(), child, 1, w)
	end(nil)
	finishTurn(tr(), child, w)
	ctx, end = tr().Work(context.Background(), agent.Work{Name: "StoreChild", Turn: o, Step: 1, Attempt: 1})
	_, done := tr().Tool(ctx, agent.ToolObservation{
		Turn: o, Step: 1, CallID: "c", Name: "delegate_to_agent", Args: []byte(w.args), Epoch: 1, Child: child.TurnID, Started: start.Add(time.Second),
	})
	done(agent.ToolOutcome{Result: &agent.ToolResult{Failure: &agent.Failure{Type: "internal", Message: w.failure}}})
	end(nil)

	ctx, end = tr().Work(context.Background(), agent.Work{Name: "CallModel", Turn: o, Step: 2, Attempt: 1})
	requestModel(ctx, tr(), o, 2, w)
	end(nil)
	finishTurn(tr(), o, w)
	return child
}

// always returns a function that returns tr.
func always(tr *traces.Tracing) func() agent.Observer { return func() agent.Observer { return tr } }

// find returns the only span with a name that ok accepts.
func find(t testing.TB, spans []tracetest.Span, name string, ok func(*tracetest.Span) bool) tracetest.Span {
	t.Helper()
	var found []tracetest.Span
	for i := range spans {
		if spans[i].Name == name && (ok == nil || ok(&spans[i])) {
			found = append(found, spans[i])
		}
	}
	require.Len(t, found, 1, "%s in\n%s", name, tracetest.Tree(spans))
	return found[0]
}
