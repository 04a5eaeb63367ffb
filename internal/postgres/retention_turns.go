package postgres

import (
	"context"
	"encoding/json"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/retention"
)

// Turns that ended, and have not been swept of $6 while they have been of $7, in the order in which they did.
const readEnded = `
SELECT t.turn_id, t.session_id, t.finished_at, t.swept & $7 = $7 AND NOT (
	t.parent <> '' AND EXISTS (SELECT FROM turns p WHERE p.turn_id = t.parent AND p.finished_at IS NULL))
FROM turns t
WHERE t.tenant = $1 AND t.finished_at IS NOT NULL AND (t.finished_at, t.turn_id) > ($2, $3) AND t.finished_at < $4 AND t.swept & $6 = 0
ORDER BY t.finished_at, t.turn_id LIMIT $5`

// The order of locks is everybody's: sessions first. Who has one locked is at work there.
const (
	lockQuiet = `
SELECT s.session_id, s.holder IS NULL AND NOT EXISTS (
	SELECT FROM turns q WHERE q.tenant = s.tenant AND q.session_id = s.session_id AND q.state = 'queued')
FROM sessions s WHERE s.tenant = $1 AND s.session_id = ANY ($2) ORDER BY s.session_id FOR `
	withoutKey = `NO KEY UPDATE SKIP LOCKED`
	withKey    = `UPDATE SKIP LOCKED`
)

// turnKind is how a kind that belongs to turns is swept.
type turnKind struct {
	bit    int16
	needs  int16 // that have to be gone before
	quiet  bool  // not while a turn of the session runs or waits
	remove func(r *removal, ctx context.Context, w *retention.Sweep, c *chosen) error
}

func turnKindOf(w *retention.Sweep) turnKind {
	switch w.Kind {
	case retention.Events:
		return turnKind{bit: sweptEvents, remove: (*removal).events}
	case retention.Transcripts:
		return turnKind{bit: sweptTranscripts, quiet: true, remove: (*removal).transcripts}
	case retention.Results:
		return turnKind{bit: sweptResults, remove: (*removal).results}
	case retention.Traces:
		return turnKind{bit: sweptTraces, remove: (*removal).traces}
	case retention.Blobs:
		k := turnKind{bit: sweptBlobs, needs: sweptTranscripts, quiet: true, remove: (*removal).refs}
		if w.Follow {
			k.needs |= sweptResults | sweptTraces
		}
		return k
	default:
		return turnKind{needs: sweptAll, quiet: true, remove: (*removal).turns}
	}
}

// ended is a turn that ended, as a sweep comes upon it.
type ended struct {
	id      string
	session string
	at      time.Time
	due     bool
}

// chosen are the turns of one transaction, and their sessions, which are locked.
type chosen struct {
	turns    []string
	sessions []string
}

// sweepTurns takes the next turns.
func (s *Store) sweepTurns(ctx context.Context, w *retention.Sweep, at *retention.Cursor, out *retention.Batch) (done bool, err error) {
	kind := turnKindOf(w)
	if kind.bit != 0 {
		if err := s.from(ctx, w, at); err != nil {
			return false, err
		}
	} else if at.At.IsZero() {
		at.At = time.Unix(0, 0)
	}
	err = s.begin(ctx, func(r *removal) error {
		rows, err := r.tx.Query(ctx, readEnded, w.Tenant, at.At, at.ID, w.Before, sweptTurns, kind.bit, kind.needs)
		if err != nil {
			return err
		}
		found, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (e ended, err error) {
			err = row.Scan(&e.id, &e.session, &e.at, &e.due)
			return e, err
		})
		if err != nil || len(found) == 0 {
			done = len(found) == 0
			return err
		}
		next, c, err := r.choose(ctx, w, &kind, at, found)
		if err != nil {
			return err
		}
		if len(c.turns) > 0 {
			more, err := full(kind.remove(r, ctx, w, &c))
			out.Removed, out.Bytes = r.gone, r.bytes
			if err != nil || more {
				out.Next = *at
				return err
			}
		}
		out.Next, done = next, len(found) < sweptTurns
		return r.mark(ctx, w, &kind, at, &c, found)
	})
	return done, err
}

// choose locks the sessions of what was found and chooses what may go now.
func (r *removal) choose(
	ctx context.Context, w *retention.Sweep, kind *turnKind, at *retention.Cursor, found []ended,
) (next retention.Cursor, c chosen, err error) {
	names := make([]string, len(found))
	for i := range found {
		names[i] = found[i].session
	}
	lock := lockQuiet + withoutKey
	if kind.bit == 0 {
		lock = lockQuiet + withKey
	}
	rows, err := r.tx.Query(ctx, lock, w.Tenant, names)
	if err != nil {
		return next, c, err
	}
	var (
		id    string
		quiet bool
		free  = map[string]bool{}
	)
	_, err = pgx.ForEachRow(rows, []any{&id, &quiet}, func() error {
		if quiet || !kind.quiet {
			free[id] = true
			c.sessions = append(c.sessions, id)
		}
		return nil
	})
	next = retention.Cursor{Stage: at.Stage, At: at.At, ID: at.ID, Behind: at.Behind}
	for i := range found {
		e := &found[i]
		next.At, next.ID = e.at, e.id
		if !e.due || !free[e.session] {
			next.Behind = true
			continue
		}
		c.turns = append(c.turns, e.id)
	}
	return next, c, err
}

const (
	markSwept = `
UPDATE turns SET swept = swept | $2 WHERE turn_id = ANY ($1)`
	// What was asked is part of what was said.
	markSilent = `
UPDATE turns SET swept = swept | $2, input = '[]', context = '{}', output_schema = NULL, client_tools = NULL WHERE turn_id = ANY ($1)`
)

// mark notes what has been swept of the turns, and how far all of them have.
func (r *removal) mark(ctx context.Context, w *retention.Sweep, kind *turnKind, at *retention.Cursor, c *chosen, found []ended) error {
	if kind.bit == 0 {
		return nil
	}
	sql := markSwept
	if kind.bit == sweptTranscripts {
		sql = markSilent
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
	for n < len(found) && n < len(c.turns) && found[n].id == c.turns[n] {
		n++
	}
	if n == 0 {
		return nil
	}
	_, err := r.tx.Exec(ctx, writeMark, w.Tenant, w.Kind, found[n-1].at, found[n-1].id)
	return err
}

// removing is a statement that removes at most $1 rows that a condition chooses.
func removing(table, where, size string) string {
	return `WITH gone AS (
	DELETE FROM ` + table + ` WHERE ctid = ANY (ARRAY(SELECT ctid FROM ` + table + ` WHERE ` + where + ` LIMIT $1)) RETURNING ` + size + ` AS size
) SELECT count(*), coalesce(sum(size), 0)::bigint FROM gone`
}

// each removes the rows of the turns from tables, in their order.
func (r *removal) each(ctx context.Context, c *chosen, tables ...string) error {
	for _, table := range tables {
		size := "0"
		if table == "messages" {
			size = "size"
		}
		if err := r.counted(ctx, removing(table, "turn_id = ANY ($2)", size), c.turns); err != nil {
			return err
		}
	}
	return nil
}

const (
	lockStreams = `
SELECT FROM streams WHERE stream_id = ANY ($1) ORDER BY stream_id FOR UPDATE`
	// From here on followers see a gap.
	hideEvents = `
UPDATE streams SET first_index = last_index + 1 WHERE stream_id = ANY ($1) AND first_index <= last_index`
	markStreams = `
UPDATE streams SET swept = true WHERE stream_id = ANY ($1) AND closed_at IS NOT NULL AND NOT swept`
)

// events removes the events of the turns. The rows of their streams stay: followers are told of a gap, producers that it is closed.
func (r *removal) events(ctx context.Context, _ *retention.Sweep, c *chosen) error {
	if err := r.exec(ctx, c.turns, lockStreams, hideEvents); err != nil {
		return err
	}
	if err := r.counted(ctx, removing("events", "stream_id = ANY ($2)", "size"), c.turns); err != nil {
		return err
	}
	if err := r.counted(ctx, removing("stream_producers", "stream_id = ANY ($2)", "0"), c.turns); err != nil {
		return err
	}
	return r.exec(ctx, c.turns, markStreams)
}

func (r *removal) exec(ctx context.Context, ids []string, statements ...string) error {
	for _, sql := range statements {
		if _, err := r.tx.Exec(ctx, sql, ids); err != nil {
			return err
		}
	}
	return nil
}

// Sessions whose newest turn is over for as long, too: what they keep besides turns goes with it.
const readSilent = `
SELECT s.id FROM unnest($2::text[]) AS s (id)
WHERE (SELECT t.finished_at FROM turns t WHERE t.tenant = $1 AND t.session_id = s.id ORDER BY t.seq DESC LIMIT 1) < $3`

// transcripts removes what was said. The positions of what is left stay: a session goes on counting.
func (r *removal) transcripts(ctx context.Context, w *retention.Sweep, c *chosen) error {
	if err := r.each(ctx, c, "messages", "turn_steps"); err != nil {
		return err
	}
	rows, err := r.tx.Query(ctx, readSilent, w.Tenant, c.sessions, w.Before)
	if err != nil {
		return err
	}
	silent, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil || len(silent) == 0 {
		return err
	}
	for _, table := range []string{"session_notes", "remembered_decisions", "reference_names", "session_references", "reference_lists"} {
		if err := r.counted(ctx, removing(table, "tenant = $2 AND session_id = ANY ($3)", "0"), w.Tenant, silent); err != nil {
			return err
		}
	}
	return nil
}

// traces removes what turns did, call by call.
func (r *removal) traces(ctx context.Context, _ *retention.Sweep, c *chosen) error {
	return r.each(ctx, c, "tool_calls", "approvals", "prepared", "turn_tools")
}

// refs lets go of content. The collection removes what nobody else holds.
func (r *removal) refs(ctx context.Context, w *retention.Sweep, c *chosen) error {
	holders := make([]string, len(c.turns))
	for i, id := range c.turns {
		holders[i] = "turn/" + id
	}
	return r.counted(ctx, removing("blob_refs", "tenant = $2 AND holder = ANY ($3)", "0"), w.Tenant, holders)
}

const (
	readOutputs = `
SELECT turn_id, session_id, status, output, coalesce(pg_column_size(result_data), 0) + coalesce(pg_column_size(answer), 0) + octet_length(output::text)
FROM agent_results WHERE turn_id = ANY ($1) AND expired_at IS NULL`
	expireResults = `
UPDATE agent_results r SET output = e.output::json, answer = NULL, result_data = NULL, cas_id = NULL, s3_ref = NULL, error = NULL, tool_calls = '[]',
	expired_at = clock_timestamp()
FROM unnest($1::text[], $2::text[]) AS e (turn_id, output) WHERE r.turn_id = e.turn_id`
)

// results empties the results. That there was one stays: without it the turn could be run again.
func (r *removal) results(ctx context.Context, _ *retention.Sweep, c *chosen) error {
	rows, err := r.tx.Query(ctx, readOutputs, c.turns)
	if err != nil {
		return err
	}
	var (
		turn, session, status string
		raw                   []byte
		size                  int64
		ids, stubs            []string
	)
	_, err = pgx.ForEachRow(rows, []any{&turn, &session, &status, &raw, &size}, func() error {
		left, err := emptied(raw, turn, session, status)
		ids, stubs = append(ids, turn), append(stubs, string(left))
		r.gone, r.bytes = r.gone+1, r.bytes+size
		return err
	})
	if err != nil || len(ids) == 0 {
		return err
	}
	_, err = r.tx.Exec(ctx, expireResults, ids, stubs)
	return err
}

// emptied is what stays of an output: who, how it ended, what it took. Nothing that was said.
func emptied(raw []byte, turn, session, status string) ([]byte, error) {
	var was agent.AgentStepOutput
	if err := json.Unmarshal(raw, &was); err != nil { // of a release that wrote it otherwise
		was = agent.AgentStepOutput{TurnID: agent.TurnID(turn), SessionID: agent.SessionID(session), Status: agent.TurnStatus(status)}
	}
	left := agent.AgentStepOutput{
		TurnID: was.TurnID, SessionID: was.SessionID, Agent: was.Agent, AgentInstanceID: was.AgentInstanceID, Status: was.Status,
		Blocks: []agent.Block{}, ResultRef: was.ResultRef, ToolCalls: []agent.ToolCallNote{}, Usage: was.Usage, StopReason: was.StopReason,
		StreamID: was.StreamID, ExecutionTimeMS: was.ExecutionTimeMS, Model: was.Model,
	}
	if was.Error != nil {
		left.Error = &agent.Failure{Type: was.Error.Type}
	}
	return encode(left)
}
