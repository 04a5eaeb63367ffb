package openai_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/gateway/gatewaytest"
)

func TestProblems(t *testing.T) {
	atProvider := func(code agent.Code, message string) agent.Event {
		return terminal("", func(o *agent.AgentStepOutput) {
			o.Status, o.StopReason = agent.TurnFailed, agent.StopModelError
			o.Error = &agent.Failure{Type: string(code), Message: message, Retryable: true}
		})
	}
	half := []agent.Event{running(), token("model/1", "half"), terminal("half", stoppedBy(agent.TurnFailed, agent.StopModelError))}
	cases := map[string]struct {
		events []agent.Event
		want   problem
	}{
		"waits for a person": {append([]agent.Event{running(), token("model/1", "I will")}, approvalRequest("a1", "send_mail")...), problem{
			Type: "awaiting_approval", Code: "awaiting_approval",
			Message: "turn turn-1 waits for a person to decide on send_mail (a1): POST /v1/turns/turn-1/decisions",
		}},
		"the provider failed": {half, problem{Type: "turn_failed", Code: "model_error", Message: "the end was model_error"}},
		"a limit of cost": {
			[]agent.Event{terminal("", stoppedBy(agent.TurnFailed, agent.StopCost))}, problem{Type: "turn_failed", Code: "cost_limit", Message: "the end was cost_limit"},
		},
		"cancelled": {
			[]agent.Event{terminal("", stoppedBy(agent.TurnCancelled, agent.StopCancelled))},
			problem{Type: "turn_failed", Code: "cancelled", Message: "turn turn-1 ended as cancelled: cancelled"},
		},
		"too many requests at the provider": {
			[]agent.Event{atProvider(agent.CodeRateLimited, "slow down")}, problem{Type: "turn_failed", Code: "rate_limited", Message: "slow down"},
		},
		"no room at the provider": {
			[]agent.Event{atProvider(agent.CodeUnavailable, "overloaded")}, problem{Type: "turn_failed", Code: "unavailable", Message: "overloaded"},
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			d := open(t, nil)
			d.script(c.events...)
			a := d.complete("", "Idempotency-Key", "k")
			require.Equal(t, 400, a.status, "%s", a.body)
			require.Equal(t, "false", a.header.Get("X-Should-Retry"), "the same request again would end the same")
			require.Empty(t, a.header.Get("Retry-After"))
			p := a.problem(t)
			require.Equal(t, "turn-1", p.TurnID)
			if p.Type == "awaiting_approval" {
				require.Equal(t, "send_mail", p.Pending[0].ToolName)
			}
			p.TurnID, p.Pending = "", nil
			require.Equal(t, c.want, p)

			h := readStream(t, d.complete(`,"stream":true`, "Idempotency-Key", "k").body)
			require.Equal(t, c.want.Code, h.err.Code)
			require.Equal(t, c.want.Message, h.err.Message)
			require.Empty(t, h.finish)
		})
	}
}

func TestJoinAfterPause(t *testing.T) {
	d := open(t, nil)
	approved := agent.Event{Type: agent.EventApprovalResolved, Approval: &agent.Approval{ApprovalID: "a1"}}
	d.script(slices.Concat([]agent.Event{running()}, approvalRequest("a1", "send_mail"))...)
	require.Equal(t, 400, d.complete("", "Idempotency-Key", "k").status)
	d.rt.Emit("turn-1", approved, running(), token("model/2", "Sent."), terminal("Sent.", nil))
	a := d.complete("", "Idempotency-Key", "k")
	require.Equal(t, 200, a.status, "the same request again joins the turn: %s", a.body)
	require.Contains(t, a.body, `"content":"Sent."`)
	require.Equal(t, "Sent.", readStream(t, d.complete(`,"stream":true`, "Idempotency-Key", "k").body).content)
	require.Len(t, d.rt.Submitted(), 3)
}

func TestJoinedTurnWithExpiredEvents(t *testing.T) {
	for _, stream := range []string{"", `,"stream":true`} {
		t.Run("stream"+stream, func(t *testing.T) {
			d := open(t, nil)
			d.rt.Script = nil
			content := func(a answer) string {
				require.Equal(t, 200, a.status, "%s", a.body)
				if stream != "" {
					return readStream(t, a.body).content
				}
				_, rest, _ := strings.Cut(a.body, `"content":"`)
				text, _, _ := strings.Cut(rest, `"`)
				return text
			}
			_, err := d.rt.Submit(t.Context(), agent.Envelope{Request: agent.TurnRequest{IdempotencyKey: "k", Context: agent.InvocationContext{Tenant: "default"}}})
			require.NoError(t, err)
			d.rt.Emit("turn-1", running(), token("model/1", "Here "), token("model/1", "it "))
			d.rt.Expire(3)
			got := make(chan answer, 1)
			go func() { got <- d.complete(stream, "Idempotency-Key", "k") }()
			require.Eventually(t, func() bool { return d.rt.Followers() == 1 }, 20*time.Second, time.Millisecond)
			d.rt.Emit("turn-1", token("model/1", "is."), terminal("Here it is.", nil))
			require.Equal(t, "Here it is.", content(<-got), "it goes on")
			require.Equal(t, "Here it is.", content(d.complete(stream, "Idempotency-Key", "k")), "it is over")
		})
	}
}

func TestTerminalEventWithoutResult(t *testing.T) {
	d := open(t, nil)
	d.script(token("model/1", "x"), agent.Event{Type: agent.EventStatus, Status: agent.StatusCompleted, Result: &agent.AgentStepOutput{Status: agent.TurnCompleted}})
	require.Contains(t, d.complete("").body, `"content":"x"`)
}

func TestExpiredEventsWhileStreaming(t *testing.T) {
	d := open(t, nil)
	d.script(running(), token("model/1", "half"))
	resp := d.open(t.Context(), "POST", "/v1/chat/completions", `{"model":"analyst","stream":true,"messages":[{"role":"user","content":"x"}]}`)
	next := gatewaytest.Frames(t, resp.Body)
	for range 2 {
		next()
	}
	d.rt.Expire(9)
	d.rt.Emit("turn-1", token("model/1", "more"))
	event := next()
	p := newProblem(t, strings.TrimPrefix(event, "data: "))
	require.Equal(t, "gap", p.Code)
	require.Equal(t, "turn-1", p.TurnID)
	require.Empty(t, next())
}
