package e2e_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/turnstonetest"
)

// answerOf is a model that says so many words without a pause.
func answerOf(words int) turnstonetest.Reply {
	return turnstonetest.Say(strings.TrimSpace(strings.Repeat("word ", words)))
}

// turn runs a turn through the HTTP door and says when its first word is there.
func (s *system) turn(ctx context.Context, mode agent.Mode, first func()) error {
	receipt, err := s.client.Start(ctx, agent.TurnRequest{Message: "hello", Mode: mode})
	if err != nil {
		return err
	}
	for e, err := range s.client.Follow(ctx, receipt.TurnID, 0) {
		if err != nil {
			return err
		}
		if e.Type == agent.EventToken {
			first()
		}
		if e.Terminal() && e.Status != agent.StatusCompleted {
			return errors.New(string(e.Status))
		}
	}
	return nil
}

// measure reports the time to first as the time of an operation, and the whole beside it.
func measure(b *testing.B, do func(first func()) error) {
	b.Helper()
	require.NoError(b, do(func() {})) // what is made once is made
	var l latency
	for b.Loop() {
		l.add(b, do)
	}
	b.ReportMetric(quantile(l.first, 0.5)*1e6, "ns/op")
	b.ReportMetric(quantile(l.whole, 0.5), "total-ms")
}

// latency is how long answers took, to the first word and to the end.
type latency struct{ first, whole []time.Duration }

// add asks once more.
func (l *latency) add(b *testing.B, do func(first func()) error) {
	b.Helper()
	began := time.Now()
	var once sync.Once
	err := do(func() { once.Do(func() { l.first = append(l.first, time.Since(began)) }) })
	require.NoError(b, err)
	l.whole = append(l.whole, time.Since(began))
}

// quantile returns what the given part of the times is not above, in milliseconds; 0 if there are none.
func quantile(times []time.Duration, part float64) float64 {
	if len(times) == 0 {
		return 0
	}
	slices.Sort(times)
	return times[int(part*float64(len(times)-1))].Seconds() * 1e3
}

// runAtOnce reports how many a second are done when n are at it.
func runAtOnce(b *testing.B, n int, do func() error) {
	b.Helper()
	require.NoError(b, do())
	next := make(chan struct{})
	var wg sync.WaitGroup
	for range n {
		wg.Go(func() {
			for range next {
				if err := do(); err != nil {
					b.Error(err)
				}
			}
		})
	}
	began := time.Now()
	for b.Loop() {
		next <- struct{}{}
	}
	close(next)
	wg.Wait()
	b.ReportMetric(float64(b.N)/time.Since(began).Seconds(), "turns/s")
}
