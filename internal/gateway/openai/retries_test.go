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

// turn returns the id of the request's turn.
func (a answer) turn() string { return a.header.Get("Turnstone-Turn-Id") }

const question = `{"model":"analyst","messages":[{"role":"user","content":"hello"}]}`

// disconnect sends a question n times at once, and disconnects before it is answered.
func (d *door) disconnect(n int, header ...string) {
	d.t.Helper()
	ctx, cancel := context.WithCancel(d.t.Context())
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
	cancel()
	all.Wait()
	require.Eventually(d.t, func() bool { return d.inProgress.Load() == 0 }, 20*time.Second, time.Millisecond)
}

func TestRetryJoinsTheTurn(t *testing.T) {
	d := open(t, func(c *gateway.Config) { c.Limits.WaitTimeout = 200 * time.Millisecond })
	d.script(running())
	d.disconnect(1)
	first := d.complete("")
	require.Equal(t, 503, first.status, "the turn is running: %s", first.body)
	require.Equal(t, "turn-1", first.turn())
	d.rt.Emit("turn-1", token("model/1", "Hi."), terminal("Hi.", nil))
	joined := d.complete("")
	require.Equal(t, 200, joined.status)
	require.Equal(t, "turn-1", joined.turn())
	require.Contains(t, joined.body, `"content":"Hi."`)

	d.script(terminal("Hello again.", nil))
	require.Equal(t, "turn-2", d.complete("").turn(), "an identical request after an answer is a new turn")
	require.Equal(t, "turn-2", d.complete("", "X-Stainless-Retry-Count", "1").turn(), "the header says that the request is a retry")
	require.Equal(t, "turn-3", d.complete("", "X-Stainless-Retry-Count", "0").turn())
	require.Equal(t, "turn-4", d.complete(`,"temperature":1`).turn(), "another question")
}

func TestRetryJoinsWaitingTurn(t *testing.T) {
	d := open(t, nil)
	d.script(append([]agent.Event{running()}, approvalRequest("a1", "send_mail")...)...)
	for range 3 {
		a := d.complete("")
		require.Equal(t, 400, a.status)
		require.Equal(t, "turn-1", a.turn())
		require.Equal(t, "turn-2", d.complete(`,"stream":true`).turn(), "another question")
	}
	approved := agent.Event{Type: agent.EventApprovalResolved, Approval: &agent.Approval{ApprovalID: "a1"}}
	d.rt.Emit("turn-1", approved, running(), token("model/2", "Sent."), terminal("Sent.", nil))
	require.Contains(t, d.complete("").body, "Sent.")
	require.Equal(t, "turn-3", d.complete("").turn())
}

func TestConcurrentIdenticalRequests(t *testing.T) {
	const samples = 8
	d := open(t, nil)
	d.script(running())
	answers := make(chan answer, samples)
	for range samples {
		go func() { answers <- d.complete("") }()
	}
	require.Eventually(t, func() bool { return d.rt.Followers() == samples }, 20*time.Second, time.Millisecond)
	turns := map[agent.TurnID]bool{}
	for _, e := range []string{"turn-1", "turn-2", "turn-3", "turn-4", "turn-5", "turn-6", "turn-7", "turn-8"} {
		d.rt.Emit(agent.TurnID(e), terminal("done", nil))
	}
	for range samples {
		a := <-answers
		require.Equal(t, 200, a.status)
		turns[agent.TurnID(a.turn())] = true
	}
	require.Len(t, turns, samples)
}

// The retries of several identical requests join a different turn each.
func TestRetriesJoinDifferentTurns(t *testing.T) {
	d := open(t, nil)
	d.script(running())
	d.disconnect(3)
	answers, turns := make(chan answer, 3), map[string]bool{}
	for range 3 {
		go func() { answers <- d.complete("") }()
	}
	require.Eventually(t, func() bool { return d.rt.Followers() == 3 }, 20*time.Second, time.Millisecond)
	for _, id := range []agent.TurnID{"turn-1", "turn-2", "turn-3"} {
		d.rt.Emit(id, terminal("done", nil))
	}
	for range 3 {
		turns[(<-answers).turn()] = true
	}
	require.Equal(t, map[string]bool{"turn-1": true, "turn-2": true, "turn-3": true}, turns)
}

func TestCancelledTurnIsNotJoined(t *testing.T) {
	d := open(t, nil)
	d.rt.Cancelled = func(id agent.TurnID, _ agent.CancelRequest) error {
		d.rt.Emit(id, terminal("", stoppedBy(agent.TurnCancelled, agent.StopCancelled)))
		return nil
	}
	d.script(running())
	d.disconnect(1, "Turnstone-On-Disconnect", "cancel")
	d.script(terminal("done", nil))
	a := d.complete("", "Turnstone-On-Disconnect", "cancel", "X-Stainless-Retry-Count", "1")
	require.Equal(t, 200, a.status, "%s", a.body)
	require.Equal(t, "turn-2", a.turn())
}

// A retry at another gateway joins the turn of the first attempt.
func TestRetryAtAnotherGateway(t *testing.T) {
	rt := gatewaytest.New()
	first := openOver(t, rt, &gatewaytest.Catalog{}, nil)
	second := openOver(t, rt, &gatewaytest.Catalog{}, nil)
	first.script(running())
	first.disconnect(1)
	got := make(chan answer, 1)
	go func() { got <- second.complete("") }()
	require.Eventually(t, func() bool { return rt.Followers() == 1 }, 20*time.Second, time.Millisecond)
	rt.Emit("turn-1", terminal("done", nil))
	require.Equal(t, "turn-1", (<-got).turn())

	first.script(terminal("done", nil))
	third := openOver(t, rt, &gatewaytest.Catalog{}, nil)
	require.Equal(t, "turn-2", third.complete("").turn(), "that turn ended before the retry window")
}

func TestIdempotencyKey(t *testing.T) {
	d := open(t, nil)
	d.script(terminal("done", nil))
	require.Equal(t, "turn-1", d.complete("", "Idempotency-Key", "a").turn())
	require.Equal(t, "turn-1", d.complete("", "Idempotency-Key", "a").turn())
	require.Equal(t, "turn-2", d.complete("", "Idempotency-Key", "b").turn())
	require.Equal(t, "a", d.rt.Submitted()[0].Request.IdempotencyKey)
}

// If the derived key belongs to a turn that was deleted, the request gets another key.
func TestKeyOfDeletedTurn(t *testing.T) {
	d := open(t, nil)
	refusals := 0
	d.rt.Refuse = func(agent.Envelope) error {
		if refusals++; refusals == 1 {
			return agent.FieldErrorf(agent.CodeConflict, "idempotency_key", "was used by a turn that is not kept any more")
		}
		return nil
	}
	d.script(terminal("done", nil))
	require.Equal(t, 200, d.complete("").status)
	require.Equal(t, 2, refusals)
}
