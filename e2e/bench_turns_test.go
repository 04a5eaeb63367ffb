//go:build linux

package e2e_test

import (
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/turnstonetest"
)

// BenchmarkFirstToken is a turn that runs alone and whose model answers at once with one word: medians of the time to that word and to the end
// of the turn. Each turn is followed by the same question to a plain relay: over-relay-ms is how much later the word comes, turn/relay how many
// times as long the whole takes.
func BenchmarkFirstToken(b *testing.B) {
	binary := build(b, "../worker")
	for _, name := range targets[1:] {
		b.Run(name, func(b *testing.B) {
			provider := turnstonetest.NewModel(b, answerOf(1))
			t, plain := openTarget(b, name, binary, provider), openTarget(b, relayTarget, binary, provider)
			ask := func(t *target) func(first func()) error {
				return func(first func()) error { return t.ask(b.Context(), "hello", func(string) { first() }) }
			}
			var warm, turns, relayed latency
			for range 20 {
				warm.add(b, ask(t))
				warm.add(b, ask(plain))
			}
			for b.Loop() {
				turns.add(b, ask(t))
				relayed.add(b, ask(plain))
			}
			first, whole := quantile(turns.first, 0.5), quantile(turns.whole, 0.5)
			b.ReportMetric(first, "first-ms")
			b.ReportMetric(first-quantile(relayed.first, 0.5), "over-relay-ms")
			b.ReportMetric(whole, "turn-ms")
			b.ReportMetric(whole/quantile(relayed.whole, 0.5), "turn/relay")
			b.ReportMetric(0, "ns/op")
		})
	}
}

// BenchmarkTurns is how many turns a second go through one process, and what each costs it, PostgreSQL and Temporal in processor time and bytes: an
// answer of 100 words with 1, 16 and 64 turns at once, and a turn with one tool call with 16. cpu/relay is the processor time of all of them as a
// multiple of what a plain relay takes for the answer alone.
func BenchmarkTurns(b *testing.B) {
	binary, relayed := build(b, "../worker"), baseline{}
	fetch := turnstonetest.Call("execute_pipeline", `{"session_id":"s","pipeline":[{"step":"http_request","url":"`+turnstonetest.FlightsURL(b)+
		`/flights","method":"GET"},{"step":"sort","by":"price"},{"step":"limit","n":3}]}`)
	provider := turnstonetest.NewModel(b, func(x *turnstonetest.Exchange) {
		if strings.Contains(x.Body, "use the tool") && !strings.Contains(x.Body, `"role":"tool"`) {
			fetch(x)
		} else {
			answerOf(100)(x)
		}
	})
	for _, name := range targets {
		b.Run(name, func(b *testing.B) {
			t := openTarget(b, name, binary, provider)
			for _, atOnce := range []int{1, 16, 64} {
				b.Run("answer/"+strconv.Itoa(atOnce), func(b *testing.B) { t.runTurns(b, atOnce, "answer", relayed) })
			}
			if name != relayTarget {
				b.Run("tool/16", func(b *testing.B) { t.runTurns(b, 16, "use the tool", relayed) })
			}
		})
	}
}

// runTurns reports what turns cost, so many at once. A client that is refused comes again.
func (t *target) runTurns(b *testing.B, atOnce int, message string, relayed baseline) {
	b.Helper()
	var refused atomic.Int64
	ask := func() error {
		refusals, err := t.askUntilAccepted(b.Context(), message, func(string) {})
		refused.Add(int64(refusals))
		return err
	}
	require.NoError(b, ask()) // what is made once is made
	before := t.read(b)
	runAtOnce(b, atOnce, ask)
	relayed.compare(b, t, atOnce, t.report(b, before, float64(b.N), "turn"))
	b.ReportMetric(float64(refused.Load()), "refused")
	b.ReportMetric(0, "ns/op")
}
