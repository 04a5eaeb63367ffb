//go:build linux

package e2e_test

import (
	"errors"
	"fmt"
	"regexp"
	"sync"
	"testing"
	"time"

	"github.com/turnstone-run/turnstone/turnstonetest"
)

// BenchmarkBurst is 3,000 requests at the same moment. Each is refused early, or its turn runs exactly once; not-once is how many requests were neither:
// accepted and not asked of the model once, refused and run all the same, or stored without an answer. p99/alone is the time of the accepted ones as a
// multiple of that of turns that run one at a time.
func BenchmarkBurst(b *testing.B) {
	binary := build(b, "../worker")
	for _, name := range targets {
		b.Run(name, func(b *testing.B) {
			provider := turnstonetest.NewModel(b, answerOf(20))
			t := openTarget(b, name, binary, provider)
			var alone latency
			for range 200 {
				alone.add(b, func(first func()) error { return t.ask(b.Context(), "hello", func(string) { first() }) })
			}
			s := burst{target: t, accepted: map[string]bool{}}
			for b.Loop() {
				s.send(b, 3000)
			}
			each := func(n int, unit string) { b.ReportMetric(float64(n)/float64(b.N), unit) }
			each(len(s.accepted), "accepted")
			each(len(s.refused), "refused")
			each(s.failed, "errors")
			each(s.notOnce(b, provider, len(alone.whole)), "not-once")
			b.ReportMetric(quantile(s.refused, 0.99), "refused-p99-ms")
			b.ReportMetric(quantile(s.took, 0.99), "p99-ms")
			b.ReportMetric(quantile(s.took, 0.99)/quantile(alone.whole, 0.99), "p99/alone")
			b.ReportMetric(0, "ns/op")
		})
	}
}

// burst counts the outcomes of many requests that are sent at once.
type burst struct {
	*target
	sync.Mutex
	sent          int
	accepted      map[string]bool // messages
	failed        int
	took, refused []time.Duration // times of those that were accepted, and of those that were not
}

func (s *burst) send(b *testing.B, n int) {
	b.Helper()
	var clients sync.WaitGroup
	gate := make(chan struct{})
	for range n {
		s.sent++
		message := fmt.Sprintf("request %d.", s.sent)
		clients.Go(func() {
			<-gate
			began := time.Now()
			err := s.ask(b.Context(), message, func(string) {})
			took := time.Since(began)
			s.Lock()
			defer s.Unlock()
			var refusal *refusedError
			switch {
			case err == nil:
				s.accepted[message] = true
				s.took = append(s.took, took)
			case errors.As(err, &refusal):
				s.refused = append(s.refused, took)
			default:
				s.failed++
				b.Log(message, err)
			}
		})
	}
	close(gate)
	clients.Wait()
}

// notOnce counts the requests that did not run exactly once, by the model's requests and the stored turns. before is how many turns were stored
// before the burst.
func (s *burst) notOnce(b *testing.B, provider *turnstonetest.Model, before int) (n int) {
	b.Helper()
	asked, form := map[string]int{}, regexp.MustCompile(`request \d+\.`)
	for _, r := range provider.Requests() {
		if message := form.FindString(r.Body); message != "" {
			asked[message]++
		}
	}
	for message, times := range asked {
		if times != 1 || !s.accepted[message] {
			b.Logf("%s accepted: %t, asked of the model %d times", message, s.accepted[message], times)
			n++
		}
	}
	for message := range s.accepted {
		if asked[message] == 0 {
			b.Logf("%s was accepted, and not asked of the model", message)
			n++
		}
	}
	if s.site != nil {
		n += max(s.number("SELECT count(*) FROM turns")-before-len(s.accepted), 0)
	}
	return n
}
