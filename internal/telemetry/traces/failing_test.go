package traces_test

import (
	"context"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/telemetry/traces"
	"github.com/turnstone-run/turnstone/internal/telemetry/traces/tracetest"
)

// A receiver that does not answer delays no turn, and the waiting spans are bounded by number and size.
func TestReceiverHangs(t *testing.T) {
	for name, limits := range map[string]traces.Limits{
		"count": {Spans: 50, Batch: 10},
		"size":  {Bytes: 50 << 10, Batch: 10},
	} {
		t.Run(name, func(t *testing.T) {
			r := tracetest.Receive(t)
			release := make(chan struct{})
			t.Cleanup(func() { close(release) })
			r.Answer(func() int { <-release; return http.StatusOK })
			limits.BatchDelay = time.Millisecond
			tr := open(t, traces.Config{Endpoint: r.HTTP, Limits: limits, Content: traces.ContentFull})
			for range 20 {
				playTurn(observed("h-1"), plainTexts(), always(tr))
			}
			c := tr.Counts()["otlp"]
			require.LessOrEqual(t, c.Waiting, int64(100))
			require.Positive(t, c.Dropped)
			require.Equal(t, int64(20*19), c.Waiting+c.Dropped)
			require.Zero(t, c.Exported)

			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			require.Error(t, tr.Shutdown(ctx))
			playTurn(observed("h-2"), plainTexts(), always(tr))
			// The hanging export is cancelled, long before its timeout of 20 s.
			require.Eventually(t, func() bool { return tr.Counts()["otlp"].Failed > 0 }, 10*time.Second, time.Millisecond)
		})
	}
}

func TestReceiverFails(t *testing.T) {
	r := tracetest.Receive(t)
	status := http.StatusInternalServerError
	r.Answer(func() int { return status })
	core, logged := observer.New(zapcore.DebugLevel)
	tr := open(t, traces.Config{Endpoint: r.HTTP, Logger: zap.New(core), Headers: "authorization=s3cret-value"})
	for range 5 {
		playTurn(observed("f-1"), plainTexts(), always(tr))
		flush(t, tr)
	}
	require.Equal(t, traces.Counts{Failed: 95}, tr.Counts()["otlp"])
	ok, detail := tr.Status()
	require.False(t, ok)
	require.Contains(t, detail, "otlp: 0 spans exported, 95 failed, 0 dropped; failing since ")
	require.Equal(t, 1, logged.FilterMessage("traces cannot be exported").Len(), "once a minute")
	for _, e := range logged.All() {
		require.NotContains(t, e.Message+detail, "s3cret-value")
	}

	r.Answer(nil)
	playTurn(observed("f-2"), plainTexts(), always(tr))
	flush(t, tr)
	ok, detail = tr.Status()
	require.True(t, ok)
	require.Equal(t, "otlp: 19 spans exported, 95 failed, 0 dropped", detail)
	require.Equal(t, 1, logged.FilterMessage("traces are exported again").Len())
	require.NoError(t, tr.Shutdown(t.Context()))
}

func TestReceiverIsUnreachable(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	address := listener.Addr().String()
	require.NoError(t, listener.Close())
	for _, protocol := range []string{traces.ProtocolHTTP, traces.ProtocolGRPC} {
		tr := open(t, traces.Config{Endpoint: "http://" + address, Protocol: protocol, Limits: traces.Limits{ExportTime: 100 * time.Millisecond}})
		playTurn(observed("n-1"), plainTexts(), always(tr))
		flush(t, tr)
		require.Equal(t, int64(19), tr.Counts()["otlp"].Failed)
		ok, _ := tr.Status()
		require.False(t, ok)
	}
}

// A large batch is exported in parts, because receivers refuse large requests.
func TestLargeBatches(t *testing.T) {
	r := tracetest.Receive(t)
	tr := open(t, traces.Config{
		Endpoint: r.HTTP, Content: traces.ContentFull, Limits: traces.Limits{BatchBytes: 100 << 10, BatchDelay: time.Hour},
	})
	o := observed("l-1")
	for range 30 {
		_, done := tr.Request(context.Background(), agent.ModelObservation{
			Turn: o, Model: model(), Request: &agent.ModelRequest{System: strings.Repeat("s", 20<<10)},
		})
		done(agent.ModelOutcome{})
	}
	flush(t, tr)
	require.Len(t, r.Spans(), 30)
	require.GreaterOrEqual(t, len(r.Requests()), 6)
	for _, q := range r.Requests() {
		require.Less(t, q.Bytes, 120<<10)
	}
	require.Equal(t, traces.Counts{Exported: 30}, tr.Counts()["otlp"])
}

func TestShutdownExportsWaitingSpans(t *testing.T) {
	r := tracetest.Receive(t)
	tr := open(t, traces.Config{Endpoint: r.HTTP, Limits: traces.Limits{BatchDelay: time.Hour}})
	playTurn(observed("w-1"), plainTexts(), always(tr))
	require.Equal(t, int64(19), tr.Counts()["otlp"].Waiting)
	require.NoError(t, tr.Shutdown(t.Context()))
	require.Equal(t, traces.Counts{Exported: 19}, tr.Counts()["otlp"])
	require.Len(t, r.Spans(), 19)
	require.NoError(t, tr.Shutdown(t.Context()))
}
