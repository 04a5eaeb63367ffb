package traces

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/trace"
	commonpb "go.temporal.io/api/common/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/interceptor"
	"go.temporal.io/sdk/log"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/workflow"
	"google.golang.org/protobuf/proto"
)

const parent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"

// header is a trace as the tracing interceptors of Temporal's SDKs write it: a JSON object, by the default converter.
func header(t testing.TB, fields any) *commonpb.Header {
	t.Helper()
	p, err := converter.GetDefaultDataConverter().ToPayload(fields)
	require.NoError(t, err)
	return &commonpb.Header{Fields: map[string]*commonpb.Payload{temporalHeader: p}}
}

// carry is an activity that says which trace it is in.
func carry(ctx context.Context) (string, error) {
	return formatTraceparent(trace.SpanContextFromContext(ctx)), nil
}

type travels struct{ Local, Normal, Child, ChildNormal string }

func localContext(ctx workflow.Context) workflow.Context {
	return workflow.WithLocalActivityOptions(ctx, workflow.LocalActivityOptions{StartToCloseTimeout: time.Minute})
}

func normalContext(ctx workflow.Context) workflow.Context {
	return workflow.WithActivityOptions(ctx, workflow.ActivityOptions{StartToCloseTimeout: time.Minute})
}

func childFlow(ctx workflow.Context) (t travels, err error) {
	err = errors.Join(
		workflow.ExecuteLocalActivity(localContext(ctx), carry).Get(ctx, &t.Local),
		workflow.ExecuteActivity(normalContext(ctx), carry).Get(ctx, &t.Normal),
	)
	return t, err
}

func parentFlow(ctx workflow.Context) (t travels, err error) {
	if t, err = childFlow(ctx); err != nil {
		return t, err
	}
	var c travels
	// Ours starts its children in contexts that may hold options for local activities.
	err = workflow.ExecuteChildWorkflow(workflow.WithChildOptions(localContext(ctx), workflow.ChildWorkflowOptions{}), childFlow).Get(ctx, &c)
	t.Child, t.ChildNormal = c.Local, c.Normal
	return t, err
}

func run(t *testing.T, h *commonpb.Header) travels {
	t.Helper()
	var suite testsuite.WorkflowTestSuite
	suite.SetLogger(log.NewStructuredLogger(slog.New(slog.DiscardHandler)))
	suite.SetContextPropagators([]workflow.ContextPropagator{Propagator()})
	if h != nil {
		suite.SetHeader(h)
	}
	env := suite.NewTestWorkflowEnvironment()
	env.RegisterWorkflow(parentFlow)
	env.RegisterWorkflow(childFlow)
	env.RegisterActivity(carry)
	env.ExecuteWorkflow(parentFlow)
	require.NoError(t, env.GetWorkflowError())
	var out travels
	require.NoError(t, env.GetWorkflowResult(&out))
	return out
}

func TestTracesTravel(t *testing.T) {
	require.Equal(t, travels{Local: parent, Child: parent}, run(t, header(t, map[string]string{"traceparent": parent, "tracestate": "a=b"})))
}

func TestNoTraceAndMalformedOnes(t *testing.T) {
	require.Equal(t, travels{}, run(t, nil))
	for _, fields := range []any{
		map[string]string{},
		map[string]string{"traceparent": "00-zz"},
		map[string]any{"traceparent": 7},
		"text", nil,
		[]byte{1, 2},
		map[string]string{"traceparent": parent, "x": strings.Repeat("x", maxHeader)},
	} {
		require.Equal(t, travels{}, run(t, header(t, fields)), "%v", fields)
	}
}

// writer is a header as a client writes it.
type writer map[string]*commonpb.Payload

func (w writer) Set(k string, p *commonpb.Payload) { w[k] = p }

func (w writer) Get(k string) (*commonpb.Payload, bool) { p, ok := w[k]; return p, ok }

func (w writer) ForEachKey(f func(string, *commonpb.Payload) error) error {
	for _, k := range slices.Sorted(maps.Keys(w)) {
		if err := f(k, w[k]); err != nil {
			return err
		}
	}
	return nil
}

func TestTheHeaderIsTemporals(t *testing.T) {
	w := writer{}
	require.NoError(t, Propagator().Inject(context.Background(), w))
	require.Empty(t, w, "no span, no header")

	ctx := trace.ContextWithRemoteSpanContext(context.Background(), parseTraceparent(parent))
	require.NoError(t, Propagator().Inject(ctx, w))
	require.Len(t, w, 1)
	p := w["_tracer-data"]
	require.Equal(t, "json/plain", string(p.GetMetadata()["encoding"]))
	require.JSONEq(t, `{"traceparent":"`+parent+`"}`, string(p.GetData()))
	size := proto.Size(&commonpb.Header{Fields: w})
	require.Less(t, size, 140)
	t.Logf("%d bytes of history for a header", size)

	back, err := Propagator().Extract(context.Background(), w)
	require.NoError(t, err)
	require.Equal(t, parent, formatTraceparent(trace.SpanContextFromContext(back)))
	require.True(t, trace.SpanContextFromContext(back).IsRemote())
}

// created is where a schedule's making ends up.
type created struct {
	interceptor.ClientOutboundInterceptorBase

	ctx context.Context
}

func (c *created) CreateSchedule(ctx context.Context, _ *interceptor.ScheduleClientCreateInput) (client.ScheduleHandle, error) {
	c.ctx = ctx
	return nil, errors.New("enough")
}

func TestSchedulesAreInNoTrace(t *testing.T) {
	ctx := trace.ContextWithRemoteSpanContext(context.Background(), parseTraceparent(parent))
	end := &created{}
	_, err := Unscheduled().InterceptClient(end).CreateSchedule(ctx, &interceptor.ScheduleClientCreateInput{})
	require.EqualError(t, err, "enough")
	w := writer{}
	require.NoError(t, Propagator().Inject(end.ctx, w))
	require.Empty(t, w)
}

func FuzzTraceparent(f *testing.F) {
	for _, s := range []string{"", parent, "00-" + strings.Repeat("0", 32) + "-00f067aa0ba902b7-01", "ff" + parent[2:], parent + "-x", "00-4BF9"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		sc := parseTraceparent(s)
		if !sc.IsValid() {
			return
		}
		again := parseTraceparent(formatTraceparent(sc))
		if again.TraceID() != sc.TraceID() || again.SpanID() != sc.SpanID() || again.IsSampled() != sc.IsSampled() {
			t.Fatalf("%q became %q", s, formatTraceparent(sc))
		}
	})
}

func FuzzTemporalHeader(f *testing.F) {
	f.Add([]byte(`{"traceparent":"`+parent+`"}`), "json/plain")
	f.Add([]byte(`{"traceparent":7}`), "json/plain")
	f.Add([]byte{0xff}, "binary/plain")
	f.Add([]byte(`[`), "")
	f.Fuzz(func(t *testing.T, data []byte, encoding string) {
		w := writer{temporalHeader: {Data: data, Metadata: map[string][]byte{"encoding": []byte(encoding)}}}
		ctx, err := Propagator().Extract(context.Background(), w)
		if err != nil {
			t.Fatal(err)
		}
		_ = formatTraceparent(trace.SpanContextFromContext(ctx))
	})
}

func TestDerivedIDs(t *testing.T) {
	// These are on disks and in other processes: a change breaks the traces of turns that are under way.
	require.Equal(t, "152a", deriveTraceID("t-1").String()[:4])
	require.Equal(t, "9ae7", turnSpanID("t-1").String()[:4])
	require.NotEqual(t, deriveSpanID(kindTool, nil, "ab", "c"), deriveSpanID(kindTool, nil, "a", "bc"))
	require.NotEqual(t, deriveSpanID(kindTool, []int64{1}, "a"), deriveSpanID(kindTool, []int64{2}, "a"))
	require.NotEqual(t, turnSpanID("x"), delegateSpanID("x"))
}

func TestPromptVersion(t *testing.T) {
	for plan, want := range map[string]int{"sha256:0102ff": 0x0102, "ffff00": 0xffff, "sha256:0000ab": 1} {
		require.Equal(t, want, promptVersion(plan), plan)
	}
	for _, odd := range []string{"", "x", "sha256:zz"} {
		require.Positive(t, promptVersion(odd))
		require.LessOrEqual(t, promptVersion(odd), 65535)
	}
	require.Equal(t, "env-langfuse-x", langfuseEnvironment("Langfuse X"))
	require.Len(t, langfuseEnvironment(strings.Repeat("a", 99)), 40)
}
