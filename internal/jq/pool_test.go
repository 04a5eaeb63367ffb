package jq

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/agent"
)

const endless = `def f: f; f`

// start runs a program of a tenant and returns a function that waits for its error.
func start(ctx context.Context, t *testing.T, tenant, query string, b Bounds) func() error {
	t.Helper()
	p, err := Compile(query)
	if err != nil {
		return func() error { return err }
	}
	b.Tenant = tenant
	ended := make(chan error, 1)
	go func() {
		_, err := p.Run(ctx, json.RawMessage("null"), b)
		ended <- err
	}()
	return sync.OnceValue(func() error { return <-ended })
}

// requireRunning waits until n programs run.
func requireRunning(t *testing.T, p *pool, n int) {
	t.Helper()
	require.Eventually(t, func() bool {
		p.mu.Lock()
		defer p.mu.Unlock()
		return p.running == n
	}, 10*time.Second, time.Millisecond)
}

// A short program of a tenant runs at once, even if other tenants have many programs.
//
// The test is not parallel, because it measures time and fills the pool that all tests share.
func TestOtherTenantsRunAtOnce(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	var busy []func() error
	for _, tenant := range []string{"a", "c", "d"} {
		for range 20 {
			busy = append(busy, start(ctx, t, tenant, endless, Bounds{Time: 3 * time.Second}))
		}
	}
	requireRunning(t, programs, 3)
	for range 10 {
		begin := time.Now()
		require.NoError(t, start(t.Context(), t, "b", `1 + 1`, Bounds{})())
		require.Less(t, time.Since(begin), 500*time.Millisecond)
	}
	stop()
	for _, wait := range busy {
		require.Equal(t, agent.CodeCancelled, agent.CodeOf(wait()))
	}
	require.Empty(t, programs.tenants, "the pool is empty")
}

// A program that uses too much memory ends only its own process.
func TestMemoryLimitIsPerProgram(t *testing.T) {
	const memory = 64 << 20
	work := `[range(20000)] as $kept | reduce range(20000) as $i (0; . + ($i | tostring | length)) | . + ($kept | length)`
	hog := start(t.Context(), t, "hog", `[range(1e9)]`, Bounds{Memory: memory, Time: time.Minute})
	for range 3 {
		require.NoError(t, start(t.Context(), t, "modest", work, Bounds{Memory: memory, Time: time.Minute})())
	}
	require.ErrorContains(t, hog(), "takes more than 64 MiB of memory")
	require.NoError(t, start(t.Context(), t, "hog", work, Bounds{Memory: memory, Time: time.Minute})(), "another process runs the next program")
}

// A program has no environment, and its process runs the next program.
func TestChild(t *testing.T) {
	t.Setenv("SECRET", "x")
	var c child
	for range 2 {
		p, err := Compile(`env, $ENV`)
		require.NoError(t, err)
		out, err := p.Run(t.Context(), json.RawMessage("null"), Bounds{})
		require.NoError(t, err)
		require.Equal(t, []json.RawMessage{json.RawMessage("{}"), json.RawMessage("{}")}, out)
		idle, err := children.take()
		require.NoError(t, err)
		if c.cmd != nil {
			require.Equal(t, c.cmd.Process.Pid, idle.cmd.Process.Pid)
		}
		require.NotContains(t, idle.cmd.Env, "SECRET=x")
		c = *idle
		children.put(idle)
	}
}

func TestProgramsOfATenantWait(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := newPool()
		first, err := p.enter(t.Context(), "a")
		require.NoError(t, err)
		begin := time.Now()
		_, err = p.enter(t.Context(), "a")
		require.EqualError(t, err, "query: has waited 30s for other jq programs to end; try again later")
		require.Equal(t, agent.CodeRateLimited, agent.CodeOf(err))
		require.Equal(t, maxWait, time.Since(begin))

		ctx, cancel := context.WithCancel(t.Context())
		for range maxWaiting {
			go func() { _, _ = p.enter(ctx, "a") }()
		}
		synctest.Wait()
		_, err = p.enter(t.Context(), "a")
		require.EqualError(t, err, "query: 32 jq programs of the tenant wait already, at most 32; try again later")
		require.Equal(t, agent.CodeRateLimited, agent.CodeOf(err))
		first.release()
		synctest.Wait()
		cancel()
		synctest.Wait()
	})
}

// No tenant's second program begins before another tenant's first.
func TestTenantOrder(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := newPool()
		var places []*poolPlace
		for i := range maxRunning {
			places = append(places, &poolPlace{pool: p, tenant: fmt.Sprint(i), mayRun: make(chan struct{}, 1)})
			require.NoError(t, p.queue(places[i]))
		}
		order := make(chan string, 10)
		for _, tenant := range []string{"a", "a", "a", "b", "b", "c"} {
			go func() {
				s, err := p.enter(t.Context(), tenant)
				if err != nil {
					return
				}
				order <- tenant
				s.release()
			}()
			synctest.Wait()
		}
		places[0].release()
		got := ""
		for range 6 {
			got += <-order
		}
		require.Equal(t, "abcaba", got)
	})
}
