package postgres_test

import (
	"encoding/json"
	"fmt"
	"sync"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/postgres"
	"github.com/turnstone-run/turnstone/internal/postgres/postgrestest"
	"github.com/turnstone-run/turnstone/internal/turns"
)

func TestMain(m *testing.M) {
	postgres.MigratedDatabase = postgrestest.New
	postgrestest.Main(m)
}

var _ turns.TurnStore = (*postgres.Store)(nil)

const tenant = "acme"

// bench is a store with a database of its own.
type bench struct {
	*postgres.Store
	t    testing.TB
	pool *pgxpool.Pool
}

func newBench(t testing.TB, c postgres.Config) *bench {
	t.Helper()
	c.URL = postgrestest.New(t)
	pool, err := postgres.Open(t.Context(), c)
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	return &bench{Store: postgres.NewStore(pool, c), t: t, pool: pool}
}

func openEmpty(t testing.TB, c *postgres.Config) *pgxpool.Pool {
	t.Helper()
	c.URL = postgrestest.NewEmpty(t)
	pool, err := postgres.Open(t.Context(), *c)
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	return pool
}

func turn(id, session string) agent.TurnRecord {
	return agent.TurnRecord{
		TurnID: agent.TurnID(id), Tenant: tenant, SessionID: agent.SessionID(session), WorkflowID: "turn/" + id,
		Binding: agent.Binding{Agent: "analyst", InstanceID: "analyst@1", PlanHash: "hash-1", Model: "small"}, Channel: "http", UserID: "u1",
		OnBusy: agent.OnBusyQueue, History: agent.HistoryLoad,
		Input:   []agent.Message{agent.UserText("question " + id)},
		Context: agent.InvocationContext{Tenant: tenant, Flags: map[string]any{"beta": true}},
	}
}

func finish(id, session string) agent.FinishRecord {
	out := agent.AgentStepOutput{
		TurnID: agent.TurnID(id), SessionID: agent.SessionID(session), Agent: "analyst", AgentInstanceID: "analyst@1",
		Status: agent.TurnCompleted, Output: "answer " + id, Blocks: []agent.Block{agent.Text("answer " + id)},
		ResultPreview: json.RawMessage(`{"type":"table","row_count":1,"sample":[{"price":1.50,"id":"f1"}]}`),
		ToolCalls:     []agent.ToolCallNote{}, Usage: agent.Usage{InputTokens: 10, OutputTokens: 5, CostUSD: 0.25},
		StopReason: agent.StopEndTurn, StreamID: id, ExecutionTimeMS: 12, Model: "small",
	}
	return agent.FinishRecord{
		TurnID: agent.TurnID(id), Tenant: tenant, SessionID: agent.SessionID(session), Output: out,
		Result: json.RawMessage(`{"output":"answer ` + id + `"}`),
		Events: []agent.Event{
			{Type: agent.EventUsage, Usage: &agent.Usage{InputTokens: 10}},
			{Type: agent.EventStatus, Status: agent.StatusCompleted, Reason: "end_turn", Result: &out},
		},
	}
}

func modelStep(id string, step int, epoch agent.Epoch, blocks ...agent.Block) agent.ModelStep {
	return agent.ModelStep{
		Key:   agent.StepKey{TurnID: agent.TurnID(id), Step: step},
		Fence: agent.Fence{StreamID: id, Producer: fmt.Sprintf("model/%d", step), Epoch: epoch}, Tenant: tenant, Blocks: blocks,
		Verdict: agent.ModelVerdict{FinishReason: agent.FinishStop, Model: "small"},
		Calls:   []agent.UsageEntry{{Epoch: epoch, Model: "small", Usage: agent.Usage{InputTokens: 10, OutputTokens: 5, CachedTokens: 3, ReasoningTokens: 2, CostUSD: 0.0125}}},
	}
}

func toolStep(id string, step int, call string, epoch agent.Epoch) agent.ToolStep {
	return agent.ToolStep{
		Key:   agent.StepKey{TurnID: agent.TurnID(id), Step: step, CallID: agent.CallID(call)},
		Fence: agent.Fence{StreamID: id, Producer: fmt.Sprintf("tool/%d/%s", step, call), Epoch: epoch}, Tenant: tenant, Name: "lookup",
		Args:    json.RawMessage(`{"q":"x"}`),
		Result:  agent.Block{Type: agent.BlockToolResult, ToolCallID: agent.CallID(call), Name: "lookup", Status: agent.ResultSuccess, Output: json.RawMessage(`{"of":"` + call + `"}`)},
		Data:    json.RawMessage(`[{"price":1.50,"id":"f1"}]`),
		Preview: json.RawMessage(`{"row_count":1}`),
		Verdict: agent.ToolVerdict{ID: agent.CallID(call)}, DurationMS: 7,
	}
}

func call(id string) agent.Block {
	return agent.Block{Type: agent.BlockToolCall, ID: id, Name: "lookup", Args: json.RawMessage(`{"q":"x"}`)}
}

func (b *bench) begin(r agent.TurnRecord) agent.Begun {
	b.t.Helper()
	begun, err := b.Begin(b.t.Context(), r)
	require.NoError(b.t, err)
	return begun
}

func (b *bench) ready(id, session string) agent.Begun {
	b.t.Helper()
	begun := b.begin(turn(id, session))
	require.Equal(b.t, agent.BeginReady, begun.Answer, "turn %s", id)
	return begun
}

func (b *bench) finish(f agent.FinishRecord) agent.Finished {
	b.t.Helper()
	done, err := b.Finish(b.t.Context(), f)
	require.NoError(b.t, err)
	return done
}

// beginProducer begins the next epoch of a producer ($2) of a stream ($1), like the event log.
const beginProducer = `
	WITH s AS (INSERT INTO streams (stream_id) VALUES ($1) ON CONFLICT DO NOTHING)
	INSERT INTO stream_producers AS p (stream_id, producer) VALUES ($1, $2)
	ON CONFLICT (stream_id, producer) DO UPDATE SET epoch = p.epoch + 1 RETURNING epoch`

// epoch begins a producer and returns its epoch.
func (b *bench) epoch(stream, producer string) agent.Epoch {
	b.t.Helper()
	return value[agent.Epoch](b, beginProducer, stream, producer)
}

// exec runs a statement.
func (b *bench) exec(sql string, args ...any) {
	b.t.Helper()
	_, err := b.pool.Exec(b.t.Context(), sql, args...)
	require.NoError(b.t, err, sql)
}

// column returns the only column of a query.
func column[T any](b *bench, sql string, args ...any) []T {
	b.t.Helper()
	rows, err := b.pool.Query(b.t.Context(), sql, args...)
	require.NoError(b.t, err, sql)
	all, err := pgx.CollectRows(rows, pgx.RowTo[T])
	require.NoError(b.t, err, sql)
	return all
}

// value returns the only value of a query.
func value[T any](b *bench, sql string, args ...any) T {
	b.t.Helper()
	all := column[T](b, sql, args...)
	require.Len(b.t, all, 1, sql)
	return all[0]
}

func (b *bench) count(table string) int {
	b.t.Helper()
	return value[int](b, "SELECT count(*) FROM "+table)
}

// atOnce calls a function n times concurrently and returns the errors.
func atOnce(n int, do func(i int) error) []error {
	errs := make([]error, n)
	var all sync.WaitGroup
	for i := range errs {
		all.Go(func() { errs[i] = do(i) })
	}
	all.Wait()
	return errs
}

// async calls a function in the background and returns a channel for its error.
func async(do func() error) <-chan error {
	done := make(chan error, 1)
	go func() { done <- do() }()
	return done
}

// transcript returns a session's messages as strings of role and text.
func (b *bench) transcript(session string) []string {
	b.t.Helper()
	page, err := b.Messages(b.t.Context(), tenant, agent.SessionID(session), 0, 1000)
	require.NoError(b.t, err)
	lines := make([]string, len(page))
	for i, m := range page {
		require.EqualValues(b.t, i+1, m.Position, "positions are contiguous from 1")
		lines[i] = render(m.Message)
	}
	return lines
}

func render(m agent.Message) string {
	line := string(m.Role) + ":"
	for _, bl := range m.Blocks {
		switch bl.Type {
		case agent.BlockToolCall:
			line += " call(" + bl.ID + ")"
		case agent.BlockToolResult:
			line += " " + bl.Status + "(" + string(bl.ToolCallID) + ")"
		default:
			line += " " + bl.Text
		}
	}
	return line
}

func requireCode(t testing.TB, want agent.Code, err error) {
	t.Helper()
	require.Error(t, err)
	require.Equal(t, want, agent.CodeOf(err), "%v", err)
}

func requireFault(t testing.TB, code agent.Code, field string, err error) {
	t.Helper()
	requireCode(t, code, err)
	require.Equal(t, field, agent.FailureOf(err).Field, "%v", err)
}

func newID() string { return uuid.NewString() }
