package postgres

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/turnstone-run/turnstone/internal/retention"
)

// readEnded reads turns without bit $6 in swept, in the order in which they ended. A turn is due if it has the bits $7 and its parent has ended.
const readEnded = `
SELECT t.turn_id, t.session_id, t.finished_at, t.swept & $7 = $7 AND NOT (
	t.parent <> '' AND EXISTS (SELECT FROM turns p WHERE p.turn_id = t.parent AND p.finished_at IS NULL))
FROM turns t
WHERE t.tenant = $1 AND t.finished_at IS NOT NULL AND (t.finished_at, t.turn_id) > ($2, $3) AND t.finished_at < $4 AND t.swept & $6 = 0
ORDER BY t.finished_at, t.turn_id LIMIT $5`

// lockIdle locks sessions, as all transactions lock sessions first, and returns whether they are idle: no turn runs or waits in them. It skips locked
// sessions, which are in use. A strength of lock must follow it.
const (
	lockIdle = `
SELECT s.session_id, s.holder IS NULL AND NOT EXISTS (
	SELECT FROM turns q WHERE q.tenant = s.tenant AND q.session_id = s.session_id AND q.state = 'queued')
FROM sessions s WHERE s.tenant = $1 AND s.session_id = ANY ($2) ORDER BY s.session_id FOR `
	toUpdate = `NO KEY UPDATE SKIP LOCKED`
	toDelete = `UPDATE SKIP LOCKED`
)

// turnKind says how to sweep a kind of data that belongs to turns.
type turnKind struct {
	bit      int16 // in turns.swept; 0 for the turns themselves
	needs    int16 // the bits of the kinds that must have been swept before
	onlyIdle bool  // whether the session must be idle
	remove   func(r *removal, ctx context.Context, w *retention.Sweep, c *chosenTurns) error
}

func turnKindOf(w *retention.Sweep) turnKind {
	switch w.Kind {
	case retention.Events:
		return turnKind{bit: sweptEvents, remove: (*removal).removeEvents}
	case retention.Transcripts:
		return turnKind{bit: sweptTranscripts, onlyIdle: true, remove: (*removal).removeTranscripts}
	case retention.Results:
		return turnKind{bit: sweptResults, remove: (*removal).emptyResults}
	case retention.Traces:
		return turnKind{bit: sweptTraces, remove: (*removal).removeTraces}
	case retention.Blobs:
		k := turnKind{bit: sweptBlobs, needs: sweptTranscripts, onlyIdle: true, remove: (*removal).removeRefs}
		if w.Follow {
			k.needs |= sweptResults | sweptTraces
		}
		return k
	default:
		return turnKind{needs: sweptAll, onlyIdle: true, remove: (*removal).removeTurns}
	}
}

// endedTurn is a turn that a sweep reads.
type endedTurn struct {
	ID      string
	Session string
	At      time.Time
	Due     bool
}

// chosenTurns are the turns that one transaction sweeps, and the sessions that it has locked.
type chosenTurns struct {
	turns    []string
	sessions []string
}

// sweepTurns sweeps the next turns.
func (s *RetentionStore) sweepTurns(ctx context.Context, w *retention.Sweep, at *retention.Cursor, out *retention.Batch) (done bool, err error) {
	kind := turnKindOf(w)
	if kind.bit != 0 {
		if err := s.setStart(ctx, w, at); err != nil {
			return false, err
		}
	} else if at.At.IsZero() {
		at.At = time.Unix(0, 0)
	}
	err = s.remove(ctx, func(r *removal) error {
		found, err := queryRows(ctx, r.tx, pgx.RowToStructByPos[endedTurn], readEnded, w.Tenant, at.At, at.ID, w.Before, maxSweptTurns, kind.bit,
			kind.needs)
		if err != nil || len(found) == 0 {
			done = len(found) == 0
			return err
		}
		next, c, err := r.choose(ctx, w, &kind, at, found)
		if err != nil {
			return err
		}
		if len(c.turns) > 0 {
			full, err := isFull(kind.remove(r, ctx, w, &c))
			out.Removed, out.Bytes = r.removed, r.bytes
			if err != nil || full {
				out.Next = *at
				return err
			}
		}
		out.Next, done = next, len(found) < maxSweptTurns
		return r.mark(ctx, w, &kind, at, &c, found)
	})
	return done, err
}

// choose locks the sessions of turns, and returns the turns that may be swept now and the cursor after all of them.
func (r *removal) choose(
	ctx context.Context, w *retention.Sweep, kind *turnKind, at *retention.Cursor, found []endedTurn,
) (next retention.Cursor, c chosenTurns, err error) {
	names := make([]string, len(found))
	for i := range found {
		names[i] = found[i].Session
	}
	lock := lockIdle + toUpdate
	if kind.bit == 0 {
		lock = lockIdle + toDelete
	}
	rows, err := r.tx.Query(ctx, lock, w.Tenant, names)
	if err != nil {
		return next, c, err
	}
	var (
		id     string
		isIdle bool
		isFree = map[string]bool{}
	)
	_, err = pgx.ForEachRow(rows, []any{&id, &isIdle}, func() error {
		if isIdle || !kind.onlyIdle {
			isFree[id] = true
			c.sessions = append(c.sessions, id)
		}
		return nil
	})
	next = *at
	for i := range found {
		e := &found[i]
		next.At, next.ID = e.At, e.ID
		if !e.Due || !isFree[e.Session] {
			next.Behind = true
			continue
		}
		c.turns = append(c.turns, e.ID)
	}
	return next, c, err
}

const (
	markSwept = `
UPDATE turns SET swept = swept | $2 WHERE turn_id = ANY ($1)`
	// markTranscripts also removes the input of the turns, which is part of the transcript.
	markTranscripts = `
UPDATE turns SET swept = swept | $2, input = '[]', context = '{}', output_schema = NULL, client_tools = NULL WHERE turn_id = ANY ($1)`
)

// mark records that the turns have been swept, and moves the mark of the sweep if no turn before them was skipped.
func (r *removal) mark(ctx context.Context, w *retention.Sweep, kind *turnKind, at *retention.Cursor, c *chosenTurns, found []endedTurn) error {
	if kind.bit == 0 {
		return nil
	}
	sql := markSwept
	if kind.bit == sweptTranscripts {
		sql = markTranscripts
	}
	if len(c.turns) > 0 {
		if _, err := r.tx.Exec(ctx, sql, c.turns, kind.bit); err != nil {
			return err
		}
	}
	if at.Behind {
		return nil
	}
	n := 0
	for n < len(found) && n < len(c.turns) && found[n].ID == c.turns[n] {
		n++
	}
	if n == 0 {
		return nil
	}
	_, err := r.tx.Exec(ctx, writeMark, w.Tenant, w.Kind, found[n-1].At, found[n-1].ID)
	return err
}
