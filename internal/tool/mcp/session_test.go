package mcp

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/agent"
)

func TestProgress(t *testing.T) {
	overBoth(t, 60, func(t *testing.T, kit *fixture, scope agent.ToolScope) {
		inv := invocationOf(scope)
		var messages []string
		inv.Progress = func(m string) { messages = append(messages, m) }
		_, err := kit.find(t, scope, "progress").Call(t.Context(), inv, agent.ToolCall{ID: "c", Name: "progress", Args: json.RawMessage(`{"text":""}`)})
		require.NoError(t, err)
		require.NotEmpty(t, messages)
		require.Subset(t, []string{"step 1", "step 2", "step 3"}, messages)
	})
}

func TestSampling(t *testing.T) {
	var asked []agent.ModelRequest
	var tenants []string
	sample := func(_ context.Context, tenant string, r agent.ModelRequest) (agent.ModelReply, error) {
		asked, tenants = append(asked, r), append(tenants, tenant)
		if r.Messages[0].Blocks[0].Text == "break" {
			return agent.ModelReply{}, agent.Errorf(agent.CodeUnavailable, "call model", "key %s", secretValue)
		}
		return agent.ModelReply{Model: "m", Blocks: []agent.Block{agent.Text("yes")}}, nil
	}
	url := overHTTP(t, newServer(&world{}), nil)
	kit := newKit(t, Config{Sample: sample})
	refuse, allow := scopeOf(map[string]any{"url": url}), scopeOf(map[string]any{"url": url, "sampling": "allow"})

	result := kit.call(t, refuse, "ask", `{"text":"well?"}`)
	require.NotNil(t, result.Failure)
	require.Contains(t, result.Failure.Message, "sampling")
	require.Empty(t, asked)

	require.JSONEq(t, `"m says yes"`, string(kit.call(t, allow, "ask", `{"text":"well?"}`).Output))
	require.Equal(t, []string{"acme"}, tenants)
	require.Equal(t, []agent.ModelRequest{{System: "short", MaxTokens: 50, Messages: []agent.Message{agent.UserText("well?")}}}, asked)

	result = kit.call(t, allow, "ask", `{"text":"break"}`)
	require.NotNil(t, result.Failure)
	require.NotContains(t, result.Failure.Message, secretValue)

	without := newKit(t, Config{})
	require.NotNil(t, without.call(t, allow, "ask", `{"text":"well?"}`).Failure, "there is nobody to ask")
}

func TestParallelCalls(t *testing.T) {
	overBoth(t, 60, func(t *testing.T, kit *fixture, scope agent.ToolScope) {
		var all sync.WaitGroup
		var wrong atomic.Int64
		found, err := kit.Find(t.Context(), scope, "sum", `{"name":"sum"}`)
		require.NoError(t, err)
		for i := range 100 {
			all.Go(func() {
				result, err := found.Call(t.Context(), invocationOf(scope), agent.ToolCall{ID: "c", Name: "sum", Args: fmt.Appendf(nil, `{"a":%d,"b":1}`, i)})
				if err != nil || string(result.Output) != fmt.Sprintf(`{"sum":%d}`, i+1) {
					wrong.Add(1)
				}
			})
		}
		all.Wait()
		require.Zero(t, wrong.Load())
		kit.only(t)
	})
}

func TestSessionKeys(t *testing.T) {
	countKeys := func(scopes ...agent.ToolScope) int {
		keys := map[string]bool{}
		for i := range scopes {
			b, err := parseBinding(scopes[i].Parameters)
			require.NoError(t, err)
			key, err := b.key(&scopes[i])
			require.NoError(t, err)
			keys[key] = true
		}
		return len(keys)
	}
	url, local := scopeOf(map[string]any{"url": "https://a.example/mcp"}), scopeOf(map[string]any{"server": "local"})
	scopeFor := func(s agent.ToolScope, tenant string, auth ...string) agent.ToolScope {
		s.Tenant = tenant
		for _, name := range auth {
			s.Auth = append(s.Auth, agent.PlanAuth{Name: name})
		}
		return s
	}
	require.Equal(t, 2, countKeys(scopeFor(url, "a"), scopeFor(url, "b")), "tenants")
	require.Equal(t, 2, countKeys(scopeFor(url, "a"), scopeFor(url, "a", "key")), "credentials")
	require.Equal(t, 1, countKeys(scopeFor(local, "a"), scopeFor(local, "b", "key")), "tenants share a stdio server")
	asking := scopeOf(map[string]any{"server": "local", "sampling": "allow"})
	require.Equal(t, 3, countKeys(scopeFor(local, "a"), scopeFor(asking, "a"), scopeFor(asking, "b")), "a server that may ask a model asks it for one tenant")
	require.Equal(t, 1, countKeys(scopeFor(url, "a"), scopeFor(scopeOf(map[string]any{"url": "https://a.example/mcp", "prefix": "x", "timeout_sec": 5}), "a")))
}

func TestIdleSessionsEnd(t *testing.T) {
	kit := newKit(t, Config{Servers: []Server{stdioServer("local", "tools")}})
	kit.pool.times.idle = time.Millisecond
	scope := scopeOf(map[string]any{"server": "local"})
	_, err := kit.List(t.Context(), scope)
	require.NoError(t, err)
	require.Eventually(t, func() bool {
		kit.pool.mu.Lock()
		defer kit.pool.mu.Unlock()
		return len(kit.pool.slots) == 0
	}, 10*time.Second, time.Millisecond)
	_, err = kit.List(t.Context(), scope)
	require.NoError(t, err, "it is opened again")
}

func TestStaleSessionIsPinged(t *testing.T) {
	w := &world{}
	g, url := gated(t, w)
	kit := newKit(t, Config{})
	kit.pool.times.fresh = 0
	scope := scopeOf(map[string]any{"url": url})
	_, err := kit.List(t.Context(), scope)
	require.NoError(t, err)
	first := kit.only(t)
	asked := g.asked.Load()
	_, err = kit.List(t.Context(), scope)
	require.NoError(t, err)
	require.Same(t, first, kit.only(t), "it answers")
	if first.client.InitializeResult().ProtocolVersion <= legacyProtocol {
		require.Greater(t, g.asked.Load(), asked, "by ping")
	}
}

func TestTooManySessions(t *testing.T) {
	kit := newKit(t, Config{})
	kit.pool.maxSessions = 2
	url := overHTTP(t, newServer(&world{}), nil)
	scope := func(tenant string) agent.ToolScope {
		s := scopeOf(map[string]any{"url": url})
		s.Tenant = tenant
		return s
	}
	for _, tenant := range []string{"a", "b", "c"} {
		_, err := kit.List(t.Context(), scope(tenant))
		require.NoError(t, err, "the oldest gives way")
	}
	kit.pool.mu.Lock()
	require.Len(t, kit.pool.slots, 2)
	for _, s := range kit.pool.slots {
		s.users++
	}
	kit.pool.mu.Unlock()
	_, err := kit.List(t.Context(), scope("d"))
	require.Equal(t, agent.CodeUnavailable, agent.CodeOf(err))
	require.ErrorContains(t, err, "in use")
}

// TestClose checks that Close ends running calls and all processes.
func TestClose(t *testing.T) {
	w := &world{}
	kit := newKit(t, Config{Servers: []Server{stdioServer("local", "tools")}})
	local, far := scopeOf(map[string]any{"server": "local"}), scopeOf(map[string]any{"url": overHTTP(t, newServer(w), nil)})
	_, err := kit.List(t.Context(), local)
	require.NoError(t, err)
	pid := kit.only(t).link.transport.(*stdioTransport).process.cmd.Process.Pid
	slow := kit.find(t, far, "slow")
	answered := make(chan agent.ToolResult, 1)
	go func() {
		result, _ := slow.Call(context.Background(), invocationOf(far), agent.ToolCall{ID: "c", Name: "slow", Args: json.RawMessage(`{"text":""}`)})
		answered <- result
	}()
	<-w.slow
	require.NoError(t, kit.Close())
	result := <-answered
	require.NotNil(t, result.Failure)
	require.Equal(t, agent.OutcomeUnknown, result.Failure.Type)
	require.ErrorIs(t, syscall.Kill(pid, 0), syscall.ESRCH)
	_, err = kit.List(t.Context(), local)
	require.Equal(t, agent.CodeUnavailable, agent.CodeOf(err))
	require.ErrorContains(t, err, "shutting down")
}

// TestOneAttempt checks that all callers wait for one attempt to open a session, even if the first of them is cancelled.
func TestOneAttempt(t *testing.T) {
	p := newPool(defaultPoolTimes(), newKit(t, Config{}).cfg.Logger)
	var attempts atomic.Int64
	begun, proceed := make(chan struct{}), make(chan struct{})
	fail := func(context.Context) (*session, error) {
		attempts.Add(1)
		close(begun)
		<-proceed
		return nil, agent.Errorf(agent.CodeDenied, "open", "no")
	}
	ctx, cancel := context.WithCancel(t.Context())
	first := make(chan error, 1)
	go func() { _, _, err := p.acquire(ctx, "k", fail); first <- err }()
	<-begun
	second := make(chan error, 1)
	go func() { _, _, err := p.acquire(t.Context(), "k", fail); second <- err }()
	require.Eventually(t, func() bool {
		p.mu.Lock()
		defer p.mu.Unlock()
		return p.slots["k"].users == 2
	}, 10*time.Second, time.Millisecond)
	cancel()
	require.ErrorIs(t, <-first, context.Canceled)
	close(proceed)
	require.Equal(t, agent.CodeDenied, agent.CodeOf(<-second))
	require.EqualValues(t, 1, attempts.Load())
	require.NoError(t, p.close())
}
