package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/postgres"
	"github.com/turnstone-run/turnstone/internal/retention"
)

// retainedTurn is the expected state of a turn.
type retainedTurn struct {
	tenant, session string
	state           string // running or ended
	age             int    // hours since it ended
	gone            map[string]bool
}

// retentionModel is a simple model of what sweeps remove and keep.
type retentionModel struct {
	turns map[string]*retainedTurn
	order []string
}

func (m *retentionModel) live(tenant, session string) bool {
	for _, t := range m.turns {
		if t.tenant == tenant && t.session == session && t.state == "running" {
			return true
		}
	}
	return false
}

// sweep removes data of turns that ended before a time, unless their session must be idle and is not, and after the kinds that must be
// removed before.
func (m *retentionModel) sweep(tenant, kind string, hours int) {
	for id, t := range m.turns {
		all := func(kinds ...string) bool {
			return !slices.ContainsFunc(kinds, func(k string) bool { return !t.gone[k] })
		}
		if t.tenant != tenant || t.state != "ended" || t.age < hours {
			continue
		}
		quiet := !m.live(t.tenant, t.session)
		switch kind {
		case retention.Transcripts:
			t.gone[kind] = t.gone[kind] || quiet
		case retention.Blobs:
			t.gone[kind] = t.gone[kind] || quiet && all(retention.Transcripts, retention.Results, retention.Traces)
		case retention.Turns:
			if quiet && all(retention.Events, retention.Traces, retention.Results, retention.Transcripts, retention.Blobs) {
				delete(m.turns, id)
			}
		default:
			t.gone[kind] = true
		}
	}
}

func TestRetentionFollowsItsModel(t *testing.T) {
	t.Parallel()
	b := newBench(t, postgres.Config{})
	round := 0
	rapid.Check(t, func(rt *rapid.T) {
		round++
		m := retentionModel{turns: map[string]*retainedTurn{}}
		tenants := []string{fmt.Sprintf("a%d", round), fmt.Sprintf("b%d", round)}
		for i := range rapid.IntRange(1, 30).Draw(rt, "operations") {
			of := rapid.SampledFrom(tenants).Draw(rt, "tenant")
			switch op := rapid.SampledFrom([]string{"turn", "turn", "begin", "finish", "age", "sweep", "sweep", "sweep"}).Draw(rt, "operation"); op {
			case "turn", "begin":
				session := fmt.Sprintf("s%d", rapid.IntRange(1, 2).Draw(rt, "session"))
				if m.live(of, session) {
					continue
				}
				id := fmt.Sprintf("r%d-%d", round, i)
				r := turn(id, session)
				r.Tenant = of
				m.turns[id] = &retainedTurn{tenant: of, session: session, state: "running", gone: map[string]bool{}}
				m.order = append(m.order, id)
				if op == "turn" {
					b.live(r, cas("1"), cas("2"))
					m.turns[id].state = "ended"
				} else {
					b.begin(r)
				}
			case "finish":
				for _, id := range m.order {
					if t := m.turns[id]; t != nil && t.state == "running" && t.tenant == of {
						f := finish(id, t.session)
						f.Tenant = of
						b.finish(f)
						t.state = "ended"
						break
					}
				}
			case "age":
				hours := rapid.IntRange(10, 100).Draw(rt, "hours")
				b.exec(`UPDATE retention_marks SET at = at - $2 * interval '1 hour' WHERE tenant = $1`, of, hours)
				for _, id := range m.order { // those that ended first are oldest
					if t := m.turns[id]; t != nil && t.state == "ended" && t.tenant == of {
						t.age += hours
						b.ended(t.age, id)
					}
				}
			case "sweep":
				kind := rapid.SampledFrom(perTurnKinds()).Draw(rt, "kind")
				hours := rapid.IntRange(1, 60).Draw(rt, "older")
				m.sweep(of, kind, hours)
				b.sweep(of, kind, hours)
			}
		}
		for _, id := range m.order {
			m.check(b, id)
		}
		b.requireNoDanglingRows()
	})
}

func (m *retentionModel) check(b *bench, id string) {
	b.t.Helper()
	has := func(what string) bool { return b.count(fmt.Sprintf(what, "'"+id+"'")) > 0 }
	t := m.turns[id]
	require.Equal(b.t, t != nil, has(`turns WHERE turn_id = %s`), id)
	if t == nil {
		require.False(b.t, has(`streams WHERE stream_id = %s`))
		return
	}
	require.Equal(b.t, !t.gone[retention.Transcripts], has(`messages WHERE turn_id = %s`), "transcript of %s", id)
	if t.state == "running" {
		return
	}
	require.Equal(b.t, !t.gone[retention.Events], has(`events WHERE stream_id = %s`), "events of %s", id)
	require.Equal(b.t, !t.gone[retention.Results], has(`agent_results WHERE expired_at IS NULL AND turn_id = %s`), "result of %s", id)
	r := turn(id, t.session)
	r.Tenant = t.tenant
	require.Equal(b.t, agent.BeginDuplicate, b.begin(r).Answer, "ended turns do not run again")
}

// Concurrent sweeps, turns and deletions do not deadlock, and leave no dangling rows.
func TestRetentionBesideRunningTurns(t *testing.T) {
	t.Parallel()
	b := newBench(t, postgres.Config{MaxConns: 20})
	const workers, rounds = 6, 25
	ctx, stop := context.WithCancel(t.Context())
	var sweeps, turns sync.WaitGroup
	faults := make(chan error, 100_000)
	for range 3 {
		sweeps.Go(func() {
			for ctx.Err() == nil {
				for _, kind := range perTurnKinds() {
					w := retention.Sweep{Tenant: tenant, Kind: kind, Before: time.Now().Add(time.Second), Follow: true}
					for at := (retention.Cursor{}); ; {
						out, err := b.SweepRetention(context.WithoutCancel(ctx), w, at)
						if err != nil {
							faults <- fmt.Errorf("sweep %s: %w", kind, err)
							break
						}
						if at = out.Next; out.Done {
							break
						}
					}
				}
			}
		})
	}
	for n := range workers {
		turns.Go(func() {
			for i := range rounds {
				id, session := fmt.Sprintf("w%d-%d", n, i), fmt.Sprintf("s%d", (n+i)%4)
				_, err := b.Begin(t.Context(), turn(id, session))
				faults <- err
				err = b.SaveModelStep(t.Context(), modelStep(id, 1, 1, agent.Text("said")))
				if err != nil && !errors.Is(err, agent.ErrFenced) {
					faults <- err
				}
				_, err = b.Finish(t.Context(), finish(id, session))
				faults <- err
				if i%5 == 0 {
					_, err := b.DeleteSession(t.Context(), tenant, agent.SessionID(session))
					if code := agent.CodeOf(err); err != nil && code != agent.CodeNotFound && code != agent.CodeConflict {
						faults <- err
					}
				}
			}
		})
	}
	turns.Wait()
	stop()
	sweeps.Wait()
	close(faults)
	for err := range faults {
		require.NoError(t, err)
	}
	for _, kind := range perTurnKinds() {
		b.sweep(tenant, kind, 0)
	}
	b.requireNoDanglingRows()
}
