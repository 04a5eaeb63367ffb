package e2e_test

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/app"
	"github.com/turnstone-run/turnstone/internal/devstack"
	"github.com/turnstone-run/turnstone/internal/devstack/embedded"
	"github.com/turnstone-run/turnstone/internal/postgres/postgrestest"
	"github.com/turnstone-run/turnstone/turnstonetest"
	"github.com/turnstone-run/turnstone/workflows"
)

// outage is how long PostgreSQL is away while a turn wants to store: longer than all quick attempts take, and with
// TURNSTONE_LONG_FAULTS=1 as long as a fail-over by hand.
func outage() time.Duration {
	if os.Getenv("TURNSTONE_LONG_FAULTS") == "1" {
		return 3 * time.Minute
	}
	return 8 * time.Second
}

// TestPostgresRestarts in mid-stream: the turn goes on by itself, and its viewer with it.
func TestPostgresRestarts(t *testing.T) {
	t.Parallel()
	server := postgrestest.Server(t)
	s := start(t, func(c *app.Config) { c.Database.URL = app.Secret(server.DSN()) })
	receipt, err := s.client.Start(t.Context(), agent.TurnRequest{Message: "say 60 words slowly", SessionID: "restart"})
	require.NoError(t, err)
	viewer := live(t, s.client, receipt.TurnID)
	s.awaitText(receipt.TurnID, "word5")
	require.NoError(t, server.Restart(t.Context()))
	seen := viewer()
	out, events := s.sound("", receipt)
	require.Equal(t, agent.TurnCompleted, out.Status, "%+v", out.Error)
	require.Len(t, strings.Fields(out.Output), 60)
	require.Equal(t, events, seen, "who stayed saw what there is to see")
}

// TestPostgresAwayWhileStreaming: the model talks on while there is nowhere to write. Words wait for a while; after a longer outage
// they are said again.
func TestPostgresAwayWhileStreaming(t *testing.T) {
	t.Parallel()
	server := postgrestest.Server(t)
	s := start(t, func(c *app.Config) { c.Database.URL = app.Secret(server.DSN()) })
	receipt, err := s.client.Start(t.Context(), agent.TurnRequest{Message: "say 60 words slowly", SessionID: "away"})
	require.NoError(t, err)
	s.awaitText(receipt.TurnID, "word5")
	require.NoError(t, server.Suspend(t.Context()))
	time.Sleep(outage()) // the outage itself
	require.NoError(t, server.Resume(t.Context()))
	out, events := s.sound("", receipt)
	require.Equal(t, agent.TurnCompleted, out.Status, "%+v", out.Error)
	require.Len(t, strings.Fields(out.Output), 60)
	if outage() < 10*time.Second {
		require.Zero(t, count(events, agent.EventReset), "the words waited")
	}
}

// TestPostgresAwayWhileStoring: the database goes away in the middle of the transaction that ends the turn.
func TestPostgresAwayWhileStoring(t *testing.T) {
	t.Parallel()
	server := postgrestest.Server(t)
	const answer = "worth keeping"
	said := make(chan struct{})
	provider := turnstonetest.NewModel(t, func(x *turnstonetest.Exchange) {
		if x.Await(said) {
			turnstonetest.Say(answer)(x)
		}
	})
	s := start(t, provider.Use, func(c *app.Config) { c.Database.URL = app.Secret(server.DSN()) })
	receipt, err := s.client.Start(t.Context(), agent.TurnRequest{Message: "hello", SessionID: "away"})
	require.NoError(t, err)
	require.Eventually(t, func() bool { return len(provider.Requests()) == 1 }, 30*time.Second, 10*time.Millisecond)

	// A lock on the results holds StoreTurn where it is until the database goes down under both.
	locker, err := pgx.Connect(t.Context(), server.DSN())
	require.NoError(t, err)
	defer locker.Close(context.Background())
	_, err = locker.Exec(t.Context(), "BEGIN; LOCK TABLE agent_results IN ACCESS EXCLUSIVE MODE")
	require.NoError(t, err)
	close(said)
	require.Eventually(t, func() bool {
		var waiting bool
		err := locker.QueryRow(t.Context(), "SELECT EXISTS (SELECT FROM pg_stat_activity WHERE pg_backend_pid() = ANY(pg_blocking_pids(pid)))").Scan(&waiting)
		return err == nil && waiting
	}, 30*time.Second, 10*time.Millisecond, "StoreTurn is in its transaction")
	require.NoError(t, server.Suspend(t.Context()))
	time.Sleep(outage()) // the outage itself
	require.NoError(t, server.Resume(t.Context()))

	out, events := s.sound("store_fell_back", receipt)
	require.Equal(t, agent.TurnCompleted, out.Status, "%+v", out.Error)
	require.Equal(t, answer, out.Output)
	require.Zero(t, count(events, agent.EventReset), "the model was not asked again")
}

// TestTemporalRestarts in mid-stream, under a service that stays.
func TestTemporalRestarts(t *testing.T) {
	t.Parallel()
	cfg := devstack.TemporalConfig{DataDir: filepath.Join(t.TempDir(), "temporal"), SearchAttributes: workflows.SearchAttributes()}
	server, err := embedded.Start(t.Context(), cfg)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, server.Stop()) })
	_, port, err := net.SplitHostPort(server.Address())
	require.NoError(t, err)
	cfg.FrontendPort, err = strconv.Atoi(port)
	require.NoError(t, err)

	s := start(t, func(c *app.Config) { c.Temporal.Address = server.Address() })
	receipt, err := s.client.Start(t.Context(), agent.TurnRequest{Message: "say 100 words slowly", SessionID: "restart"})
	require.NoError(t, err)
	s.awaitText(receipt.TurnID, "word5")
	require.NoError(t, server.Stop())
	again, err := embedded.Start(t.Context(), cfg)
	require.NoError(t, err)
	server = again
	out, _ := s.sound("", receipt)
	require.Equal(t, agent.TurnCompleted, out.Status, "%+v", out.Error)
	require.Len(t, strings.Fields(out.Output), 100)
}

// TestViewerOfTerminatedTurn only listens: the end comes to who waits, without anybody asking for the turn.
func TestViewerOfTerminatedTurn(t *testing.T) {
	t.Parallel()
	const idle = 30 * time.Second
	provider := turnstonetest.NewModel(t, func(x *turnstonetest.Exchange) { x.Begin("the last words"); x.Hold() }, turnstonetest.Say("fine"))
	s := start(t, provider.Use)
	receipt, err := s.client.Start(t.Context(), agent.TurnRequest{Message: "hello", SessionID: "silent"})
	require.NoError(t, err)
	viewer := live(t, s.client, receipt.TurnID)
	s.awaitText(receipt.TurnID, "last words")
	require.NoError(t, s.Temporal().TerminateWorkflow(t.Context(), receipt.TurnID.WorkflowID(), "", "test"))
	terminated := time.Now()
	events := viewer()
	require.Less(t, time.Since(terminated), idle+5*time.Second)
	last := events[len(events)-1]
	require.Equal(t, agent.StatusFailed, last.Status)
	require.Equal(t, string(agent.StopTerminated), last.Reason)
	require.Equal(t, agent.StopTerminated, last.Result.StopReason)
	s.replay("", receipt.TurnID.WorkflowID(), "")
	s.storedOnce(last.Result, events)
	next, _ := s.run(agent.TurnRequest{Message: "hello", SessionID: "silent"})
	require.Equal(t, agent.TurnCompleted, next.Status, "the session is free again")
}
