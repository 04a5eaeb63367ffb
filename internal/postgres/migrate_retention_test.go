package postgres

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/internal/devstack/pgdev/pgtest"
)

// What a release from before has stored is swept like everything else, also streams whose events it has swept already.
func TestMigrationSweepsWhatIsStored(t *testing.T) {
	c := Config{URL: pgtest.New(t)}
	pool, err := Open(t.Context(), c)
	require.NoError(t, err)
	defer pool.Close()
	require.NoError(t, migrateTo(t.Context(), pool, upTo(t, "014")))
	exec := func(sql string) {
		t.Helper()
		_, err := pool.Exec(t.Context(), sql)
		require.NoError(t, err)
	}
	turn := func(id, state, finished string) string {
		return `INSERT INTO turns (turn_id, tenant, session_id, seq, state, workflow_id, agent, instance_id, plan_hash, model, channel, user_id, on_busy, history,
			input, context, finished_at)
			VALUES ('` + id + `', 'acme', 's', (SELECT count(*) FROM turns), '` + state + `', '', '', '', '', '', '', '', '', '', '["x"]', '{}', ` + finished + `);`
	}
	result := func(id string) string {
		return `INSERT INTO agent_results (job_id, run_id, node_id, status, turn_id, tenant, session_id, output)
			VALUES (gen_random_uuid(), '', '', 'completed', '` + id + `', 'acme', 's', '"of another shape"');`
	}
	stream := func(id string) string {
		return `INSERT INTO streams (stream_id, last_index, first_index, closed_at, swept) VALUES ('` + id + `', 3, 4, now() - interval '90 days', true);`
	}
	exec(`INSERT INTO sessions (tenant, session_id) VALUES ('acme', 's');` +
		turn("old", "completed", "now() - interval '90 days'") + turn("new", "completed", "now()") + turn("live", "running", "NULL") + result("old") +
		result("new") + stream("old") + stream("refused"))

	require.NoError(t, Migrate(t.Context(), pool))
	s := NewStore(pool, c)
	for _, w := range []Sweep{
		{Kind: KeptEvents},
		{Tenant: "acme", Kind: KeptEvents},
		{Tenant: "acme", Kind: KeptTraces},
		{Tenant: "acme", Kind: KeptResults},
		{Tenant: "acme", Kind: KeptTranscripts},
		{Tenant: "acme", Kind: KeptBlobs, Follow: true},
		{Tenant: "acme", Kind: KeptTurns},
	} {
		w.Before = time.Now().Add(-24 * time.Hour)
		for at, done := (SweepCursor{}), false; !done; {
			out, err := s.SweepRetention(t.Context(), w, at)
			require.NoError(t, err)
			at, done = out.Next, out.Done
		}
	}
	var left []string
	require.NoError(t, pool.QueryRow(t.Context(), `SELECT array_agg(turn_id ORDER BY turn_id) FROM turns`).Scan(&left))
	require.Equal(t, []string{"live", "new"}, left)
	var streams int
	require.NoError(t, pool.QueryRow(t.Context(), `SELECT count(*) FROM streams`).Scan(&streams))
	require.Zero(t, streams)
}
