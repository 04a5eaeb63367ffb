package postgres

import (
	"context"
	"encoding/json"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/retention"
)

// Turns in the order in which they ended, without bit $6 in swept; due are those with the bits $7.
const readEnded = `
SELECT t.turn_id, t.session_id, t.finished_at, t.swept & $7 = $7 AND NOT (
	t.parent <> '' AND EXISTS (SELECT FROM turns p WHERE p.turn_id = t.parent AND p.finished_at IS NULL))
FROM turns t
WHERE t.tenant = $1 AND t.finished_at IS NOT NULL AND (t.finished_at, t.turn_id) > ($2, $3) AND t.finished_at < $4 AND t.swept & $6 = 0
ORDER BY t.finished_at, t.turn_id LIMIT $5`

// Sessions are locked first, as everywhere. A locked session is in use.
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
	bit    int16 // in turns.swept
	needs  int16 // bits of the kinds that must be swept before
	quiet  bool  // not while a turn of the session runs or waits
	remove func(r *removal, ctx context.Context, w *retention.Sweep, c *chosenTurns) error
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

// endedTurn is a turn that a sweep reads.
type endedTurn struct {
	ID      string
	Session string
	At      time.Time
	Due     bool
}

// chosenTurns are the turns of one transaction, and their locked sessions.
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
		found, err := queryRows(ctx, r.tx, pgx.RowToStructByPos[endedTurn], readEnded, w.Tenant, at.At, at.ID, w.Before, sweptTurns, kind.bit,
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
			more, err := isFull(kind.remove(r, ctx, w, &c))
			out.Removed, out.Bytes = r.removed, r.bytes
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

// choose locks the sessions of turns, and returns those turns that may be swept now.
func (r *removal) choose(
	ctx context.Context, w *retention.Sweep, kind *turnKind, at *retention.Cursor, found []endedTurn,
) (next retention.Cursor, c chosenTurns, err error) {
	names := make([]string, len(found))
	for i := range found {
		names[i] = found[i].Session
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
	next = *at
	for i := range found {
		e := &found[i]
		next.At, next.ID = e.At, e.ID
		if !e.Due || !free[e.Session] {
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
	// The input is part of the transcript.
	markTranscripts = `
UPDATE turns SET swept = swept | $2, input = '[]', context = '{}', output_schema = NULL, client_tools = NULL WHERE turn_id = ANY ($1)`
)

// mark records what has been swept of the turns, and up to which turn all have been swept.
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

const (
	lockStreams = `
SELECT FROM streams WHERE stream_id = ANY ($1) ORDER BY stream_id FOR UPDATE`
	// Followers see a gap from now on.
	hideEvents = `
UPDATE streams SET first_index = last_index + 1 WHERE stream_id = ANY ($1) AND first_index <= last_index`
	markStreams = `
UPDATE streams SET swept = true WHERE stream_id = ANY ($1) AND closed_at IS NOT NULL AND NOT swept`
)

// events removes the events of the turns. The rows of their streams stay, so that followers see a gap and producers a closed stream.
func (r *removal) events(ctx context.Context, _ *retention.Sweep, c *chosenTurns) error {
	if err := r.exec(ctx, c.turns, lockStreams, hideEvents); err != nil {
		return err
	}
	if err := r.deleteFrom(ctx, []string{"events", "stream_producers"}, "stream_id = ANY ($2)", c.turns); err != nil {
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

// Sessions whose newest turn ended before that time, too. Their notes and the like are removed.
const readInactive = `
SELECT s.id FROM unnest($2::text[]) AS s (id)
WHERE (SELECT t.finished_at FROM turns t WHERE t.tenant = $1 AND t.session_id = s.id ORDER BY t.seq DESC LIMIT 1) < $3`

const removeTitles = `
UPDATE sessions SET title = '', titled_by = '' WHERE tenant = $1 AND session_id = ANY ($2) AND title <> ''`

// transcripts removes messages and steps, and of sessions without newer turns their title, notes, decisions and sources. The other messages keep their
// positions, and the session continues to count from them.
func (r *removal) transcripts(ctx context.Context, w *retention.Sweep, c *chosenTurns) error {
	if err := r.deleteFrom(ctx, []string{"messages", "turn_steps"}, "turn_id = ANY ($2)", c.turns); err != nil {
		return err
	}
	inactive, err := queryRows(ctx, r.tx, pgx.RowTo[string], readInactive, w.Tenant, c.sessions, w.Before)
	if err != nil || len(inactive) == 0 {
		return err
	}
	if _, err := r.tx.Exec(ctx, removeTitles, w.Tenant, inactive); err != nil {
		return err
	}
	return r.deleteFrom(ctx, []string{"session_notes", "remembered_decisions", "reference_names", "session_references", "reference_lists"},
		"tenant = $2 AND session_id = ANY ($3)", w.Tenant, inactive)
}

// traces removes the records of what turns did, call by call.
func (r *removal) traces(ctx context.Context, _ *retention.Sweep, c *chosenTurns) error {
	return r.deleteFrom(ctx, []string{"tool_calls", "approvals", "prepared", "turn_tools"}, "turn_id = ANY ($2)", c.turns)
}

// refs removes references to content. The collection removes content without references.
func (r *removal) refs(ctx context.Context, w *retention.Sweep, c *chosenTurns) error {
	holders := make([]string, len(c.turns))
	for i, id := range c.turns {
		holders[i] = "turn/" + id
	}
	return r.delete(ctx, deletion("blob_refs", "tenant = $2 AND holder = ANY ($3)"), w.Tenant, holders)
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

// results empties the results. The rows stay: without them the turns could run again.
func (r *removal) results(ctx context.Context, _ *retention.Sweep, c *chosenTurns) error {
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
		left, err := emptyOutput(raw, turn, session, status)
		ids, stubs = append(ids, turn), append(stubs, string(left))
		r.removed, r.bytes = r.removed+1, r.bytes+size
		return err
	})
	if err != nil || len(ids) == 0 {
		return err
	}
	_, err = r.tx.Exec(ctx, expireResults, ids, stubs)
	return err
}

// emptyOutput returns an output without content: only how the turn ended and what it used.
func emptyOutput(raw []byte, turn, session, status string) ([]byte, error) {
	var full agent.AgentStepOutput
	if err := json.Unmarshal(raw, &full); err != nil { // an older release wrote it in another form
		full = agent.AgentStepOutput{TurnID: agent.TurnID(turn), SessionID: agent.SessionID(session), Status: agent.TurnStatus(status)}
	}
	left := agent.AgentStepOutput{
		TurnID: full.TurnID, SessionID: full.SessionID, Agent: full.Agent, AgentInstanceID: full.AgentInstanceID, Status: full.Status,
		Blocks: []agent.Block{}, ResultRef: full.ResultRef, ToolCalls: []agent.ToolCallNote{}, Usage: full.Usage, StopReason: full.StopReason,
		StreamID: full.StreamID, ExecutionTimeMS: full.ExecutionTimeMS, Model: full.Model,
	}
	if full.Error != nil {
		left.Error = &agent.Failure{Type: full.Error.Type}
	}
	return encode(left)
}

// A session without turns is deleted: if it is used again, it starts from 1.
const emptySessions = `
SELECT s.id FROM unnest($2::text[]) AS s (id)
WHERE NOT EXISTS (SELECT FROM turns t WHERE t.tenant = $1 AND t.session_id = s.id)`

// turns removes turns whose data has all been swept, and sessions that have no other turns.
func (r *removal) turns(ctx context.Context, w *retention.Sweep, c *chosenTurns) error {
	for _, rows := range []string{
		"events WHERE stream_id", "stream_producers WHERE stream_id", "streams WHERE stream_id", "agent_results WHERE turn_id", "prepared WHERE turn_id",
		"approvals WHERE turn_id", "tool_calls WHERE turn_id", "turn_steps WHERE turn_id", "messages WHERE turn_id",
	} {
		if _, err := r.tx.Exec(ctx, `DELETE FROM `+rows+` = ANY ($1)`, c.turns); err != nil {
			return err
		}
	}
	tag, err := r.tx.Exec(ctx, `DELETE FROM turns WHERE turn_id = ANY ($1)`, c.turns)
	if err != nil {
		return err
	}
	r.removed += tag.RowsAffected()
	empty, err := queryRows(ctx, r.tx, pgx.RowTo[string], emptySessions, w.Tenant, c.sessions)
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
