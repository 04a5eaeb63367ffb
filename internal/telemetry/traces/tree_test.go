package traces_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/trace"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/telemetry/traces"
	"github.com/turnstone-run/turnstone/internal/telemetry/traces/tracetest"
)

const (
	callersTrace = "4bf92f3577b34da6a3ce929d0e0e4736"
	callersSpan  = "00f067aa0ba902b7"
	caller       = "00-" + callersTrace + "-" + callersSpan + "-01"
)

// edges returns how many spans there are for each pair of a parent and a name.
func edges(spans []tracetest.Span) map[string]int {
	names := map[string]string{}
	for i := range spans {
		names[spans[i].ID] = spans[i].Name
	}
	all := map[string]int{}
	for i := range spans {
		all[names[spans[i].Parent]+" > "+spans[i].Name]++
	}
	return all
}

func wantEdges() map[string]int {
	return map[string]int{
		" > invoke_agent analyst":                               1,
		"invoke_agent analyst > CallModel":                      2,
		"CallModel > chat gpt-x":                                3,
		"invoke_agent analyst > CallTool":                       3,
		"CallTool > execute_tool count":                         3,
		"invoke_agent analyst > await_approval mail":            1,
		"invoke_agent analyst > execute_tool delegate_to_agent": 1,
		"execute_tool delegate_to_agent > invoke_agent helper":  1,
		"invoke_agent helper > CallModel":                       1,
		"invoke_agent helper > StoreTurn":                       1,
		"invoke_agent analyst > StoreChild":                     1,
		"invoke_agent analyst > StoreTurn":                      1,
	}
}

func TestTurnIsOneTree(t *testing.T) {
	for _, protocol := range []string{traces.ProtocolHTTP, traces.ProtocolGRPC} {
		t.Run(protocol, func(t *testing.T) {
			r := tracetest.Receive(t)
			cfg := traces.Config{Endpoint: r.HTTP, Protocol: protocol, Headers: "x-key=a%20b,x-other=c", Version: "1.2.3", Environment: "test"}
			if protocol == traces.ProtocolGRPC {
				cfg.Endpoint = r.GRPC
			}
			tr := open(t, cfg)
			o := observed("t-1")
			playTurn(o, plainTexts(), always(tr))
			flush(t, tr)
			spans := r.Spans()
			require.Equal(t, wantEdges(), edges(spans), "%s", tracetest.Tree(spans))
			requireUniqueIDs(t, spans)

			turn := find(t, spans, "invoke_agent analyst", nil)
			require.Equal(t, start, turn.Start)
			require.Equal(t, start.Add(3*time.Second), turn.End)
			require.Empty(t, turn.Parent)
			require.Equal(t, "turn/t-1", turn.Attributes["temporal.workflow.id"])
			require.Equal(t, "durable", turn.Attributes["turnstone.mode"])
			require.Equal(t, "completed", turn.Attributes["turnstone.status"])
			require.Equal(t, "SPAN_KIND_INTERNAL", turn.Kind.String())
			require.Equal(t, "turnstone", turn.Resource["service.name"])
			require.Equal(t, "1.2.3", turn.Resource["service.version"])
			require.Equal(t, "test", turn.Resource["deployment.environment.name"])

			wait := find(t, spans, "await_approval mail", nil)
			require.Equal(t, 2*time.Second, wait.End.Sub(wait.Start))
			require.Equal(t, "reject", wait.Attributes["turnstone.approval.decision"])
			again := find(t, spans, "execute_tool count", func(s *tracetest.Span) bool { return s.Error })
			require.Equal(t, "unavailable", again.Attributes["error.type"])
			require.Equal(t, int64(2), find(t, spans, "CallTool", func(s *tracetest.Span) bool {
				return s.Attributes["temporal.activity.attempt"] == int64(2)
			}).Attributes["temporal.activity.attempt"])
			for i := range spans {
				require.Equal(t, "acme/analyst@3", spans[i].Attributes["turnstone.agent_instance_id"], spans[i].Name)
				require.Equal(t, "u-17", spans[i].Attributes["user.id"], spans[i].Name)
			}
			if protocol == traces.ProtocolGRPC {
				require.Equal(t, []string{"a b"}, r.Metadata()[0].Get("x-key"))
				return
			}
			q := r.Requests()[0]
			require.Equal(t, "/v1/traces", q.Path)
			require.Equal(t, "gzip", q.Header.Get("Content-Encoding"))
			require.Equal(t, "a b", q.Header.Get("X-Key"))
			require.Equal(t, "c", q.Header.Get("X-Other"))
		})
	}
}

func requireUniqueIDs(t *testing.T, spans []tracetest.Span) {
	t.Helper()
	ids := map[string]string{}
	for i := range spans {
		require.Empty(t, ids[spans[i].ID], "%s has the id of %s", spans[i].Name, ids[spans[i].ID])
		ids[spans[i].ID] = spans[i].Name
	}
}

// Three processes work on a turn and use the same ids.
func TestProcessesUseTheSameIDs(t *testing.T) {
	r := tracetest.Receive(t)
	workers := []*traces.Tracing{open(t, traces.Config{Endpoint: r.HTTP}), open(t, traces.Config{Endpoint: r.HTTP}), open(t, traces.Config{Endpoint: r.HTTP})}
	n := 0
	playTurn(observed("t-2"), plainTexts(), func() agent.Observer { n++; return workers[n%3] })
	finishTurn(workers[0], observed("t-2"), plainTexts()) // an end that is stored again is the same span
	for _, w := range workers {
		flush(t, w)
	}
	spans := r.Spans()
	turns := tracetest.Named(spans, "invoke_agent analyst")
	require.Len(t, turns, 2)
	require.Equal(t, turns[0].ID, turns[1].ID)
	for i := range spans {
		require.Equal(t, turns[0].Trace, spans[i].Trace)
	}
	want := wantEdges()
	want[" > invoke_agent analyst"]++
	want["invoke_agent analyst > StoreTurn"]++
	require.Equal(t, want, edges(spans), "%s", tracetest.Tree(spans))
}

func TestRepeatedRequestsHaveDifferentIDs(t *testing.T) {
	r := tracetest.Receive(t)
	tr := open(t, traces.Config{Endpoint: r.HTTP})
	o := observed("t-3")
	for range 2 { // an activity and its retry in another process
		ctx, end := tr.Work(context.Background(), agent.Work{Name: "CallModel", Turn: o, Step: 1})
		for range 3 { // the requests of a middleware have the same key
			_, done := tr.Request(ctx, agent.ModelObservation{Turn: o, Model: model(), Step: 1, Epoch: -1, Purpose: agent.PurposeMiddleware})
			done(agent.ModelOutcome{Err: errors.New("x")})
		}
		end(nil)
	}
	flush(t, tr)
	ids := map[string]int{}
	for _, s := range tracetest.Named(r.Spans(), "chat gpt-x") {
		ids[s.ID]++
		require.Equal(t, "internal", s.Attributes["error.type"])
	}
	require.Len(t, ids, 3)
	for id, n := range ids {
		require.Equal(t, 2, n, id)
	}
}

func TestTraceOfACaller(t *testing.T) {
	r := tracetest.Receive(t)
	tr := open(t, traces.Config{Endpoint: r.HTTP, SampleRatio: 1e-9}) // the caller decides about sampling
	o := observed("t-4")
	o.Trace = caller
	playTurn(o, plainTexts(), always(tr))
	flush(t, tr)
	spans := r.Spans()
	require.Equal(t, wantEdges(), edges(spans))
	turn := find(t, spans, "invoke_agent analyst", nil)
	require.Equal(t, callersTrace, turn.Trace)
	require.Equal(t, callersSpan, turn.Parent)
}

func TestSampling(t *testing.T) {
	r := tracetest.Receive(t)
	tr := open(t, traces.Config{Endpoint: r.HTTP, SampleRatio: 0.5})
	for i := range 200 {
		playTurn(observed(agent.TurnID(fmt.Sprintf("s-%d", i))), plainTexts(), always(tr))
	}
	unsampled := observed("out")
	unsampled.Trace = "00-" + callersTrace + "-" + callersSpan + "-00"
	child := playTurn(unsampled, plainTexts(), always(tr))
	require.Equal(t, "-00", child.Trace[len(child.Trace)-3:], "the child of an unsampled turn is not sampled")
	flush(t, tr)
	spans := r.Spans()
	require.Empty(t, tracetest.InTrace(spans, callersTrace))
	perTrace := map[string]int{}
	for i := range spans {
		perTrace[spans[i].Trace]++
	}
	require.InDelta(t, 100, len(perTrace), 40)
	for id, n := range perTrace {
		require.Equal(t, 19, n, "trace %s is complete", id)
	}
}

func TestCarry(t *testing.T) {
	r := tracetest.Receive(t)
	tr := open(t, traces.Config{Endpoint: r.HTTP})
	require.Empty(t, tr.Carry(context.Background()), "there is no new trace")

	ctx := trace.ContextWithRemoteSpanContext(context.Background(), trace.NewSpanContext(trace.SpanContextConfig{
		TraceID: trace.TraceID{1}, SpanID: trace.SpanID{2}, TraceFlags: trace.FlagsSampled,
	}))
	want := "00-01000000000000000000000000000000-0200000000000000-01"
	require.Equal(t, want, tr.Carry(ctx))

	// The activity that records a turn is below the turn, so Carry returns the trace around the activity.
	o := observed("t-5")
	o.Trace = want
	inside, end := tr.Work(ctx, agent.Work{Name: "BeginTurn", Turn: o})
	require.Equal(t, want, tr.Carry(inside))
	// A turn that is submitted by a tool is below the tool.
	tool, done := tr.Tool(inside, agent.ToolObservation{Turn: o, Name: "submit", CallID: "c"})
	require.Contains(t, tr.Carry(tool), "00-01000000000000000000000000000000-")
	require.NotEqual(t, want, tr.Carry(tool))
	done(agent.ToolOutcome{})
	end(nil)

	// The span of the request is above a direct turn, and is not the parent of its work.
	flush(t, tr)
	turn := r.Spans()[1]
	require.Equal(t, "BeginTurn", turn.Name)
	require.NotEqual(t, "0200000000000000", turn.Parent)

	off, err := traces.Open(t.Context(), traces.Config{})
	require.NoError(t, err)
	require.Equal(t, want, off.Carry(ctx), "without receivers a trace is passed on")
	require.Equal(t, want, off.Delegate(ctx, o, "x"))
	require.NoError(t, off.Shutdown(t.Context()))
	ok, detail := off.Status()
	require.True(t, ok)
	require.Equal(t, "off", detail)
	playTurn(o, plainTexts(), always(off))
}

func TestConcurrentTurns(t *testing.T) {
	r := tracetest.Receive(t)
	tr := open(t, traces.Config{Endpoint: r.HTTP, Content: traces.ContentFull})
	var wg sync.WaitGroup
	for i := range 16 {
		wg.Go(func() {
			for j := range 5 {
				playTurn(observed(agent.TurnID(fmt.Sprintf("m-%d-%d", i, j))), plainTexts(), always(tr))
			}
		})
	}
	// The calls of one step share their activity's context.
	o := observed("shared")
	ctx, end := tr.Work(context.Background(), agent.Work{Name: "CallTools", Turn: o})
	for range 8 {
		wg.Go(func() {
			_, done := tr.Tool(ctx, agent.ToolObservation{Turn: o, Name: "count", CallID: "same"})
			done(agent.ToolOutcome{})
		})
	}
	wg.Wait()
	end(nil)
	flush(t, tr)
	spans := r.Spans()
	require.Equal(t, 16*5*19+9, len(spans)) //nolint:testifylint // a thousand spans say nothing
	requireUniqueIDs(t, spans)
}
