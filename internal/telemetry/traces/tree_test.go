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

// count says how many spans of each line of a tree there are, however they lie in time.
func shape(spans []tracetest.Span) map[string]int {
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

func wantShape() map[string]int {
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

func TestATurnIsOneTree(t *testing.T) {
	for _, protocol := range []string{traces.ProtocolHTTP, traces.ProtocolGRPC} {
		t.Run(protocol, func(t *testing.T) {
			r := tracetest.Receive(t)
			cfg := traces.Config{Endpoint: r.HTTP, Protocol: protocol, Headers: "x-key=a%20b,x-other=c", Version: "1.2.3", Environment: "test"}
			if protocol == traces.ProtocolGRPC {
				cfg.Endpoint = r.GRPC
			}
			tr := open(t, cfg)
			o := observed("t-1")
			play(o, plain(), one(tr))
			flush(t, tr)
			spans := r.Spans()
			require.Equal(t, wantShape(), shape(spans), "%s", tracetest.Tree(spans))
			unique(t, spans)

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

func unique(t *testing.T, spans []tracetest.Span) {
	t.Helper()
	ids := map[string]string{}
	for i := range spans {
		require.Empty(t, ids[spans[i].ID], "%s has the id of %s", spans[i].Name, ids[spans[i].ID])
		ids[spans[i].ID] = spans[i].Name
	}
}

// Three processes that know nothing of each other work on a turn, one after the other.
func TestProcessesAgree(t *testing.T) {
	r := tracetest.Receive(t)
	workers := []*traces.Tracing{open(t, traces.Config{Endpoint: r.HTTP}), open(t, traces.Config{Endpoint: r.HTTP}), open(t, traces.Config{Endpoint: r.HTTP})}
	n := 0
	play(observed("t-2"), plain(), func() agent.Observer { n++; return workers[n%3] })
	finish(workers[0], observed("t-2"), plain()) // the end is stored again: the same span
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
	want := wantShape()
	want[" > invoke_agent analyst"]++
	want["invoke_agent analyst > StoreTurn"]++
	require.Equal(t, want, shape(spans), "%s", tracetest.Tree(spans))
}

func TestRepetitionsHaveIDsOfTheirOwn(t *testing.T) {
	r := tracetest.Receive(t)
	tr := open(t, traces.Config{Endpoint: r.HTTP})
	o := observed("t-3")
	for range 2 { // an activity, and its repetition elsewhere
		ctx, end := tr.Work(context.Background(), agent.Work{Name: "CallModel", Turn: o, Step: 1})
		for range 3 { // a middleware's requests are all alike
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

func TestACallersTrace(t *testing.T) {
	r := tracetest.Receive(t)
	tr := open(t, traces.Config{Endpoint: r.HTTP, SampleRatio: 1e-9}) // the caller's word counts, not the ratio
	o := observed("t-4")
	o.Trace = caller
	play(o, plain(), one(tr))
	flush(t, tr)
	spans := r.Spans()
	require.Equal(t, wantShape(), shape(spans))
	turn := find(t, spans, "invoke_agent analyst", nil)
	require.Equal(t, callersTrace, turn.Trace)
	require.Equal(t, callersSpan, turn.Parent)
}

func TestSampling(t *testing.T) {
	r := tracetest.Receive(t)
	tr := open(t, traces.Config{Endpoint: r.HTTP, SampleRatio: 0.5})
	for i := range 200 {
		play(observed(agent.TurnID(fmt.Sprintf("s-%d", i))), plain(), one(tr))
	}
	out := observed("out")
	out.Trace = "00-" + callersTrace + "-" + callersSpan + "-00"
	child := play(out, plain(), one(tr))
	require.Equal(t, "-00", child.Trace[len(child.Trace)-3:], "the turns of a turn that is out are out")
	flush(t, tr)
	spans := r.Spans()
	require.Empty(t, tracetest.InTrace(spans, callersTrace))
	perTrace := map[string]int{}
	for i := range spans {
		perTrace[spans[i].Trace]++
	}
	require.InDelta(t, 100, len(perTrace), 40)
	for id, n := range perTrace {
		require.Equal(t, 19, n, "trace %s is whole", id)
	}
}

func TestCarry(t *testing.T) {
	r := tracetest.Receive(t)
	tr := open(t, traces.Config{Endpoint: r.HTTP})
	require.Empty(t, tr.Carry(context.Background()), "a trace is never invented")

	ctx := trace.ContextWithRemoteSpanContext(context.Background(), trace.NewSpanContext(trace.SpanContextConfig{
		TraceID: trace.TraceID{1}, SpanID: trace.SpanID{2}, TraceFlags: trace.FlagsSampled,
	}))
	want := "00-01000000000000000000000000000000-0200000000000000-01"
	require.Equal(t, want, tr.Carry(ctx))

	// The activity that records a turn is below it: what asked for the turn is what the activity came in.
	o := observed("t-5")
	o.Trace = want
	inside, end := tr.Work(ctx, agent.Work{Name: "BeginTurn", Turn: o})
	require.Equal(t, want, tr.Carry(inside))
	// A turn that a tool asks for is the tool's.
	tool, done := tr.Tool(inside, agent.ToolObservation{Turn: o, Name: "submit", CallID: "c"})
	require.Contains(t, tr.Carry(tool), "00-01000000000000000000000000000000-")
	require.NotEqual(t, want, tr.Carry(tool))
	done(agent.ToolOutcome{})
	end(nil)

	// The door's own span of a direct turn is above the turn, not the parent of its work.
	flush(t, tr)
	turn := r.Spans()[1]
	require.Equal(t, "BeginTurn", turn.Name)
	require.NotEqual(t, "0200000000000000", turn.Parent)

	off, err := traces.Open(t.Context(), traces.Config{})
	require.NoError(t, err)
	require.Equal(t, want, off.Carry(ctx), "without receivers a trace is passed on")
	require.Equal(t, want, off.Delegate(ctx, o, "x"))
	require.NoError(t, off.Shutdown(t.Context()))
	fine, detail := off.Status()
	require.True(t, fine)
	require.Equal(t, "off", detail)
	play(o, plain(), one(off))
}

func TestManyAtOnce(t *testing.T) {
	r := tracetest.Receive(t)
	tr := open(t, traces.Config{Endpoint: r.HTTP, Content: traces.ContentFull})
	var wg sync.WaitGroup
	for i := range 16 {
		wg.Go(func() {
			for j := range 5 {
				play(observed(agent.TurnID(fmt.Sprintf("m-%d-%d", i, j))), plain(), one(tr))
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
	unique(t, spans)
}
