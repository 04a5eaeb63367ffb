package postgres_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/postgres"
)

func dataset(ref string, rows int) *agent.Dataset {
	return &agent.Dataset{Ref: ref, RowCount: rows, Fields: []agent.DatasetField{{Name: "price", Type: "number"}, {Name: "\x00", Type: "mixed"}}}
}

// leave runs a turn whose calls leave datasets; nil is a call without one.
func (b *bench) leave(id string, sets ...*agent.Dataset) {
	b.t.Helper()
	b.ready(id, "s")
	for i, set := range sets {
		step := i + 1
		require.NoError(b.t, b.SaveModelStep(b.t.Context(), modelStep(id, step, 1, call("c1"))))
		s := toolStep(id, step, "c1", 1)
		s.Dataset, s.CacheHit = set, set != nil && set.RowCount == 0
		require.NoError(b.t, b.SaveToolStep(b.t.Context(), s))
	}
}

func (b *bench) datasets(before string, n int) []string {
	b.t.Helper()
	found, err := b.Datasets(b.t.Context(), tenant, "s", agent.TurnID(before), n)
	require.NoError(b.t, err)
	var lines []string
	for _, d := range found {
		lines = append(lines, fmt.Sprintf("%s %s %d %s %d %s", d.TurnID, d.Ref[13:14], d.RowCount, d.Tool, len(d.Fields), d.Args))
	}
	return lines
}

func TestDatasets(t *testing.T) {
	b := newBench(t, postgres.Config{})
	b.leave("t1", dataset(cas("1"), 1), nil, dataset(cas("2"), 2))
	require.Empty(t, b.datasets("t1", 10), "not its own")
	b.finish(finish("t1", "s"))
	b.leave("t2", nil)
	b.finish(finish("t2", "s"))
	b.leave("t3", dataset(cas("3"), 3))
	line := func(turn string, n int) string { return fmt.Sprintf(`%s %d %d lookup 2 {"q":"x"}`, turn, n, n) }
	require.Equal(t, []string{line("t1", 2), line("t1", 1)}, b.datasets("t3", 10))
	b.finish(finish("t3", "s"))
	b.begin(turn("t4", "s"))
	b.begin(turn("t5", "s"))
	require.Equal(t, []string{line("t3", 3), line("t1", 2), line("t1", 1)}, b.datasets("t4", 10))
	require.Equal(t, []string{line("t3", 3), line("t1", 2)}, b.datasets("t5", 2))
	require.Equal(t, []string{line("t1", 2), line("t1", 1)}, b.datasets("t3", 10), "nothing of later turns")
	require.Empty(t, b.datasets("t5", 0))
	require.Empty(t, b.datasets("unknown", 10))
	foreign, err := b.Datasets(t.Context(), "evil", "s", "t5", 10)
	require.NoError(t, err)
	require.Empty(t, foreign)
	elsewhere, err := b.Datasets(t.Context(), tenant, "other", "t5", 10)
	require.NoError(t, err)
	require.Empty(t, elsewhere)
}

func TestDatasetsAreBounded(t *testing.T) {
	b := newBench(t, postgres.Config{})
	b.ready("t0", "s")
	long := call("c1")
	long.Args = json.RawMessage(`{"q":"` + strings.Repeat("x", 20_000) + `"}`)
	require.NoError(t, b.SaveModelStep(t.Context(), modelStep("t0", 1, 1, long)))
	s := toolStep("t0", 1, "c1", 1)
	s.Dataset = dataset(cas("1"), 1)
	require.NoError(t, b.SaveToolStep(t.Context(), s))
	b.finish(finish("t0", "s"))
	for i := range 50 {
		id := fmt.Sprintf("n%d", i)
		b.ready(id, "s")
		if i == 49 {
			require.Equal(t, []string{"t0 1 1 lookup 2 "}, b.datasets(id, 10), "without its arguments")
		}
		b.finish(finish(id, "s"))
	}
	b.begin(turn("now", "s"))
	require.Empty(t, b.datasets("now", 10), "fifty turns back, not more")
}

// The plan follows indexes, however much there is of other turns.
func TestDatasetsReadsOnlyTheSession(t *testing.T) {
	b := newBench(t, postgres.Config{})
	_, err := b.pool.Exec(t.Context(), `
		INSERT INTO sessions (tenant, session_id) SELECT 'acme', 's' || i FROM generate_series(1, 50) i;
		INSERT INTO turns (turn_id, tenant, session_id, seq, state, workflow_id, agent, instance_id, plan_hash, model, channel, user_id,
			on_busy, history, input, context)
		SELECT 's' || i % 50 + 1 || 't' || i, 'acme', 's' || i % 50 + 1, i, 'completed', '', '', '', '', '', '', '', '', '', '[]', '{}'
		FROM generate_series(1, 20000) i;
		INSERT INTO tool_calls (turn_id, step, call_id, tenant, name, status, ref, duration_ms, dataset)
		SELECT turn_id, 1, 'c1', tenant, 'x', 'success', '', 1, '{}' FROM turns;
		ANALYZE`)
	require.NoError(t, err)
	rows, err := b.pool.Query(t.Context(), `EXPLAIN (ANALYZE, FORMAT TEXT) `+postgres.ReadDatasets, tenant, "s7", "s7t19956", 10, 16<<10, 50)
	require.NoError(t, err)
	lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
	require.NoError(t, err)
	plan := strings.Join(lines, "\n")
	require.NotContains(t, plan, "Seq Scan", plan)
	require.Contains(t, plan, "Index Scan Backward using turns_tenant_session_id_seq_key", plan)
	require.Contains(t, plan, "tool_calls_pkey", plan)
}
