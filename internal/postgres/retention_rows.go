package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/turnstone-run/turnstone/internal/retention"
)

const (
	// A session that has been forgotten begins anew, from 1.
	emptySessions = `
SELECT s.id FROM unnest($2::text[]) AS s (id)
WHERE NOT EXISTS (SELECT FROM turns t WHERE t.tenant = $1 AND t.session_id = s.id)`
	countTurns = `
WITH gone AS (DELETE FROM turns WHERE turn_id = ANY ($1) RETURNING 1) SELECT count(*) FROM gone`
)

// turns removes turns of which everything has been swept, and sessions that have no others.
func (r *removal) turns(ctx context.Context, w *retention.Sweep, c *chosen) error {
	for _, table := range []string{"events", "stream_producers", "streams"} {
		if _, err := r.tx.Exec(ctx, `DELETE FROM `+table+` WHERE stream_id = ANY ($1)`, c.turns); err != nil {
			return err
		}
	}
	for _, table := range []string{"agent_results", "prepared", "approvals", "tool_calls", "turn_steps", "messages"} {
		if _, err := r.tx.Exec(ctx, `DELETE FROM `+table+` WHERE turn_id = ANY ($1)`, c.turns); err != nil {
			return err
		}
	}
	var gone int64
	if err := r.tx.QueryRow(ctx, countTurns, c.turns).Scan(&gone); err != nil {
		return err
	}
	r.gone += gone
	rows, err := r.tx.Query(ctx, emptySessions, w.Tenant, c.sessions)
	if err != nil {
		return err
	}
	empty, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil || len(empty) == 0 {
		return err
	}
	for _, table := range []string{"session_notes", "remembered_decisions", "reference_lists", "sessions"} {
		if _, err := r.tx.Exec(ctx, `DELETE FROM `+table+` WHERE tenant = $1 AND session_id = ANY ($2)`, w.Tenant, empty); err != nil {
			return err
		}
	}
	return nil
}

// The next closed streams, and whether they have a turn. Those without are of turns that were refused before they began.
const readClosed = `
SELECT p.stream_id, p.closed_at, t.turn_id IS NULL FROM (
	SELECT s.stream_id, s.closed_at FROM streams s
	WHERE s.closed_at IS NOT NULL AND NOT s.swept AND s.closed_at >= $1 AND s.closed_at < $3 AND (s.closed_at, s.stream_id) > ($1, $2)
	ORDER BY s.closed_at, s.stream_id LIMIT $4
) p LEFT JOIN LATERAL (SELECT turn_id FROM turns WHERE turn_id = p.stream_id LIMIT 1) t ON true ORDER BY p.closed_at, p.stream_id`

// sweepStreams takes the next streams without a turn. A turn never gets a stream that is closed, so that none is passed over.
func (s *Store) sweepStreams(ctx context.Context, w *retention.Sweep, at *retention.Cursor, out *retention.Batch) (done bool, err error) {
	if err := s.from(ctx, w, at); err != nil {
		return false, err
	}
	err = s.begin(ctx, func(r *removal) error {
		rows, err := r.tx.Query(ctx, readClosed, at.At, at.ID, w.Before, sweptRows)
		if err != nil {
			return err
		}
		var (
			next  = *at
			stray bool
			found int
			ids   []string
		)
		_, err = pgx.ForEachRow(rows, []any{&next.ID, &next.At, &stray}, func() error {
			found++
			if stray {
				ids = append(ids, next.ID)
			}
			return nil
		})
		if err != nil {
			return err
		}
		more, err := full(r.stray(ctx, ids))
		out.Removed, out.Bytes = r.gone, r.bytes
		if err != nil || more {
			out.Next = *at
			return err
		}
		out.Next, done = next, found < sweptRows
		_, err = r.tx.Exec(ctx, writeMark, w.Tenant, w.Kind, next.At, next.ID)
		return err
	})
	return done, err
}

func (r *removal) stray(ctx context.Context, ids []string) error {
	if len(ids) == 0 {
		return nil
	}
	for _, step := range [][2]string{{"events", "size"}, {"stream_producers", "0"}, {"streams", "0"}} {
		if err := r.counted(ctx, removing(step[0], "stream_id = ANY ($2)", step[1]), ids); err != nil {
			return err
		}
	}
	return nil
}

func (s *Store) sweepAudit(ctx context.Context, w *retention.Sweep, _ *retention.Cursor, out *retention.Batch) (done bool, err error) {
	err = s.begin(ctx, func(r *removal) error {
		return r.tx.QueryRow(ctx, `SELECT turnstone_expire_audit($1, $2, $3)`, w.Tenant, w.Before, sweptRows).Scan(&out.Removed)
	})
	return out.Removed < sweptRows, err
}

const readRuns = `
SELECT run_id FROM workflow_runs WHERE tenant = $1 AND started_at < $2 AND finished_at < $2
ORDER BY started_at LIMIT $3 FOR UPDATE SKIP LOCKED`

// sweepWorkflowRuns takes the next runs of workflow definitions. A run may have visited a great many nodes.
func (s *Store) sweepWorkflowRuns(ctx context.Context, w *retention.Sweep, at *retention.Cursor, out *retention.Batch) (done bool, err error) {
	err = s.begin(ctx, func(r *removal) error {
		rows, err := r.tx.Query(ctx, readRuns, w.Tenant, w.Before, sweptRuns)
		if err != nil {
			return err
		}
		ids, err := pgx.CollectRows(rows, pgx.RowTo[string])
		if err != nil || len(ids) == 0 {
			done = len(ids) == 0
			return err
		}
		more, err := full(r.runs(ctx, ids))
		out.Next, out.Removed, done = *at, r.gone, !more && len(ids) < sweptRuns
		return err
	})
	return done, err
}

func (r *removal) runs(ctx context.Context, ids []string) error {
	for _, table := range []string{"workflow_run_steps", "workflow_run_attempts", "workflow_runs"} {
		if err := r.counted(ctx, removing(table, "run_id = ANY ($2)", "0"), ids); err != nil {
			return err
		}
	}
	return nil
}

// beyond are the statements that remove a tenant's rows ($2) from before a time ($3) out of a table.
func beyond(table, where string) string { return removing(table, "tenant = $2 AND "+where, "0") }

func oldScheduleRuns() string { return beyond("schedule_runs", "ended_at < $3") }

// oldPipelines spares the shapes that have become tools.
func oldPipelines() []string {
	return []string{
		beyond("pipeline_uses", "at < $3"), beyond("pipeline_samples", "used_at < $3"),
		beyond("pipeline_shapes", `used_at < $3 AND NOT EXISTS (
		SELECT FROM composites c WHERE c.tenant = pipeline_shapes.tenant AND c.shape = pipeline_shapes.shape)`),
	}
}

func oldLedger() string { return beyond("usage_ledger", "created_at < $3 ORDER BY created_at") }

func oldDays() string {
	return beyond("usage_daily", "kind IN ('tenant', 'user', 'agent', 'model') AND day < ($3::timestamptz AT TIME ZONE 'UTC')::date")
}

// statements is a stage that removes what statements choose.
func statements(all ...string) stage {
	return func(s *Store, ctx context.Context, w *retention.Sweep, at *retention.Cursor, out *retention.Batch) (done bool, err error) {
		err = s.begin(ctx, func(r *removal) error {
			for _, sql := range all {
				if more, err := full(r.counted(ctx, sql, w.Tenant, w.Before)); err != nil || more {
					out.Next, out.Removed = *at, r.gone
					return err
				}
			}
			out.Removed, done = r.gone, true
			return nil
		})
		return done, err
	}
}
