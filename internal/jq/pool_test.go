package jq

import (
	"context"
	"encoding/json"
	"fmt"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

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

// requireBegun waits until so many programs have begun.
func requireBegun(t *testing.T, p *pool, n int) {
	t.Helper()
	require.Eventually(t, func() bool {
		p.mu.Lock()
		defer p.mu.Unlock()
		return p.begun == n
	}, 10*time.Second, time.Millisecond)
}

// However much one tenant and a few others ask for, a short program of another tenant is answered at once.
//
// It measures time, and fills the pool that all tests share.
func TestTenantsTakeTurns(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	var busy []func() error
	for _, tenant := range []string{"a", "c", "d"} {
		for range 20 {
			busy = append(busy, start(ctx, t, tenant, endless, Bounds{Time: 3 * time.Second}))
		}
	}
	requireBegun(t, processor, 3)
	for range 10 {
		begun := time.Now()
		require.NoError(t, start(t.Context(), t, "b", `1 + 1`, Bounds{})())
		require.Less(t, time.Since(begun), 500*time.Millisecond)
	}
	stop()
	for _, wait := range busy {
		require.Equal(t, agent.CodeCancelled, agent.CodeOf(wait()))
	}
	require.Empty(t, processor.tenants, "nothing is left of them")
}

// A program is given its time, however long it is paused.
func TestPausesTakeNoTime(t *testing.T) {
	begun := time.Now()
	const each = 300 * time.Millisecond
	a, b := start(t.Context(), t, "a", endless, Bounds{Time: each}), start(t.Context(), t, "b", endless, Bounds{Time: each})
	for _, wait := range []func() error{a, b} {
		require.ErrorContains(t, wait(), "takes longer than 300ms")
	}
	require.Greater(t, time.Since(begun), 2*each-20*time.Millisecond)
}

// A program that takes too much memory is stopped, and no other one for it.
//
// It measures the heap of the process.
func TestMemoryIsItsOwn(t *testing.T) {
	const memory = 16 << 20
	runtime.GC()
	work := `[range(20000)] as $kept | reduce range(20000) as $i (0; . + ($i | tostring | length)) | . + ($kept | length)`
	done := make(chan struct{})
	var modest errgroup.Group
	for i := range 2 {
		modest.Go(func() error {
			for {
				select {
				case <-done:
					return nil
				default:
				}
				if err := start(t.Context(), t, fmt.Sprint("modest", i), work, Bounds{Memory: memory, Time: time.Minute})(); err != nil {
					return err
				}
			}
		})
	}
	requireBegun(t, processor, 2)
	err := start(t.Context(), t, "hog", `[range(1e9)]`, Bounds{Memory: memory, Time: time.Minute})()
	close(done)
	require.NoError(t, modest.Wait())
	require.ErrorContains(t, err, "takes more than 16 MiB of memory")
}

func TestProgramsOfATenantWait(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := newPool()
		first, err := p.enter(t.Context(), "a")
		require.NoError(t, err)
		begun := time.Now()
		_, err = p.enter(t.Context(), "a")
		require.EqualError(t, err, "query: has waited 30s for other jq programs to end; try again later")
		require.Equal(t, agent.CodeRateLimited, agent.CodeOf(err))
		require.Equal(t, maxWait, time.Since(begun))

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
func TestTenantsBeginInTurn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := newPool()
		var seats []*poolPlace
		for i := range maxBegun {
			seats = append(seats, &poolPlace{pool: p, tenant: fmt.Sprint(i), turn: make(chan struct{}, 1)})
			require.NoError(t, p.queue(seats[i]))
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
		for _, s := range seats {
			s.release()
		}
		got := ""
		for range 6 {
			got += <-order
		}
		require.Equal(t, "abcaba", got)
	})
}
