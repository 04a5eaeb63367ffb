package logs

import (
	"context"
	"slices"

	"go.opentelemetry.io/otel/trace"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/turnstone-run/turnstone/agent"
)

// The names of the fields that identify turns, requests and traces (docs/guides/logging.md).
const (
	KeyTurn     = "turn"
	KeySession  = "session"
	KeyTenant   = "tenant"
	KeyInstance = "agent_instance_id"
	KeyRequest  = "request_id"
	KeyTrace    = "trace_id"
	KeySpan     = "span_id"
)

// Turn returns the fields of a turn: its id, its tenant, and the agent instance that answers it, which may still be empty.
func Turn(id agent.TurnID, tenant, instance string) zap.Field {
	return zap.Inline(turnFields{id: id, tenant: tenant, instance: instance})
}

type turnFields struct {
	id       agent.TurnID
	tenant   string
	instance string
}

func (t turnFields) MarshalLogObject(to zapcore.ObjectEncoder) error {
	to.AddString(KeyTurn, string(t.id))
	to.AddString(KeyTenant, t.tenant)
	if t.instance != "" {
		to.AddString(KeyInstance, t.instance)
	}
	return nil
}

// Session returns the field of a session.
func Session(id agent.SessionID) zap.Field { return zap.String(KeySession, string(id)) }

// Trace returns the trace and span ids of a context, or no field if it has no span.
func Trace(ctx context.Context) zap.Field {
	span := trace.SpanContextFromContext(ctx)
	if !span.IsValid() {
		return zap.Skip()
	}
	return zap.Inline(spanFields{span})
}

type spanFields struct{ span trace.SpanContext }

func (s spanFields) MarshalLogObject(to zapcore.ObjectEncoder) error {
	to.AddString(KeyTrace, s.span.TraceID().String())
	to.AddString(KeySpan, s.span.SpanID().String())
	return nil
}

// maxContextFields bounds the fields of a context. Later ones are left out.
const maxContextFields = 16

type contextKey struct{}

// With returns a context with more fields, for the loggers that [For] returns. The gateway adds the request, the inbox adds the turn.
func With(ctx context.Context, fields ...zap.Field) context.Context {
	all := slices.Concat(contextFields(ctx), fields)
	return context.WithValue(ctx, contextKey{}, all[:min(len(all), maxContextFields)])
}

func contextFields(ctx context.Context) []zap.Field {
	fields, _ := ctx.Value(contextKey{}).([]zap.Field)
	return fields
}

// For returns a logger with the fields and the span of a context.
func For(ctx context.Context, l *zap.Logger) *zap.Logger {
	return l.With(append(slices.Clip(contextFields(ctx)), Trace(ctx))...)
}
