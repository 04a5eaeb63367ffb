package postgres

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/retention"
)

// RetentionStore removes old data, and counts what is stored.
type RetentionStore struct{ *database }

// The bits of turns.swept: which data of a turn has been removed.
const (
	sweptEvents      = 1
	sweptTranscripts = 2
	sweptResults     = 4
	sweptTraces      = 8
	sweptBlobs       = 16
	sweptAll         = 31
)

const (
	// A transaction removes at most maxSweptRows rows, and reads at most maxSweptTurns turns or maxSweptRuns runs.
	maxSweptRows  = 1000
	maxSweptTurns = 200
	maxSweptRuns  = 50
	// sweepLockTimeout bounds the wait for a row, because running turns are more important than a sweep, which is repeated anyway.
	sweepLockTimeout = `SET LOCAL lock_timeout = '2s'`
)

// stage runs one transaction of a sweep and writes the result to out. done reports whether the stage has nothing left to do.
type stage func(s *RetentionStore, ctx context.Context, w *retention.Sweep, at *retention.Cursor, out *retention.Batch) (done bool, err error)

// sweepStages returns the stages of a sweep, or nil if its kind is unknown.
func sweepStages(w *retention.Sweep) []stage {
	switch {
	case w.Tenant == "" && w.Kind == retention.Events:
		return []stage{(*RetentionStore).sweepStreams}
	case w.Kind == retention.Audit:
		return []stage{(*RetentionStore).sweepAudit}
	case w.Tenant == "":
		return nil
	}
	switch w.Kind {
	case retention.Events, retention.Transcripts, retention.Results, retention.Blobs, retention.Turns:
		return []stage{(*RetentionStore).sweepTurns}
	case retention.Traces:
		return []stage{
			(*RetentionStore).sweepTurns, (*RetentionStore).sweepWorkflowRuns, statements(deletionOfTenant("schedule_runs", "ended_at < $3")),
			statements(
				deletionOfTenant("pipeline_uses", "at < $3"), deletionOfTenant("pipeline_samples", "used_at < $3"),
				deletionOfTenant("pipeline_shapes", `used_at < $3 AND NOT EXISTS (
		SELECT FROM composites c WHERE c.tenant = pipeline_shapes.tenant AND c.shape = pipeline_shapes.shape)`), // composites need their shapes
			),
		}
	case retention.Usage:
		return []stage{
			statements(deletionOfTenant("usage_ledger", oldLedgerRows)),
			statements(deletionOfTenant("usage_daily",
				"kind IN ('tenant', 'user', 'agent', 'model') AND day < ($3::timestamptz AT TIME ZONE 'UTC')::date")),
		}
	default:
		return nil
	}
}

// SweepRetention removes some of the data of a sweep, in one short transaction of at most 1,000 rows, and returns where to continue. It can be interrupted
// and repeated. It does not remove data of a turn before the turn and its parent have ended, nor transcripts and references to content while a turn of the
// session runs or waits. It leaves locked rows to the next sweep.
func (s *RetentionStore) SweepRetention(ctx context.Context, w retention.Sweep, at retention.Cursor) (retention.Batch, error) {
	const op = "sweep"
	all := sweepStages(&w)
	switch {
	case all == nil:
		return retention.Batch{}, agent.Invalid("kind", "%.40q is not kept for tenant %.140q", w.Kind, w.Tenant)
	case w.Before.IsZero():
		return retention.Batch{}, agent.Invalid("before", "is missing")
	case at.Stage < 0 || at.Stage >= len(all):
		return retention.Batch{}, agent.Invalid("stage", "is %d, want 0 to %d", at.Stage, len(all)-1)
	}
	out := retention.Batch{Next: at}
	done, err := all[at.Stage](s, ctx, &w, &at, &out)
	if err != nil {
		return retention.Batch{}, mapError(op, err)
	}
	if done {
		out.Next = retention.Cursor{Stage: at.Stage + 1}
		out.Done = out.Next.Stage == len(all)
	}
	return out, nil
}

// remove runs one transaction of a sweep.
func (s *RetentionStore) remove(ctx context.Context, work func(r *removal) error) error {
	return pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, sweepLockTimeout); err != nil {
			return err
		}
		return work(&removal{tx: tx, maxRows: maxSweptRows})
	})
}

// removal is a transaction that removes a bounded number of rows.
type removal struct {
	tx      pgx.Tx
	maxRows int // how many rows it may still remove
	removed int64
	bytes   int64
}

// errFull means that a removal has removed as many rows as it may. It has to be committed, and another one has to continue.
var errFull = errors.New("full")

// delete runs a statement of [deletion] and counts rows and bytes. The error is errFull if there may be more rows to delete.
func (r *removal) delete(ctx context.Context, sql string, args ...any) error {
	var removed, bytes int64
	if err := r.tx.QueryRow(ctx, sql, append([]any{r.maxRows}, args...)...).Scan(&removed, &bytes); err != nil {
		return err
	}
	r.maxRows -= int(removed)
	r.removed, r.bytes = r.removed+removed, r.bytes+bytes
	if r.maxRows <= 0 {
		return errFull
	}
	return nil
}

// deletion returns a statement that deletes at most $1 rows that match a condition, and counts them and their bytes.
func deletion(table, where string) string {
	size := "0"
	if table == "events" || table == "messages" {
		size = "size"
	}
	return `WITH gone AS (
	DELETE FROM ` + table + ` WHERE ctid = ANY (ARRAY(SELECT ctid FROM ` + table + ` WHERE ` + where + ` LIMIT $1)) RETURNING ` + size + ` AS size
) SELECT count(*), coalesce(sum(size), 0)::bigint FROM gone`
}

// deleteFrom deletes the rows that match a condition from one table after the other. The errors are those of delete.
func (r *removal) deleteFrom(ctx context.Context, tables []string, where string, args ...any) error {
	for _, table := range tables {
		if err := r.delete(ctx, deletion(table, where), args...); err != nil {
			return err
		}
	}
	return nil
}

// isFull reports whether err is errFull. It returns any other error.
func isFull(err error) (full bool, other error) {
	if errors.Is(err, errFull) {
		return true, nil
	}
	return false, err
}

const readMark = `
SELECT at, id FROM retention_marks WHERE tenant = $1 AND kind = $2`

const writeMark = `
INSERT INTO retention_marks AS m (tenant, kind, at, id) VALUES ($1, $2, $3, $4)
ON CONFLICT (tenant, kind) DO UPDATE SET at = excluded.at, id = excluded.id WHERE (m.at, m.id) < (excluded.at, excluded.id)`

// setStart sets a new cursor to the mark of the sweep: everything before the mark has been swept.
func (s *RetentionStore) setStart(ctx context.Context, w *retention.Sweep, at *retention.Cursor) error {
	if !at.At.IsZero() {
		return nil
	}
	at.At = time.Unix(0, 0)
	return ignoreNoRows(s.pool.QueryRow(ctx, readMark, w.Tenant, w.Kind).Scan(&at.At, &at.ID))
}

// readClosed reads the next closed streams, and whether they have no turn, because the turn was refused before it began.
const readClosed = `
SELECT p.stream_id, p.closed_at, t.turn_id IS NULL FROM (
	SELECT s.stream_id, s.closed_at FROM streams s
	WHERE s.closed_at IS NOT NULL AND NOT s.swept AND s.closed_at >= $1 AND s.closed_at < $3 AND (s.closed_at, s.stream_id) > ($1, $2)
	ORDER BY s.closed_at, s.stream_id LIMIT $4
) p LEFT JOIN LATERAL (SELECT turn_id FROM turns WHERE turn_id = p.stream_id LIMIT 1) t ON true ORDER BY p.closed_at, p.stream_id`

// sweepStreams removes the next streams without a turn. A closed stream never gets a turn later.
func (s *RetentionStore) sweepStreams(ctx context.Context, w *retention.Sweep, at *retention.Cursor, out *retention.Batch) (done bool, err error) {
	if err := s.setStart(ctx, w, at); err != nil {
		return false, err
	}
	err = s.remove(ctx, func(r *removal) error {
		rows, err := r.tx.Query(ctx, readClosed, at.At, at.ID, w.Before, maxSweptRows)
		if err != nil {
			return err
		}
		var (
			next      = *at
			hasNoTurn bool
			found     int
			ids       []string
		)
		_, err = pgx.ForEachRow(rows, []any{&next.ID, &next.At, &hasNoTurn}, func() error {
			found++
			if hasNoTurn {
				ids = append(ids, next.ID)
			}
			return nil
		})
		if err != nil {
			return err
		}
		full, err := isFull(r.deleteFrom(ctx, []string{"events", "stream_producers", "streams"}, "stream_id = ANY ($2)", ids))
		out.Removed, out.Bytes = r.removed, r.bytes
		if err != nil || full {
			out.Next = *at
			return err
		}
		out.Next, done = next, found < maxSweptRows
		_, err = r.tx.Exec(ctx, writeMark, w.Tenant, w.Kind, next.At, next.ID)
		return err
	})
	return done, err
}

func (s *RetentionStore) sweepAudit(ctx context.Context, w *retention.Sweep, _ *retention.Cursor, out *retention.Batch) (done bool, err error) {
	err = s.remove(ctx, func(r *removal) error {
		return r.tx.QueryRow(ctx, `SELECT turnstone_expire_audit($1, $2, $3)`, w.Tenant, w.Before, maxSweptRows).Scan(&out.Removed)
	})
	return out.Removed < maxSweptRows, err
}

const readRuns = `
SELECT run_id FROM workflow_runs WHERE tenant = $1 AND started_at < $2 AND finished_at < $2
ORDER BY started_at LIMIT $3 FOR UPDATE SKIP LOCKED`

// sweepWorkflowRuns removes the next runs of workflow definitions. A run may have more steps than one transaction removes.
func (s *RetentionStore) sweepWorkflowRuns(ctx context.Context, w *retention.Sweep, at *retention.Cursor, out *retention.Batch) (done bool, err error) {
	err = s.remove(ctx, func(r *removal) error {
		ids, err := queryRows(ctx, r.tx, pgx.RowTo[string], readRuns, w.Tenant, w.Before, maxSweptRuns)
		if err != nil || len(ids) == 0 {
			done = len(ids) == 0
			return err
		}
		full, err := isFull(r.deleteFrom(ctx, []string{"workflow_run_steps", "workflow_run_attempts", "workflow_runs"}, "run_id = ANY ($2)", ids))
		out.Next, out.Removed, done = *at, r.removed, !full && len(ids) < maxSweptRuns
		return err
	})
	return done, err
}

// oldLedgerRows selects the oldest rows first, so that PostgreSQL uses an index.
const oldLedgerRows = `created_at < $3 ORDER BY created_at`

// deletionOfTenant returns a statement that deletes rows of a tenant ($2) that match a condition with a time ($3).
func deletionOfTenant(table, where string) string {
	return deletion(table, "tenant = $2 AND "+where)
}

// statements returns a stage that runs statements.
func statements(all ...string) stage {
	return func(s *RetentionStore, ctx context.Context, w *retention.Sweep, at *retention.Cursor, out *retention.Batch) (done bool, err error) {
		err = s.remove(ctx, func(r *removal) error {
			for _, sql := range all {
				if full, err := isFull(r.delete(ctx, sql, w.Tenant, w.Before)); err != nil || full {
					out.Next, out.Removed = *at, r.removed
					return err
				}
			}
			out.Removed, done = r.removed, true
			return nil
		})
		return done, err
	}
}
