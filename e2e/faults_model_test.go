package e2e_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/app"
	"github.com/turnstone-run/turnstone/turnstonetest"
)

// TestProviderTrouble: a provider's outages are waited for, its refusals end the turn with words that name them.
func TestProviderTrouble(t *testing.T) {
	t.Parallel()
	const answer = "all is well again"
	cutOff := func(x *turnstonetest.Exchange) { x.Begin("all is "); x.Cut() }
	hangs := func(x *turnstonetest.Exchange) { x.Hold() }
	fallsSilent := func(x *turnstonetest.Exchange) { x.Begin("all is "); x.Hold() }
	for name, c := range map[string]struct {
		acts     []turnstonetest.Reply
		requests int
		resets   int
		apart    time.Duration // at least, between the first two requests
		failure  string        // of the turn, in words of ours; empty: it completes
		final    bool          // another try would fail too
	}{
		"500":                  {acts: []turnstonetest.Reply{turnstonetest.Refuse(500, ""), turnstonetest.Say(answer)}, requests: 2},
		"429 with Retry-After": {acts: []turnstonetest.Reply{turnstonetest.Refuse(429, "2"), turnstonetest.Say(answer)}, requests: 2, apart: 2 * time.Second},
		"cut off mid-stream":   {acts: []turnstonetest.Reply{cutOff, turnstonetest.Say(answer)}, requests: 2, resets: 1},
		"hangs once":           {acts: []turnstonetest.Reply{hangs, turnstonetest.Say(answer)}, requests: 2},
		"falls silent":         {acts: []turnstonetest.Reply{fallsSilent, turnstonetest.Say(answer)}, requests: 2, resets: 1},
		"cut off twice":        {acts: []turnstonetest.Reply{cutOff, cutOff, turnstonetest.Say(answer)}, requests: 3, resets: 2},
		"401 always":           {acts: []turnstonetest.Reply{turnstonetest.Refuse(401, "")}, requests: 1, failure: "credentials or account (401, 402 or 403)", final: true},
		"500 always":           {acts: []turnstonetest.Reply{turnstonetest.Refuse(500, "")}, requests: 3, failure: "(5xx)"},
		"hangs always":         {acts: []turnstonetest.Reply{hangs}, requests: 3, failure: "does not answer"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			provider := turnstonetest.NewModel(t, c.acts...)
			s := start(t, provider.Use, func(c *app.Config) { c.LLM.TimeoutSec, c.LLM.MaxRetries = 1, 2 })
			receipt, err := s.client.Start(t.Context(), agent.TurnRequest{Message: "hello", SessionID: "trouble"})
			require.NoError(t, err)
			out, events := s.follow(t.Context(), receipt.TurnID)
			asked := provider.Requests()
			require.Equal(t, c.requests, len(asked), "requests") //nolint:testifylint // Len would print them
			require.Equal(t, c.resets, count(events, agent.EventReset))
			if c.apart > 0 {
				require.GreaterOrEqual(t, asked[1].At.Sub(asked[0].At), c.apart)
			}
			if c.failure == "" {
				require.Equal(t, agent.TurnCompleted, out.Status, "%+v", out.Error)
				require.Equal(t, answer, out.Output)
			} else {
				require.Equal(t, agent.TurnFailed, out.Status)
				require.Equal(t, agent.StopModelError, out.StopReason)
				require.NotNil(t, out.Error)
				require.Contains(t, out.Error.Message, c.failure)
				require.NotContains(t, out.Error.Message, "test-key")
				require.NotContains(t, out.Error.Message, "script refuses", "the provider's words are for the log")
				require.Equal(t, string(agent.CodeUnavailable), out.Error.Type, "what the provider does not allow us is nothing that the caller may not")
				require.Equal(t, !c.final, out.Error.Retryable)
			}
			s.sound("", receipt)
		})
	}
}
