package logs

import (
	"context"
	"slices"

	"go.opentelemetry.io/otel/trace"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/turnstone-run/turnstone/agent"
)

// The names of what entries are found by (docs/logging.md).
const (
	KeyTurn     = "turn"
	KeySession  = "session"
	KeyTenant   = "tenant"
	KeyInstance = "agent_instance_id"
	KeyRequest  = "request_id"
	KeyTrace    = "trace_id"
	KeySpan     = "span_id"
)

// Turn says which turn an entry is about, whose it is, and which agent instance answers it. An instance that is not known yet is "".
func Turn(id agent.TurnID, tenant, instance string) zap.Field {
	return zap.Inline(turn{id: id, tenant: tenant, instance: instance})
}

type turn struct {
	id       agent.TurnID
	tenant   string
	instance string
}

func (t turn) MarshalLogObject(to zapcore.ObjectEncoder) error {
	to.AddString(KeyTurn, string(t.id))
	to.AddString(KeyTenant, t.tenant)
	if t.instance != "" {
		to.AddString(KeyInstance, t.instance)
	}
	return nil
}

// Session says which session an entry is about.
func Session(id agent.SessionID) zap.Field { return zap.String(KeySession, string(id)) }

// Trace names the span that a context is in, as OpenTelemetry writes it; nothing where there is none.
func Trace(ctx context.Context) zap.Field {
	span := trace.SpanContextFromContext(ctx)
	if !span.IsValid() {
		return zap.Skip()
	}
	return zap.Inline(place{span})
}

type place struct{ span trace.SpanContext }

func (p place) MarshalLogObject(to zapcore.ObjectEncoder) error {
	to.AddString(KeyTrace, p.span.TraceID().String())
	to.AddString(KeySpan, p.span.SpanID().String())
	return nil
}

// maxCarried bounds the fields of a context; further ones are left out.
const maxCarried = 16

type carriedKey struct{}

// With gives a context fields for what is logged on its behalf: a door adds the request, the inbox the turn.
func With(ctx context.Context, fields ...zap.Field) context.Context {
	all := slices.Concat(carried(ctx), fields)
	return context.WithValue(ctx, carriedKey{}, all[:min(len(all), maxCarried)])
}

func carried(ctx context.Context) []zap.Field {
	fields, _ := ctx.Value(carriedKey{}).([]zap.Field)
	return fields
}

// For is a logger with the fields of a context and the span that it is in.
func For(ctx context.Context, l *zap.Logger) *zap.Logger {
	return l.With(append(slices.Clip(carried(ctx)), Trace(ctx))...)
}
