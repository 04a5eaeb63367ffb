package logs_test

import (
	"errors"
	"io"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/turnstone-run/turnstone/internal/telemetry/logs"
)

// What redaction costs: each case without it, and with it.
func BenchmarkEntry(b *testing.B) {
	r := redactor(b, "tok-3f9aK2mQ8xZ1vB7n", "Ah2k39dksLS02kd8Hx", "user:password-123", "pg-pass-2f9aK2mQ8x", "hook-99dksLS02kd8Hx", "another-one-77")
	err := errors.New("load plan: dial tcp 10.0.0.7:5432: connect: connection refused")
	cases := []struct {
		name string
		log  func(l *zap.Logger)
	}{
		{"message", func(l *zap.Logger) { l.Info("turn finished") }},
		{"fields", func(l *zap.Logger) {
			l.Info("turn finished", zap.String("turn", "0197f3a2-7c1e-7d0a-9c7e-1f2a3b4c5d6e"), zap.String("tenant", "acme"), zap.String("agent", "analyst"),
				zap.Int64("input_tokens", 512), zap.Duration("took", 1200*time.Millisecond))
		}},
		{"error", func(l *zap.Logger) { l.Warn("turn failed", zap.String("turn", "0197f3a2-7c1e-7d0a"), zap.Error(err)) }},
		{"any", func(l *zap.Logger) {
			l.Info("call", zap.Any("args", map[string]any{"city": "Oslo", "days": 3, "flags": []string{"a", "b"}}))
		}},
		{"strings", func(l *zap.Logger) { l.Info("models", zap.Strings("models", []string{"gpt-4o", "claude", "llama"})) }},
		{"secret", func(l *zap.Logger) { l.Info("asked", zap.String("header", "Bearer "+tail)) }},
	}
	plain := zapcore.NewJSONEncoder(zap.NewProductionEncoderConfig())
	for _, c := range cases {
		for _, e := range []struct {
			name    string
			encoder zapcore.Encoder
		}{{"plain", plain}, {"redacting", logs.NewEncoder(plain, r)}} {
			l := zap.New(zapcore.NewCore(e.encoder.Clone(), zapcore.AddSync(io.Discard), zap.InfoLevel))
			b.Run(c.name+"/"+e.name, func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					c.log(l)
				}
			})
		}
	}
}
