package postgres

import (
	"cmp"
	"context"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/turnstone-run/turnstone/agent"
)

const (
	// maxDeletedSessions bounds the sessions that one transaction deletes: the named one and those of child turns.
	maxDeletedSessions = 10_000
	// deleteTimeout bounds a statement: a session may have been in use for years.
	deleteTimeout = `SET LOCAL statement_timeout = '5min'`
)

const lockSessions = `
SELECT FROM sessions WHERE tenant = $1 AND session_id = ANY ($2) ORDER BY session_id FOR UPDATE`

const sessionsAreLive = `
SELECT EXISTS (SELECT FROM turns WHERE tenant = $1 AND session_id = ANY ($2) AND state IN ('queued', 'running'))`

// The other sessions with child turns of the sessions $2.
const readChildSessions = `
SELECT DISTINCT c.session_id
FROM turns p JOIN turns c ON c.parent = p.turn_id AND c.parent <> ''
WHERE p.tenant = $1 AND p.session_id = ANY ($2) AND c.tenant = $1 AND c.session_id <> ALL ($2)
ORDER BY c.session_id LIMIT $3`

// Those of the sessions $3 that have only child turns of the sessions $2.
const readOwnSessions = `
SELECT s.session_id FROM sessions s
WHERE s.tenant = $1 AND s.session_id = ANY ($3) AND NOT EXISTS (
	SELECT FROM turns o
	WHERE o.tenant = s.tenant AND o.session_id = s.session_id AND NOT EXISTS (
		SELECT FROM turns p WHERE p.turn_id = o.parent AND p.tenant = $1 AND p.session_id = ANY ($2)))
ORDER BY s.session_id`

// The content that tools and turns of these sessions stored. All turns have ended, so every call is in tool_calls.
const readOwnRefs = `
SELECT c.ref FROM turns t JOIN tool_calls c ON c.turn_id = t.turn_id
WHERE t.tenant = $1 AND t.session_id = ANY ($2) AND c.ref LIKE 'cas://sha256:%'
UNION
SELECT 'cas://sha256:' || d FROM turns t JOIN tool_calls c ON c.turn_id = t.turn_id, turnstone_digests(c.dataset::text) AS d
WHERE t.tenant = $1 AND t.session_id = ANY ($2)
UNION
SELECT 'cas://' || r.cas_id FROM turns t JOIN agent_results r ON r.turn_id = t.turn_id
WHERE t.tenant = $1 AND t.session_id = ANY ($2) AND r.cas_id IS NOT NULL`

// Those of the references $2 that nobody of the tenant holds once the sessions are deleted, and whose content nobody has stored recently: a
// tool that has just stored content may be about to refer to it.
const readOrphans = `
SELECT d.ref FROM unnest($2::text[]) AS d (ref)
WHERE NOT EXISTS (SELECT FROM blob_refs r WHERE r.tenant = $1 AND r.digest = substr(d.ref, 14))
	AND NOT EXISTS (
		SELECT FROM blobs b WHERE b.tenant = $1 AND b.digest = substr(d.ref, 14) AND b.put_at >= clock_timestamp() - $3::interval)
ORDER BY d.ref`

const turnsOf = ` IN (SELECT turn_id FROM turns WHERE tenant = $1 AND session_id = ANY ($2))`

// deletesOfTurns returns the statements that delete what refers to messages, turns and sessions. The ledger stays: costs outlive their
// turns.
func deletesOfTurns() []string {
	return []string{
		`DELETE FROM events WHERE stream_id` + turnsOf,
		`DELETE FROM stream_producers WHERE stream_id` + turnsOf,
		`DELETE FROM streams WHERE stream_id` + turnsOf,
		`DELETE FROM agent_results WHERE turn_id` + turnsOf,
		`DELETE FROM prepared WHERE turn_id` + turnsOf,
		`DELETE FROM approvals WHERE turn_id` + turnsOf,
		`DELETE FROM tool_calls WHERE turn_id` + turnsOf,
		`DELETE FROM turn_steps WHERE turn_id` + turnsOf,
		`DELETE FROM remembered_decisions WHERE tenant = $1 AND session_id = ANY ($2)`,
		`DELETE FROM session_notes WHERE tenant = $1 AND session_id = ANY ($2)`,
		`DELETE FROM reference_lists WHERE tenant = $1 AND session_id = ANY ($2)`,
		`DELETE FROM turn_tools WHERE turn_id` + turnsOf,
	}
}

const (
	deleteMessages = `DELETE FROM messages WHERE tenant = $1 AND session_id = ANY ($2)`
	deleteCached   = `DELETE FROM result_cache WHERE tenant = $1 AND 'cas://sha256:' || digest = ANY ($2)`
	deleteTurns    = `DELETE FROM turns WHERE tenant = $1 AND session_id = ANY ($2)`
	deleteSessions = `DELETE FROM sessions WHERE tenant = $1 AND session_id = ANY ($2)`
)

// DeleteSession deletes a session in one transaction: its turns with all their data, the log of their events, and the sessions in which
// only their child turns ran. The ledger stays. Refs are the references to content that the session stored and nobody else of the tenant
// holds; the caller removes that content after this has returned. The collection removes content that was stored within [Config.BlobGrace],
// since somebody may be about to refer to it.
//
// The error is [agent.CodeNotFound] if the tenant does not have the session, [agent.CodeConflict] if a turn or a child turn runs or waits
// in it, and [agent.CodeOverflow] for more than 10,000 sessions of child turns.
func (s *SessionStore) DeleteSession(ctx context.Context, tenant string, id agent.SessionID) (agent.SessionDeleted, error) {
	deleted := agent.SessionDeleted{SessionID: id}
	err := pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, deleteTimeout); err != nil {
			return err
		}
		d := sessionDeletion{tx: tx, tenant: tenant}
		if err := d.choose(ctx, id); err != nil {
			return err
		}
		refs, err := d.strings(ctx, readOwnRefs, d.sessions)
		if err != nil {
			return err
		}
		if deleted.Turns, deleted.Messages, err = d.delete(ctx); err != nil || len(refs) == 0 {
			return err
		}
		if _, err := tx.Exec(ctx, deleteCached, tenant, refs); err != nil {
			return err
		}
		deleted.Refs, err = d.strings(ctx, readOrphans, refs, s.cfg.BlobGrace)
		deleted.Blobs = len(deleted.Refs)
		return err
	})
	if err != nil {
		return agent.SessionDeleted{}, mapError("delete session", err)
	}
	return deleted, nil
}

const readStreamKept = `SELECT EXISTS (SELECT FROM streams WHERE stream_id = $1)`

// HasStream reports whether a turn's events, or that it had some, are on record. Those of a deleted turn are not, though the process that
// wrote them may remember them for a moment.
func (s *SessionStore) HasStream(ctx context.Context, id agent.TurnID) (kept bool, err error) {
	err = s.pool.QueryRow(ctx, readStreamKept, id).Scan(&kept)
	return kept, mapError("read stream", err)
}

// sessionDeletion is the transaction of a deletion.
type sessionDeletion struct {
	tx       pgx.Tx
	tenant   string
	sessions []string // locked
}

// choose locks the named session, and then, generation by generation, the sessions that only its turns used.
func (d *sessionDeletion) choose(ctx context.Context, id agent.SessionID) error {
	if n, err := d.lock(ctx, []string{string(id)}); err != nil || n == 0 {
		return cmp.Or(err, unknownSession(id))
	}
	d.sessions = []string{string(id)}
	for {
		children, err := d.strings(ctx, readChildSessions, d.sessions, maxDeletedSessions+1)
		if err != nil {
			return err
		}
		if _, err := d.lock(ctx, children); err != nil {
			return err
		}
		own, err := d.strings(ctx, readOwnSessions, d.sessions, children)
		if err != nil {
			return err
		}
		if len(own) == 0 {
			break
		}
		if d.sessions = append(d.sessions, own...); len(d.sessions) > maxDeletedSessions {
			return agent.Errorf(agent.CodeOverflow, "", "session %q has child turns in more than %d sessions", id, maxDeletedSessions)
		}
	}
	var live bool
	if err := d.tx.QueryRow(ctx, sessionsAreLive, d.tenant, d.sessions).Scan(&live); err != nil {
		return err
	}
	if live {
		return agent.Errorf(agent.CodeConflict, "", "a turn runs or waits in session %q", id)
	}
	return nil
}

func (d *sessionDeletion) lock(ctx context.Context, sessions []string) (int64, error) {
	tag, err := d.tx.Exec(ctx, lockSessions, d.tenant, sessions)
	return tag.RowsAffected(), err
}

func (d *sessionDeletion) delete(ctx context.Context) (turns, messages int, err error) {
	var b pgx.Batch
	counted := func(to *int) func(pgconn.CommandTag) error {
		return func(tag pgconn.CommandTag) error {
			*to = int(tag.RowsAffected())
			return nil
		}
	}
	for _, sql := range deletesOfTurns() {
		b.Queue(sql, d.tenant, d.sessions)
	}
	b.Queue(deleteMessages, d.tenant, d.sessions).Exec(counted(&messages))
	b.Queue(deleteTurns, d.tenant, d.sessions).Exec(counted(&turns))
	b.Queue(deleteSessions, d.tenant, d.sessions)
	return turns, messages, d.tx.SendBatch(ctx, &b).Close()
}

// strings returns the only column of a query about the tenant.
func (d *sessionDeletion) strings(ctx context.Context, sql string, args ...any) ([]string, error) {
	return queryRows(ctx, d.tx, pgx.RowTo[string], sql, append([]any{d.tenant}, args...)...)
}
