package logs_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/trace"
	"go.uber.org/zap"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/telemetry/logs"
)

// Entries have the turn, session, tenant, request and trace of the context.
func TestFields(t *testing.T) {
	t.Parallel()
	span := trace.NewSpanContext(trace.SpanContextConfig{TraceID: trace.TraceID{1, 2}, SpanID: trace.SpanID{3}})
	ctx := trace.ContextWithSpanContext(t.Context(), span)
	ctx = logs.With(ctx, zap.String(logs.KeyRequest, "r1"))
	ctx = logs.With(ctx, logs.Turn("t1", "acme", "acme/clerk@2"), logs.Session("s1"))
	m := logEntry(t, func(l *zap.Logger) { logs.For(ctx, l).Info("m") })
	require.Equal(t, map[string]any{
		"request_id": "r1", "turn": "t1", "tenant": "acme", "session": "s1", "agent_instance_id": "acme/clerk@2", "trace_id": "01020000000000000000000000000000", "span_id": "0300000000000000",
		"level": "info", "msg": "m", "ts": m["ts"], "caller": m["caller"],
	}, m)
	m = logEntry(t, func(l *zap.Logger) { logs.For(t.Context(), l).Info("m", logs.Turn(agent.TurnID("t2"), "", "")) })
	require.NotContains(t, m, "trace_id")
	require.NotContains(t, m, "agent_instance_id")
	require.Equal(t, "t2", m["turn"])
	ctx = logs.With(ctx, slices.Repeat([]zap.Field{zap.Int("more", 1)}, 40)...)
	require.Equal(t, 13, strings.Count(logText(t, "json", "info", func(l *zap.Logger) { logs.For(ctx, l).Info("m") }), "more"))
}

// On a console, an error is one line unless the level is debug.
func TestConsole(t *testing.T) {
	t.Parallel()
	log := func(l *zap.Logger) {
		l.Error("failed", zap.Error(verboseError{"why"}), zap.Object("of", zap.DictObject(zap.Error(verboseError{"how"}))))
		l.Debug("detail")
	}
	text := logText(t, "console", "info", log)
	require.Equal(t, 1, strings.Count(text, "\n"), text)
	require.Contains(t, text, `{"error": "long form: why", "of": {"error": "long form: how"}}`)
	text = logText(t, "console", "debug", log)
	require.Contains(t, text, "logs_test.TestConsole")
	require.Contains(t, text, `"errorVerbose"`)
	require.Contains(t, text, "detail")
	text = logText(t, "json", "info", log)
	require.Contains(t, text, `"errorVerbose"`)
	require.Contains(t, text, `"stacktrace"`)
	require.NotContains(t, text, "detail")
}

func TestNothingIsSampled(t *testing.T) {
	t.Parallel()
	text := logText(t, "json", "info", func(l *zap.Logger) {
		for range 1_000 {
			l.Info("again", zap.Error(errors.New("same")))
		}
	})
	require.Equal(t, 1_000, strings.Count(text, "again"))
}
