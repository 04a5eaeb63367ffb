//go:build unix

package e2e_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/client"
	"github.com/turnstone-run/turnstone/internal/app"
	"github.com/turnstone-run/turnstone/turnstonetest"
)

// soon is how long a change may take to every process (issue: under a second).
const soon = time.Second

// TestCatalogReachesAll: two worker processes and the API of a third. A change is seen by both in under a second, which is why no test runs beside
// this one; the connections that listen are killed, and nothing is lost.
func TestCatalogReachesAll(t *testing.T) {
	binary, b := build(t, "../worker"), newBench(t)
	processes := []*process{b.spawn(binary, freeAddr(t), nil), b.spawn(binary, freeAddr(t), nil)}
	seen := func(revision int64, within time.Duration) {
		t.Helper()
		started := time.Now()
		for _, p := range processes {
			require.Eventually(t, func() bool {
				status, err := p.door.CatalogStatus(t.Context())
				return err == nil && status.Revision >= revision
			}, within, 5*time.Millisecond)
		}
		t.Logf("revision %d was seen by both within %s", revision, time.Since(started))
	}
	for i := range 5 {
		out := b.apply(clerk(fmt.Sprintf("You are clerk %d.", i), "m", "http://127.0.0.1:1", "[]"))
		seen(out.Revision, soon)
	}
	conn, err := pgx.Connect(t.Context(), b.set.Database.URL.Reveal())
	require.NoError(t, err)
	defer conn.Close(t.Context())
	var killed int
	require.NoError(t, conn.QueryRow(t.Context(), `
SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
WHERE datname = current_database() AND pid <> pg_backend_pid() AND query ILIKE 'listen turnstone_catalog%'`).Scan(&killed))
	require.GreaterOrEqual(t, killed, 2)
	out := b.apply(clerk("You are the last clerk.", "m", "http://127.0.0.1:1", "[]"))
	seen(out.Revision, 10*time.Second)
	for _, p := range processes {
		page, err := p.door.ListAgents(t.Context(), agent.AgentQuery{Tenant: agent.DefaultTenant})
		require.NoError(t, err)
		require.Equal(t, []string{"analyst", "ask", "clerk"}, []string{page.Agents[0].Name, page.Agents[1].Name, page.Agents[2].Name})
		body, _, err := p.door.AgentPlan(t.Context(), agent.DefaultTenant, "clerk")
		require.NoError(t, err)
		require.Contains(t, string(body), "You are the last clerk.")
	}
}

// TestFollowedCatalog: an installation takes over the catalog of another one, keeps it while that is away, and goes on when it is back.
func TestFollowedCatalog(t *testing.T) {
	t.Parallel()
	addr := freeAddr(t)
	remote := turnstonetest.Settings(t, func(c *app.Config) { c.HTTP.Addr = addr })
	first := startWith(t, remote)
	s := start(t, func(c *app.Config) {
		c.Temporal.TaskQueue += "-follower"
		c.Catalog.Follow.URL, c.Catalog.Poll = "http://"+addr, 200*time.Millisecond
	})
	agents := func(want ...string) {
		t.Helper()
		require.Eventually(t, func() bool {
			page, err := s.client.ListAgents(t.Context(), agent.AgentQuery{Tenant: agent.DefaultTenant})
			require.NoError(t, err)
			var names []string
			for i := range page.Agents {
				names = append(names, page.Agents[i].Name)
			}
			return slices.Equal(names, want)
		}, 30*time.Second, 20*time.Millisecond, "%v", want)
	}
	const document = "kind: AgentInstance\nname: %s\nnode_id: agent\nnode_version: '1'\nparameters: {system_message: hello}\n"
	agents("analyst", "ask", "researcher")
	first.apply(fmt.Sprintf(document, "clerk"))
	agents("analyst", "ask", "clerk", "researcher")
	_, err := s.client.Delete(t.Context(), client.Deletion{Key: agent.DocumentKey{Kind: agent.KindAgent, Name: "clerk"}})
	require.ErrorContains(t, err, "catalog.follow")

	stopping, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	require.NoError(t, first.Stop(stopping))
	out, _ := s.run(agent.TurnRequest{Agent: "clerk", Message: "say 2 words"})
	require.Equal(t, agent.TurnCompleted, out.Status, "%+v", out.Error)
	second := startWith(t, remote)
	second.apply(fmt.Sprintf(document, "dealer"))
	agents("analyst", "ask", "clerk", "dealer", "researcher")
}
