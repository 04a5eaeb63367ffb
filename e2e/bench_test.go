package e2e_test

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/app"
	"github.com/turnstone-run/turnstone/internal/llm"
	"github.com/turnstone-run/turnstone/internal/llm/llmtest"
)

// answerOf is a model that says so many words without a pause.
func answerOf(words int) act { return says(strings.TrimSpace(strings.Repeat("word ", words))) }

// BenchmarkFirstToken is the time from the request to the first word of the answer: of a streaming call to the model itself, of a direct
// turn and of a durable one, over HTTP, side by side. ns/op is that time; total-ms is the time to the end of the turn.
func BenchmarkFirstToken(b *testing.B) {
	provider := newScript(b, answerOf(20))
	s := start(b, provider.model)
	b.Run("plain", func(b *testing.B) {
		models, err := llm.Open(llm.Settings{Providers: []llm.Provider{llm.OpenAI(llm.Config{
			APIKey: "test-key", BaseURL: llmtest.OpenAI{}.BaseURL(provider.server.URL),
		})}})
		require.NoError(b, err)
		model, err := models.Model(b.Context(), agent.PlanModel{Profile: "p", Provider: app.ProviderOpenAI, Model: llmtest.ModelName})
		require.NoError(b, err)
		req := agent.ModelRequest{Model: llmtest.ModelName, Messages: []agent.Message{agent.UserText("hello")}}
		measure(b, func(first func()) error {
			_, err := model.Generate(b.Context(), req, func(agent.Delta) error { first(); return nil })
			return err
		})
	})
	for _, mode := range []agent.Mode{agent.ModeDirect, agent.ModeDurable} {
		b.Run(string(mode), func(b *testing.B) {
			measure(b, func(first func()) error { return s.turn(b.Context(), mode, first) })
		})
	}
}

// measure reports the time to first as the time of an operation, and the whole beside it.
func measure(b *testing.B, do func(first func()) error) {
	b.Helper()
	require.NoError(b, do(func() {})) // what is made once is made
	var toFirst, total time.Duration
	for b.Loop() {
		began := time.Now()
		var once sync.Once
		err := do(func() { once.Do(func() { toFirst += time.Since(began) }) })
		require.NoError(b, err)
		total += time.Since(began)
	}
	b.ReportMetric(float64(toFirst.Nanoseconds())/float64(b.N), "ns/op")
	b.ReportMetric(total.Seconds()*1e3/float64(b.N), "total-ms")
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

// BenchmarkTurns is how many turns a second go through one process, by how many run at once: turns/s is the figure, ns/op its inverse.
func BenchmarkTurns(b *testing.B) {
	provider := newScript(b, answerOf(20))
	s := start(b, provider.model)
	http.DefaultTransport.(*http.Transport).MaxIdleConnsPerHost = 64
	for _, mode := range []agent.Mode{agent.ModeDirect, agent.ModeDurable} {
		for _, atOnce := range []int{1, 16, 64} {
			b.Run(string(mode)+"/"+strconv.Itoa(atOnce), func(b *testing.B) { s.throughput(b, mode, atOnce) })
		}
	}
}

// throughput reports turns a second, by how many run at once.
func (s *system) throughput(b *testing.B, mode agent.Mode, atOnce int) {
	b.Helper()
	require.NoError(b, s.turn(b.Context(), mode, func() {}))
	next := make(chan struct{})
	var wg sync.WaitGroup
	for range atOnce {
		wg.Go(func() {
			for range next {
				if err := s.turn(b.Context(), mode, func() {}); err != nil {
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
