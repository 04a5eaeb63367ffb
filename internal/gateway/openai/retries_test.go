package openai_test

import (
	"context"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/gateway"
	"github.com/turnstone-run/turnstone/internal/gateway/gatewaytest"
)

// turn is the turn that a request became.
func (a answer) turn() string { return a.header.Get("Turnstone-Turn-Id") }

const question = `{"model":"analyst","messages":[{"role":"user","content":"hello"}]}`

// hangUp sends the question and leaves before it is answered.
func (d *door) hangUp(header ...string) { d.hangUpAtOnce(1, header...) }

func (d *door) hangUpAtOnce(n int, header ...string) {
	d.t.Helper()
	ctx, leave := context.WithCancel(d.t.Context())
	var all sync.WaitGroup
	for range n {
		all.Go(func() {
			req, err := http.NewRequestWithContext(ctx, http.MethodPost, d.url+"/v1/chat/completions", strings.NewReader(question))
			if err != nil {
				return
			}
			req.Header.Set("Content-Type", "application/json")
			for i := 0; i+1 < len(header); i += 2 {
				req.Header.Set(header[i], header[i+1])
			}
			if resp, err := http.DefaultClient.Do(req); err == nil {
				_ = resp.Body.Close()
			}
		})
	}
	require.Eventually(d.t, func() bool { return d.rt.Followers() == n }, 20*time.Second, time.Millisecond)
	leave()
	all.Wait()
	require.Eventually(d.t, func() bool { return d.busy.Load() == 0 }, 20*time.Second, time.Millisecond)
}

func TestARepeatedRequestJoinsTheTurnOfItsFirstAttempt(t *testing.T) {
	d := open(t, func(c *gateway.Config) { c.Limits.WaitTimeout = 200 * time.Millisecond })
	d.script(running())
	d.hangUp()
	first := d.ask("")
	require.Equal(t, 503, first.status, "it goes on: %s", first.body)
	require.Equal(t, "turn-1", first.turn())
	d.rt.Emit("turn-1", says("model/1", "Hi."), ends("Hi.", nil))
	joined := d.ask("")
	require.Equal(t, 200, joined.status)
	require.Equal(t, "turn-1", joined.turn())
	require.Contains(t, joined.body, `"content":"Hi."`)

	d.script(ends("Hello again.", nil))
	require.Equal(t, "turn-2", d.ask("").turn(), "the question was answered: who asks again means it")
	require.Equal(t, "turn-2", d.ask("", "X-Stainless-Retry-Count", "1").turn(), "it says that it repeats")
	require.Equal(t, "turn-3", d.ask("", "X-Stainless-Retry-Count", "0").turn())
	require.Equal(t, "turn-4", d.ask(`,"temperature":1`).turn(), "another question")
}

func TestATurnThatWaitsIsJoined(t *testing.T) {
	d := open(t, nil)
	d.script(append([]agent.Event{running()}, asks("a1", "send_mail")...)...)
	for range 3 {
		a := d.ask("")
		require.Equal(t, 400, a.status)
		require.Equal(t, "turn-1", a.turn())
		require.Equal(t, "turn-2", d.ask(`,"stream":true`).turn(), "another question")
	}
	approved := agent.Event{Type: agent.EventApprovalResolved, Approval: &agent.Approval{ApprovalID: "a1"}}
	d.rt.Emit("turn-1", approved, running(), says("model/2", "Sent."), ends("Sent.", nil))
	require.Contains(t, d.ask("").body, "Sent.")
	require.Equal(t, "turn-3", d.ask("").turn())
}

func TestIdenticalRequestsAtOnceAreTurnsOfTheirOwn(t *testing.T) {
	const samples = 8
	d := open(t, nil)
	d.script(running())
	answers := make(chan answer, samples)
	for range samples {
		go func() { answers <- d.ask("") }()
	}
	require.Eventually(t, func() bool { return d.rt.Followers() == samples }, 20*time.Second, time.Millisecond)
	turns := map[agent.TurnID]bool{}
	for _, e := range []string{"turn-1", "turn-2", "turn-3", "turn-4", "turn-5", "turn-6", "turn-7", "turn-8"} {
		d.rt.Emit(agent.TurnID(e), ends("done", nil))
	}
	for range samples {
		a := <-answers
		require.Equal(t, 200, a.status)
		turns[agent.TurnID(a.turn())] = true
	}
	require.Len(t, turns, samples)
}

// TestEachUnansweredTurnIsJoinedOnce: of identical requests that broke off, as many repetitions find a turn each.
func TestEachUnansweredTurnIsJoinedOnce(t *testing.T) {
	d := open(t, nil)
	d.script(running())
	d.hangUpAtOnce(3)
	answers, turns := make(chan answer, 3), map[string]bool{}
	for range 3 {
		go func() { answers <- d.ask("") }()
	}
	require.Eventually(t, func() bool { return d.rt.Followers() == 3 }, 20*time.Second, time.Millisecond)
	for _, id := range []agent.TurnID{"turn-1", "turn-2", "turn-3"} {
		d.rt.Emit(id, ends("done", nil))
	}
	for range 3 {
		turns[(<-answers).turn()] = true
	}
	require.Equal(t, map[string]bool{"turn-1": true, "turn-2": true, "turn-3": true}, turns)
}

func TestACancelledTurnIsNotJoined(t *testing.T) {
	d := open(t, nil)
	d.rt.Cancelled = func(id agent.TurnID, _ agent.CancelRequest) error {
		d.rt.Emit(id, ends("", stopped(agent.TurnCancelled, agent.StopCancelled)))
		return nil
	}
	d.script(running())
	d.hangUp("Turnstone-On-Disconnect", "cancel")
	d.script(ends("done", nil))
	a := d.ask("", "Turnstone-On-Disconnect", "cancel", "X-Stainless-Retry-Count", "1")
	require.Equal(t, 200, a.status, "%s", a.body)
	require.Equal(t, "turn-2", a.turn())
}

// TestAnotherGatewayKnowsTheFirstAttempt: the gateway of the first attempt has died, or the repetition reached another one.
func TestAnotherGatewayKnowsTheFirstAttempt(t *testing.T) {
	rt := gatewaytest.New()
	one := openWith(t, rt, &gatewaytest.Catalog{}, nil)
	other := openWith(t, rt, &gatewaytest.Catalog{}, nil)
	one.script(running())
	one.hangUp()
	got := make(chan answer, 1)
	go func() { got <- other.ask("") }()
	require.Eventually(t, func() bool { return rt.Followers() == 1 }, 20*time.Second, time.Millisecond)
	rt.Emit("turn-1", ends("done", nil))
	require.Equal(t, "turn-1", (<-got).turn())

	one.script(ends("done", nil))
	third := openWith(t, rt, &gatewaytest.Catalog{}, nil)
	require.Equal(t, "turn-2", third.ask("").turn(), "that one ended long ago")
}

func TestTheClientsKeyWins(t *testing.T) {
	d := open(t, nil)
	d.script(ends("done", nil))
	require.Equal(t, "turn-1", d.ask("", "Idempotency-Key", "a").turn())
	require.Equal(t, "turn-1", d.ask("", "Idempotency-Key", "a").turn())
	require.Equal(t, "turn-2", d.ask("", "Idempotency-Key", "b").turn())
	require.Equal(t, "a", d.rt.Submitted()[0].Request.IdempotencyKey)
}

// TestAKeyOfAForgottenTurnIsGivenUp: the first of identical requests has a key that a turn had which was deleted since.
func TestAKeyOfAForgottenTurnIsGivenUp(t *testing.T) {
	d := open(t, nil)
	refusals := 0
	d.rt.Refuse = func(agent.Envelope) error {
		if refusals++; refusals == 1 {
			return agent.FieldErrorf(agent.CodeConflict, "idempotency_key", "was used by a turn that is not kept any more")
		}
		return nil
	}
	d.script(ends("done", nil))
	require.Equal(t, 200, d.ask("").status)
	require.Equal(t, 2, refusals)
}
