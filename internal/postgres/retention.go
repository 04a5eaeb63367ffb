package postgres

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/retention"
)

// The bits of turns.swept.
const (
	sweptEvents      = 1
	sweptTranscripts = 2
	sweptResults     = 4
	sweptTraces      = 8
	sweptBlobs       = 16
	sweptAll         = 31
)

const (
	// sweptRows bounds the rows that one transaction removes, sweptTurns the turns that it looks at.
	sweptRows  = 1000
	sweptTurns = 200
	sweptRuns  = 50
	// sweepPatience is what a sweep waits for a row: a running turn matters more, and the next sweep comes.
	sweepPatience = `SET LOCAL lock_timeout = '2s'`
)

// stage does one transaction of a sweep. done: the stage has no more.
type stage func(s *Store, ctx context.Context, w *retention.Sweep, at *retention.Cursor, out *retention.Batch) (done bool, err error)

// stages lists what a sweep of a kind consists of, nil for what is no kind.
func sweepStages(w *retention.Sweep) []stage {
	switch {
	case w.Tenant == "" && w.Kind == retention.Events:
		return []stage{(*Store).sweepStreams}
	case w.Kind == retention.Audit:
		return []stage{(*Store).sweepAudit}
	case w.Tenant == "":
		return nil
	}
	switch w.Kind {
	case retention.Events, retention.Transcripts, retention.Results, retention.Blobs, retention.Turns:
		return []stage{(*Store).sweepTurns}
	case retention.Traces:
		return []stage{(*Store).sweepTurns, (*Store).sweepWorkflowRuns, statements(oldScheduleRuns()), statements(oldPipelines()...)}
	case retention.Usage:
		return []stage{statements(oldLedger()), statements(oldDays())}
	default:
		return nil
	}
}

// SweepRetention removes some of what a sweep is about, in one short transaction of at most 1,000 rows, and says where to go on. It can be
// ended anywhere and begun anew. Turns that have not ended are never touched; transcripts and content neither in a session in which a turn runs or
// waits, nor what a child turn left before its parent has ended. What somebody else has locked is passed over until the next sweep.
func (s *Store) SweepRetention(ctx context.Context, w retention.Sweep, at retention.Cursor) (retention.Batch, error) {
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

// begin runs one transaction of a sweep.
func (s *Store) begin(ctx context.Context, work func(tx *removal) error) error {
	return pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, sweepPatience); err != nil {
			return err
		}
		return work(&removal{tx: tx, left: sweptRows})
	})
}

// removal is a transaction that may remove so many more rows.
type removal struct {
	tx    pgx.Tx
	left  int
	gone  int64
	bytes int64
}

// errFull says that the transaction has removed as much as it may: it is committed, and another one goes on.
var errFull = errors.New("full")

// counted runs a statement that ends in LIMIT $1 and answers how many rows it removed, and how many bytes those had. errFull when it may have
// left some.
func (r *removal) counted(ctx context.Context, sql string, args ...any) error {
	var gone, bytes int64
	if err := r.tx.QueryRow(ctx, sql, append([]any{r.left}, args...)...).Scan(&gone, &bytes); err != nil {
		return err
	}
	r.left -= int(gone)
	r.gone, r.bytes = r.gone+gone, r.bytes+bytes
	if r.left <= 0 {
		return errFull
	}
	return nil
}

// full forgives errFull.
func full(err error) (bool, error) {
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

// from is where a stage over turns or streams begins.
func (s *Store) from(ctx context.Context, w *retention.Sweep, at *retention.Cursor) error {
	if !at.At.IsZero() {
		return nil
	}
	at.At = time.Unix(0, 0)
	return optional(s.pool.QueryRow(ctx, readMark, w.Tenant, w.Kind).Scan(&at.At, &at.ID))
}
