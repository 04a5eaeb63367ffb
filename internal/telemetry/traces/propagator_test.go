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

// newHeader returns a trace header in the form of Temporal's SDKs.
func newHeader(t testing.TB, fields any) *commonpb.Header {
	t.Helper()
	p, err := converter.GetDefaultDataConverter().ToPayload(fields)
	require.NoError(t, err)
	return &commonpb.Header{Fields: map[string]*commonpb.Payload{temporalHeader: p}}
}

// traceparent is an activity that returns its trace.
func traceparent(ctx context.Context) (string, error) {
	return formatTraceparent(trace.SpanContextFromContext(ctx)), nil
}

type receivedTraces struct{ Local, Normal, Child, ChildNormal string }

func localContext(ctx workflow.Context) workflow.Context {
	return workflow.WithLocalActivityOptions(ctx, workflow.LocalActivityOptions{StartToCloseTimeout: time.Minute})
}

func normalContext(ctx workflow.Context) workflow.Context {
	return workflow.WithActivityOptions(ctx, workflow.ActivityOptions{StartToCloseTimeout: time.Minute})
}

func childFlow(ctx workflow.Context) (t receivedTraces, err error) {
	err = errors.Join(
		workflow.ExecuteLocalActivity(localContext(ctx), traceparent).Get(ctx, &t.Local),
		workflow.ExecuteActivity(normalContext(ctx), traceparent).Get(ctx, &t.Normal),
	)
	return t, err
}

func parentFlow(ctx workflow.Context) (t receivedTraces, err error) {
	if t, err = childFlow(ctx); err != nil {
		return t, err
	}
	var c receivedTraces
	// Workflows of this project start children in contexts that may have options for local activities.
	err = workflow.ExecuteChildWorkflow(workflow.WithChildOptions(localContext(ctx), workflow.ChildWorkflowOptions{}), childFlow).Get(ctx, &c)
	t.Child, t.ChildNormal = c.Local, c.Normal
	return t, err
}

func run(t *testing.T, h *commonpb.Header) receivedTraces {
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
	env.RegisterActivity(traceparent)
	env.ExecuteWorkflow(parentFlow)
	require.NoError(t, env.GetWorkflowError())
	var out receivedTraces
	require.NoError(t, env.GetWorkflowResult(&out))
	return out
}

func TestTracesArePassedOn(t *testing.T) {
	require.Equal(t, receivedTraces{Local: parent, Child: parent}, run(t, newHeader(t, map[string]string{"traceparent": parent, "tracestate": "a=b"})))
}

func TestMissingAndMalformedTraces(t *testing.T) {
	require.Equal(t, receivedTraces{}, run(t, nil))
	for _, fields := range []any{
		map[string]string{},
		map[string]string{"traceparent": "00-zz"},
		map[string]any{"traceparent": 7},
		"text", nil,
		[]byte{1, 2},
		map[string]string{"traceparent": parent, "x": strings.Repeat("x", maxHeader)},
	} {
		require.Equal(t, receivedTraces{}, run(t, newHeader(t, fields)), "%v", fields)
	}
}

// headerMap is a header that a client writes.
type headerMap map[string]*commonpb.Payload

func (w headerMap) Set(k string, p *commonpb.Payload) { w[k] = p }

func (w headerMap) Get(k string) (*commonpb.Payload, bool) { p, ok := w[k]; return p, ok }

func (w headerMap) ForEachKey(f func(string, *commonpb.Payload) error) error {
	for _, k := range slices.Sorted(maps.Keys(w)) {
		if err := f(k, w[k]); err != nil {
			return err
		}
	}
	return nil
}

func TestHeaderIsTheOneOfTemporal(t *testing.T) {
	w := headerMap{}
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

// scheduleCreator keeps the context in which a schedule is created.
type scheduleCreator struct {
	interceptor.ClientOutboundInterceptorBase

	ctx context.Context
}

func (c *scheduleCreator) CreateSchedule(ctx context.Context, _ *interceptor.ScheduleClientCreateInput) (client.ScheduleHandle, error) {
	c.ctx = ctx
	return nil, errors.New("created")
}

func TestSchedulesAreInNoTrace(t *testing.T) {
	ctx := trace.ContextWithRemoteSpanContext(context.Background(), parseTraceparent(parent))
	end := &scheduleCreator{}
	_, err := Unscheduled().InterceptClient(end).CreateSchedule(ctx, &interceptor.ScheduleClientCreateInput{})
	require.EqualError(t, err, "created")
	w := headerMap{}
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
		w := headerMap{temporalHeader: {Data: data, Metadata: map[string][]byte{"encoding": []byte(encoding)}}}
		ctx, err := Propagator().Extract(context.Background(), w)
		if err != nil {
			t.Fatal(err)
		}
		_ = formatTraceparent(trace.SpanContextFromContext(ctx))
	})
}

func TestDerivedIDs(t *testing.T) {
	// A change of these breaks the traces of running turns.
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
	for _, plan := range []string{"", "x", "sha256:zz"} {
		require.Positive(t, promptVersion(plan))
		require.LessOrEqual(t, promptVersion(plan), 65535)
	}
	require.Equal(t, "env-langfuse-x", langfuseEnvironment("Langfuse X"))
	require.Len(t, langfuseEnvironment(strings.Repeat("a", 99)), 40)
}
