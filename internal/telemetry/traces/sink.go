package traces

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/attribute"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.uber.org/zap"

	"github.com/turnstone-run/turnstone/internal/clip"
)

const (
	// logInterval is the minimum time between two log entries about one receiver.
	logInterval    = time.Minute
	maxLoggedError = 512
	spanOverhead   = 512 // approximate bytes of a span without its texts
)

// sink is the queue of one receiver, with counters. It is before the queue of the SDK, which is larger, so that only the sink drops spans.
type sink struct {
	name    string
	limits  Limits
	logger  *zap.Logger
	accepts func(sdktrace.ReadOnlySpan) bool // nil: every span

	batches  sdktrace.SpanProcessor
	exporter sdktrace.SpanExporter
	running  context.Context    // exports end with it
	stop     context.CancelFunc // ends running

	waiting, bytes, exported, failed, dropped atomic.Int64

	mu           sync.Mutex
	lastError    string // of the last export; empty: it succeeded
	failingSince time.Time
	loggedAt     time.Time
}

var (
	_ sdktrace.SpanProcessor = (*sink)(nil)
	_ sdktrace.SpanExporter  = sinkExporter{}
)

func newSink(name string, e sdktrace.SpanExporter, cfg *Config, accepts func(sdktrace.ReadOnlySpan) bool) *sink {
	s := &sink{name: name, limits: cfg.Limits, logger: cfg.Logger, accepts: accepts, exporter: e}
	s.running, s.stop = context.WithCancel(context.Background())
	s.batches = sdktrace.NewBatchSpanProcessor(
		sinkExporter{s},
		sdktrace.WithMaxQueueSize(cfg.Limits.Spans+cfg.Limits.Batch),
		sdktrace.WithMaxExportBatchSize(cfg.Limits.Batch),
		sdktrace.WithBatchTimeout(cfg.Limits.BatchDelay),
		sdktrace.WithExportTimeout(cfg.Limits.ExportTime),
	)
	return s
}

// OnStart implements [sdktrace.SpanProcessor].
func (s *sink) OnStart(context.Context, sdktrace.ReadWriteSpan) {}

// OnEnd implements [sdktrace.SpanProcessor]. It does not block.
func (s *sink) OnEnd(span sdktrace.ReadOnlySpan) {
	if !span.SpanContext().IsSampled() || (s.accepts != nil && !s.accepts(span)) {
		return
	}
	size := sizeOf(span)
	if waiting, bytes := s.waiting.Add(1), s.bytes.Add(size); waiting > int64(s.limits.Spans) || bytes > s.limits.Bytes {
		s.release(1, size)
		s.dropped.Add(1)
		return
	}
	s.batches.OnEnd(span)
}

// ForceFlush implements [sdktrace.SpanProcessor].
func (s *sink) ForceFlush(ctx context.Context) error { return s.batches.ForceFlush(ctx) }

// Shutdown implements [sdktrace.SpanProcessor].
func (s *sink) Shutdown(ctx context.Context) error { return s.batches.Shutdown(ctx) }

func (s *sink) release(spans, size int64) {
	s.waiting.Add(-spans)
	s.bytes.Add(-size)
}

// sinkExporter exports the batches of a sink.
type sinkExporter struct{ *sink }

// ExportSpans implements [sdktrace.SpanExporter]. It returns no error, because the SDK would only log it again. It sends a large batch in parts, because
// receivers refuse large requests.
func (e sinkExporter) ExportSpans(ctx context.Context, spans []sdktrace.ReadOnlySpan) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(e.running, cancel)()
	for len(spans) > 0 {
		n, size := 0, int64(0)
		for n < len(spans) {
			next := sizeOf(spans[n])
			if n > 0 && size+next > e.limits.BatchBytes {
				break
			}
			size += next
			n++
		}
		err := e.exporter.ExportSpans(ctx, spans[:n])
		e.release(int64(n), size)
		e.recordExport(n, err)
		spans = spans[n:]
	}
	return nil
}

// Shutdown implements [sdktrace.SpanExporter].
func (e sinkExporter) Shutdown(ctx context.Context) error { return e.exporter.Shutdown(ctx) }

// recordExport counts an export. It logs the first failure, then one a minute, and the next success.
func (s *sink) recordExport(spans int, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	if err == nil {
		s.exported.Add(int64(spans))
		if s.lastError != "" {
			s.logger.Info("traces are exported again", zap.String("receiver", s.name), zap.Duration("after", now.Sub(s.failingSince)),
				zap.Int64("failed", s.failed.Load()), zap.Int64("dropped", s.dropped.Load()))
		}
		s.lastError = ""
		return
	}
	s.failed.Add(int64(spans))
	if s.lastError == "" {
		s.failingSince = now
	}
	s.lastError = clip.Bytes(err.Error(), maxLoggedError)
	if now.Sub(s.loggedAt) >= logInterval {
		s.loggedAt = now
		s.logger.Warn("traces cannot be exported", zap.String("receiver", s.name), zap.String("error", s.lastError),
			zap.Int64("failed", s.failed.Load()), zap.Int64("dropped", s.dropped.Load()))
	}
}

func (s *sink) counts() Counts {
	return Counts{Exported: s.exported.Load(), Failed: s.failed.Load(), Dropped: s.dropped.Load(), Waiting: max(s.waiting.Load(), 0)}
}

// status reports whether exports succeed, with a line for a person.
func (s *sink) status() (ok bool, line string) {
	c := s.counts()
	s.mu.Lock()
	defer s.mu.Unlock()
	line = fmt.Sprintf("%s: %d spans exported, %d failed, %d dropped", s.name, c.Exported, c.Failed, c.Dropped)
	if s.lastError == "" {
		return true, line
	}
	return false, fmt.Sprintf("%s; failing since %s: %s", line, s.failingSince.UTC().Format(time.RFC3339), s.lastError)
}

// sizeOf returns the approximate size of a span in bytes.
func sizeOf(span sdktrace.ReadOnlySpan) int64 {
	size := spanOverhead + len(span.Status().Description)
	for _, a := range span.Attributes() {
		if a.Value.Type() == attribute.STRING {
			size += len(a.Value.AsString())
		}
	}
	return int64(size)
}

// isTurnSpan reports whether a span belongs to a turn. Only these are for Langfuse, not those of the gateway.
func isTurnSpan(span sdktrace.ReadOnlySpan) bool {
	for _, a := range span.Attributes() {
		if a.Key == keyLangfuseType {
			return true
		}
	}
	return false
}
