package turns_test

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/middleware"
	"github.com/turnstone-run/turnstone/internal/turns"
)

// testMiddleware is a middleware made of functions.
type testMiddleware struct {
	agent.Pass

	jumpsTo []agent.Jump
	before  func(ctx context.Context, inv agent.Invocation, req *agent.ModelRequest) (agent.Jump, error)
	after   func(reply *agent.ModelReply) (agent.Jump, error)
	gate    func(c agent.GatedCall, so agent.GateVerdict) agent.GateVerdict
	wrap    func(next agent.ToolFunc) agent.ToolFunc
}

func (m *testMiddleware) WrapTool(next agent.ToolFunc) agent.ToolFunc {
	if m.wrap == nil {
		return next
	}
	return m.wrap(next)
}

func (m *testMiddleware) CanJumpTo() []agent.Jump { return m.jumpsTo }

func (m *testMiddleware) BeforeModel(ctx context.Context, inv agent.Invocation, req *agent.ModelRequest) (agent.Jump, error) {
	if m.before == nil {
		return "", nil
	}
	return m.before(ctx, inv, req)
}

func (m *testMiddleware) AfterModel(_ context.Context, _ agent.Invocation, reply *agent.ModelReply) (agent.Jump, error) {
	if m.after == nil {
		return "", nil
	}
	return m.after(reply)
}

func (m *testMiddleware) Gate(c agent.GatedCall, so agent.GateVerdict) (agent.GateVerdict, error) {
	if m.gate == nil {
		return so, nil
	}
	return m.gate(c, so), nil
}

// Chain is the middleware of every plan.
func (m *testMiddleware) Chain(*agent.Plan) ([]agent.Middleware, error) {
	return []agent.Middleware{m}, nil
}

func withMiddleware(m *testMiddleware) func(*turns.Config) {
	return func(c *turns.Config) { c.Middleware = m }
}

func TestJumps(t *testing.T) {
	answer := func(_ context.Context, _ agent.Invocation, req *agent.ModelRequest) (agent.Jump, error) {
		req.Answer = []agent.Block{agent.Text("no need to ask")}
		return agent.JumpEnd, nil
	}
	again := func(reply *agent.ModelReply) (agent.Jump, error) {
		reply.Feedback = "shorter, please"
		return agent.JumpModel, nil
	}
	cases := map[string]struct {
		m     testMiddleware
		asked int
		want  agent.Jump
		fault string
		text  string
	}{
		"end before the model":    {m: testMiddleware{jumpsTo: []agent.Jump{agent.JumpEnd}, before: answer}, want: agent.JumpEnd, text: "no need to ask"},
		"undeclared":              {m: testMiddleware{before: answer}, fault: "does not declare"},
		"model before the model":  {m: testMiddleware{jumpsTo: []agent.Jump{agent.JumpModel}, before: jumpTo(agent.JumpModel)}, fault: "only \"end\""},
		"model after the model":   {m: testMiddleware{jumpsTo: []agent.Jump{agent.JumpModel}, after: again}, asked: 1, want: agent.JumpModel, text: "hi"},
		"undeclared, after":       {m: testMiddleware{jumpsTo: []agent.Jump{agent.JumpEnd}, after: again}, asked: 1, fault: "does not declare", text: "hi"},
		"declared and not used":   {m: testMiddleware{jumpsTo: []agent.Jump{agent.JumpEnd}}, asked: 1, text: "hi"},
		"a jump that is no jump":  {m: testMiddleware{before: jumpTo(agent.JumpNone)}, asked: 1, text: "hi"},
		"an answer with no words": {m: testMiddleware{jumpsTo: []agent.Jump{agent.JumpEnd}, before: jumpTo(agent.JumpEnd)}, want: agent.JumpEnd},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			h := newHarness(t, withMiddleware(&c.m))
			h.begin(agent.TurnRequest{TurnID: "t1"})
			h.model.script(says("hi"), says("x"))
			v := h.callModel("t1", 1)
			require.Len(t, h.model.seen, c.asked)
			if c.fault != "" {
				require.Contains(t, v.Failure.Message, c.fault)
				return
			}
			require.Nil(t, v.Failure)
			require.Equal(t, c.want, v.Jump)
			require.Equal(t, c.text, shown(h.events("t1")))
			models, _, err := h.store.Steps(t.Context(), "t1")
			require.NoError(t, err)
			require.Equal(t, c.text, agent.Normalize(models[0].Blocks))
			if c.want != agent.JumpModel {
				return
			}
			h.callModel("t1", 2)
			last := h.model.seen[1].Messages
			require.Equal(t, agent.UserText("shorter, please"), last[len(last)-1])
		})
	}
}

func jumpTo(j agent.Jump) func(context.Context, agent.Invocation, *agent.ModelRequest) (agent.Jump, error) {
	return func(context.Context, agent.Invocation, *agent.ModelRequest) (agent.Jump, error) { return j, nil }
}

// TestMiddlewareAsksAndNotes: a request of a middleware is billed to the step and not streamed, and a note is still there in the next
// step.
func TestMiddlewareAsksAndNotes(t *testing.T) {
	var noted []json.RawMessage
	m := &testMiddleware{before: func(ctx context.Context, inv agent.Invocation, req *agent.ModelRequest) (agent.Jump, error) {
		note, err := inv.Note(ctx, "sum")
		if err != nil {
			return "", err
		}
		noted = append(noted, note)
		reply, err := inv.Ask(ctx, agent.ModelRequest{Profile: "other", Messages: req.Messages})
		if err != nil {
			return "", err
		}
		return "", inv.SetNote(ctx, "sum", json.RawMessage(`"`+agent.Normalize(reply.Blocks)+`"`))
	}}
	h := newHarness(t, withMiddleware(m))
	h.begin(agent.TurnRequest{TurnID: "t1", SessionID: "s1"})
	h.model.script(says("a summary"), says("hello"), says("another"), says("again"))
	v := h.callModel("t1", 1)
	require.Equal(t, 2, v.Requests)
	require.Equal(t, int64(200), v.Usage.InputTokens)
	require.Equal(t, "scripted-2", h.model.seen[0].Model)
	require.Equal(t, "hello", shown(h.events("t1")))
	require.Equal(t, 2, count(h.events("t1"), agent.EventUsage))
	h.callModel("t1", 2)
	require.Nil(t, noted[0])
	require.JSONEq(t, `"a summary"`, string(noted[1]))
	require.Equal(t, 0, count(h.events("t1"), agent.EventReset))
}

// TestModelRetryOfARequestOfMiddleware: model_retry also retries requests of middleware. If all tries fail, the middleware gets an error.
func TestModelRetryOfARequestOfMiddleware(t *testing.T) {
	fails := func(code agent.Code, after time.Duration, then func()) modelStep {
		return func(context.Context, agent.ModelRequest, func(agent.Delta) error) (agent.ModelReply, error) {
			then()
			return agent.ModelReply{Usage: agent.Usage{InputTokens: 7}}, &agent.Error{Code: code, RetryAfter: after, Err: errors.New("away")}
		}
	}
	for name, c := range map[string]struct {
		options   string
		after     time.Duration
		patience  time.Duration // the timeout of the middleware; 0 for a minute
		cancelled bool
		requests  int
		answer    string
		err       string
	}{
		"comes back":            {after: 20 * time.Millisecond, requests: 3, answer: "a summary"},
		"is not to be repeated": {options: `{"max_retries":0,"on_failure":"continue"}`, requests: 2, err: "away"},
		"takes too long": {
			options: `{"max_retries":1}`, after: 30 * time.Second, patience: 50 * time.Millisecond, requests: 2, err: "deadline exceeded",
		},
		"is cancelled meanwhile": {
			options: `{"max_retries":1}`, after: 30 * time.Second, cancelled: true, requests: 1, err: "the turn was cancelled",
		},
	} {
		t.Run(name, func(t *testing.T) {
			var answer string
			var failed error
			m := &testMiddleware{before: func(ctx context.Context, inv agent.Invocation, req *agent.ModelRequest) (agent.Jump, error) {
				ctx, free := context.WithTimeout(ctx, cmp.Or(c.patience, time.Minute))
				defer free()
				reply, err := inv.Ask(ctx, agent.ModelRequest{Messages: req.Messages})
				answer, failed = agent.Normalize(reply.Blocks), err
				return "", nil
			}}
			set, err := middleware.NewSet(append(middleware.Builtin(1, nil), middleware.Named{
				Name: "asks", New: func(json.RawMessage) (agent.Middleware, error) { return m, nil },
			})...)
			require.NoError(t, err)
			h := newHarness(t, func(cfg *turns.Config) { cfg.Middleware = set })
			h.catalog.change(func(p *agent.Plan) {
				p.Middleware = []agent.PlanMiddleware{{Name: "asks"}}
				if c.options != "" {
					p.Middleware = append(p.Middleware, agent.PlanMiddleware{Name: "model_retry", Options: json.RawMessage(c.options)})
				}
			})
			h.begin(agent.TurnRequest{TurnID: "t1", SessionID: "s1"})
			h.model.script(fails(agent.CodeUnavailable, c.after, func() {
				if c.cancelled {
					require.NoError(t, h.MarkCancelled(t.Context(), "t1"))
				}
			}), says("a summary"), says("hello"))
			started := time.Now()
			v := h.callModel("t1", 1)
			require.Nil(t, v.Failure)
			require.Equal(t, c.cancelled, v.Cancelled)
			require.Len(t, h.model.seen, c.requests)
			require.Equal(t, c.answer, answer)
			require.Less(t, time.Since(started), 15*time.Second, "cancelling ends the wait")
			if c.err == "" {
				require.NoError(t, failed)
				require.GreaterOrEqual(t, time.Since(started), c.after, "the call waits for Retry-After")
				require.Equal(t, int64(7+100+100), v.Usage.InputTokens, "the usage of the failed try counts")
			} else {
				require.ErrorContains(t, failed, c.err)
			}
		})
	}
}
