//go:build unix

package e2e_test

import (
	"net/http"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/app"
	"github.com/turnstone-run/turnstone/internal/telemetry/traces/tracetest"
	"github.com/turnstone-run/turnstone/turnstonetest"
)

// BenchmarkTelemetry is what traces cost a turn: processor time and turns a second with 16 at once, and the time to the first word of one alone, with traces off, on, and on with
// all content, side by side in rounds, so that a noisy machine is as noisy for each. The receiver is in this process too. Metrics are always on.
func BenchmarkTelemetry(b *testing.B) {
	http.DefaultTransport.(*http.Transport).MaxIdleConnsPerHost = 64
	provider := turnstonetest.NewModel(b, answerOf(20))
	receiver := tracetest.Receive(b)
	systems := map[string]*system{
		"off":     start(b, provider.Use),
		"on":      start(b, provider.Use, traced(receiver, app.ContentOff)),
		"content": start(b, provider.Use, traced(receiver, app.ContentFull)),
	}
	const rounds, atOnce = 3, 16
	for _, mode := range []agent.Mode{agent.ModeDurable, agent.ModeDirect} {
		for range rounds {
			for _, name := range []string{"off", "on", "content"} {
				s := systems[name]
				b.Run("turns/"+string(mode)+"/"+name, func(b *testing.B) {
					before := burnt(b)
					runAtOnce(b, atOnce, func() error { return s.turn(b.Context(), mode, func() {}) })
					b.ReportMetric((burnt(b)-before).Seconds()*1e3/float64(b.N), "cpu-ms/turn")
				})
				b.Run("first/"+string(mode)+"/"+name, func(b *testing.B) {
					measure(b, func(first func()) error { return s.turn(b.Context(), mode, first) })
				})
			}
		}
	}
}

// burnt is the processor time that this process has used: of the service, Temporal, the receiver, the model and the client.
func burnt(b *testing.B) time.Duration {
	b.Helper()
	var u syscall.Rusage
	require.NoError(b, syscall.Getrusage(syscall.RUSAGE_SELF, &u))
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
