package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/postgres"
)

// Of any number of concurrent requests in two processes, no more turns are admitted than the limit allows.
func TestAdmissionIsAtomic(t *testing.T) {
	c := postgres.Config{}
	b := newBench(t, c)
	var stores []*postgres.Store
	for range 2 {
		pool, err := postgres.Open(t.Context(), postgres.Config{URL: b.pool.Config().ConnString(), MaxConns: 4})
		require.NoError(t, err)
		t.Cleanup(pool.Close)
		stores = append(stores, postgres.NewStore(pool, c))
	}
	for name, bound := range map[string]agent.Bound{"concurrent": {ConcurrentTurns: 10}, "requests": {RequestsPerMinute: 10}} {
		for _, kind := range []string{agent.BoundTenant, agent.BoundUser, agent.BoundAgent} {
			t.Run(name+" of "+kind, func(t *testing.T) {
				const each = 50
				a := agent.Admission{Tenant: name + kind, UserID: "u", Agent: "a"}
				switch kind {
				case agent.BoundTenant:
					a.Tenants = bound
				case agent.BoundUser:
					a.Users = bound
				default:
					a.Agents = bound
				}
				in := 0
				for _, err := range atOnce(each*len(stores), func(i int) error {
					a := a
					a.TurnID = agent.TurnID(fmt.Sprint(i))
					return stores[i%2].Admit(t.Context(), a)
				}) {
					if err == nil {
						in++
					} else {
						requireCode(t, agent.CodeRateLimited, err)
					}
				}
				require.Equal(t, 10, in)
			})
		}
	}
}

// Turns of one tenant that are admitted, begin, spend and end at the same time do not deadlock.
func TestAdmissionsAndEndsDoNotDeadlock(t *testing.T) {
	t.Parallel()
	b := newBench(t, postgres.Config{MaxConns: 12})
	const workers, rounds = 8, 12
	require.NoError(t, errors.Join(atOnce(workers, func(w int) error {
		for r := range rounds {
			id, session, forget := fmt.Sprintf("w%d-%d", w, r), fmt.Sprintf("s%d", w%3), r%4 == 3
			if forget {
				session = id
			}
			if err := b.runTurn(t.Context(), id, session, forget); err != nil {
				return err
			}
		}
		return nil
	})...))
	require.Zero(t, b.count("turn_places"))
	spent, err := b.Spending(t.Context(), tenant)
	require.NoError(t, err)
	require.EqualValues(t, b.count("usage_ledger"), spent.Month.Calls, "all ledger rows are added up")
}

// Concurrent charges lock the same sums in the same order.
func TestChargesDoNotDeadlock(t *testing.T) {
	const workers, rounds = 16, 25
	b := newBench(t, postgres.Config{MaxConns: workers})
	b.ready("t1", "s1")
	require.NoError(t, errors.Join(atOnce(workers, func(w int) error {
		calls := []agent.UsageEntry{{Epoch: 1, Model: "a"}, {Epoch: 2, Model: "b"}, {Epoch: 3, Model: "c"}}
		if w%2 > 0 {
			slices.Reverse(calls)
		}
		for r := range rounds {
			if err := b.ChargeUsage(t.Context(), agent.StepKey{TurnID: "t1", Step: w*rounds + r}, tenant, calls); err != nil {
				return err
			}
		}
		return nil
	})...))
	spent, err := b.Spending(t.Context(), tenant)
	require.NoError(t, err)
	require.EqualValues(t, 3*workers*rounds, spent.Month.Calls)
}

// runTurn runs a turn from its admission to its end. A turn that has to wait for its session ends while it waits.
func (b *bench) runTurn(ctx context.Context, id, session string, forget bool) error {
	a := asking(id, time.Time{})
	a.Tenants = agent.Bound{ConcurrentTurns: 100, RequestsPerMinute: 10_000, DailyCostUSD: 1000, TokensPerMinute: 1_000_000}
	a.Users, a.Agents = a.Tenants, a.Tenants
	errs := []error{b.Admit(ctx, a)}
	_, err := b.Begin(ctx, turn(id, session))
	errs = append(errs, err, b.SaveModelStep(ctx, modelStep(id, 1, 1, agent.Text("said"))),
		b.ChargeUsage(ctx, agent.StepKey{TurnID: agent.TurnID(id), Step: 2}, tenant, []agent.UsageEntry{{Epoch: 1, Model: "b"}, {Epoch: 2, Model: "a"}}),
		b.Admit(ctx, a))
	_, err = b.Finish(ctx, finish(id, session))
	errs = append(errs, err)
	if forget {
		_, err = b.DeleteSession(ctx, tenant, agent.SessionID(session))
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// A tenant with many requests does not occupy all connections.
func TestWaitingAdmissionsHoldNoConnections(t *testing.T) {
	b := newBench(t, postgres.Config{MaxConns: 3})
	release := b.holdLock(`SELECT pg_advisory_xact_lock(hashtextextended('turnstone admission ' || 'acme', 0))`)
	done := async(func() error {
		return errors.Join(atOnce(20, func(i int) error { return b.Admit(t.Context(), concurrent(fmt.Sprint(i), time.Time{}, 100)) })...)
	})
	require.Eventually(t, func() bool {
		return b.count(`pg_locks WHERE locktype = 'advisory' AND NOT granted
			AND database = (SELECT oid FROM pg_database WHERE datname = current_database())`) == 1
	}, 20*time.Second, 5*time.Millisecond)
	other := concurrent("t1", time.Time{}, 1)
	other.Tenant = "other"
	b.requireAdmitted(other)

	gone, cancel := context.WithCancel(t.Context())
	cancel()
	requireCode(t, agent.CodeCancelled, b.Admit(gone, concurrent("x", time.Time{}, 100)))
	release()
	require.NoError(t, <-done)
	require.Equal(t, 21, b.count("turn_places"))
}
