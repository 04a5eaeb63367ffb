package traces_test

import (
	"context"
	"strings"
	"testing"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/telemetry/traces"
	"github.com/turnstone-run/turnstone/internal/telemetry/traces/tracetest"
)

// nobody is what runs where traces are off in the configuration.
func nobody(b *testing.B) agent.Observer {
	b.Helper()
	return open(b, traces.Config{})
}

// BenchmarkObserver counts what runs in the background, gzip and the receiver included, but where the queue is full: that is what a turn
// waits for. It is a request, a tool call and the end of a turn, with a prompt of 20 KB.
func BenchmarkObserver(b *testing.B) {
	r := tracetest.Receive(b)
	at := func(mode traces.Content, ratio float64) agent.Observer {
		return open(b, traces.Config{
			Endpoint: r.HTTP, Content: mode, SampleRatio: ratio, Redact: func(s string) string { return strings.ReplaceAll(s, "secret", "[redacted]") },
		})
	}
	for _, bench := range []struct {
		name string
		tr   agent.Observer
	}{
		{"nobody", nobody(b)},
		{"sampled_out", at(traces.ContentOff, 1e-12)},
		{"off", at(traces.ContentOff, 1)},
		{"redacted", at(traces.ContentRedacted, 1)},
		{"full", at(traces.ContentFull, 1)},
		{"full_queue_full", open(b, traces.Config{Endpoint: r.HTTP, Content: traces.ContentFull, Limits: traces.Limits{Bytes: 1}})},
		{"off_queue_full", open(b, traces.Config{Endpoint: r.HTTP, Limits: traces.Limits{Bytes: 1}})},
	} {
		b.Run(bench.name, func(b *testing.B) {
			o, w := observed("bench"), plain()
			w.asked = strings.Repeat("x", 20_000)
			b.ReportAllocs()
			for b.Loop() {
				ctx, end := bench.tr.Work(context.Background(), agent.Work{Name: "CallModel", Turn: o, Attempt: 1, Step: 1})
				request(ctx, bench.tr, o, 1, w)
				end(nil)
				call(bench.tr, o, "a", w)
				finish(bench.tr, o, w)
			}
		})
	}
}
