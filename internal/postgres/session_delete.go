package postgres

import (
	"cmp"
	"context"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/turnstone-run/turnstone/agent"
)

const (
	// maxDeletedSessions bounds the sessions that one transaction deletes, including those of child turns.
	maxDeletedSessions = 10_000
	// deleteTimeout is long because a session may have been used for years.
	deleteTimeout = `SET LOCAL statement_timeout = '5min'`
)

const lockSessions = `
SELECT FROM sessions WHERE tenant = $1 AND session_id = ANY ($2) ORDER BY session_id FOR UPDATE`

const sessionsAreLive = `
SELECT EXISTS (SELECT FROM turns WHERE tenant = $1 AND session_id = ANY ($2) AND state IN ('queued', 'running'))`

// readChildSessions returns the other sessions that have child turns of the sessions $2.
const readChildSessions = `
SELECT DISTINCT c.session_id
FROM turns p JOIN turns c ON c.parent = p.turn_id AND c.parent <> ''
WHERE p.tenant = $1 AND p.session_id = ANY ($2) AND c.tenant = $1 AND c.session_id <> ALL ($2)
ORDER BY c.session_id LIMIT $3`

// readOwnSessions returns those of the sessions $3 that only have child turns of the sessions $2.
const readOwnSessions = `
SELECT s.session_id FROM sessions s
WHERE s.tenant = $1 AND s.session_id = ANY ($3) AND NOT EXISTS (
	SELECT FROM turns o
	WHERE o.tenant = s.tenant AND o.session_id = s.session_id AND NOT EXISTS (
		SELECT FROM turns p WHERE p.turn_id = o.parent AND p.tenant = $1 AND p.session_id = ANY ($2)))
ORDER BY s.session_id`

// readOwnRefs returns the references to the content that the turns and tools of these sessions have stored. All turns have ended, so all calls are in
// tool_calls.
const readOwnRefs = `
SELECT c.ref FROM turns t JOIN tool_calls c ON c.turn_id = t.turn_id
WHERE t.tenant = $1 AND t.session_id = ANY ($2) AND c.ref LIKE 'cas://sha256:%'
UNION
SELECT 'cas://sha256:' || d FROM turns t JOIN tool_calls c ON c.turn_id = t.turn_id, turnstone_digests(c.dataset::text) AS d
WHERE t.tenant = $1 AND t.session_id = ANY ($2)
UNION
SELECT 'cas://' || r.cas_id FROM turns t JOIN agent_results r ON r.turn_id = t.turn_id
WHERE t.tenant = $1 AND t.session_id = ANY ($2) AND r.cas_id IS NOT NULL`

// readOrphans returns those of the references $2 that nothing of the tenant holds any more. It leaves out content that was stored recently, because the
// tool that has stored it may be about to refer to it.
const readOrphans = `
SELECT d.ref FROM unnest($2::text[]) AS d (ref)
WHERE NOT EXISTS (SELECT FROM blob_refs r WHERE r.tenant = $1 AND r.digest = substr(d.ref, 14))
	AND NOT EXISTS (
		SELECT FROM blobs b WHERE b.tenant = $1 AND b.digest = substr(d.ref, 14) AND b.put_at >= clock_timestamp() - $3::interval)
ORDER BY d.ref`

const turnsOf = ` IN (SELECT turn_id FROM turns WHERE tenant = $1 AND session_id = ANY ($2))`

// deletesOfTurns returns the statements that delete the rows that refer to messages, turns and sessions, except those of the ledger.
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

// DeleteSession deletes a session in one transaction: its turns with all their data and events, and the sessions in which only their child turns ran. It
// does not delete rows of the ledger. Refs in the result are the references to content that the session has stored and nothing else of the tenant holds;
// the caller then has to delete that content. Content that was stored within [Config.BlobGrace] is left to the collection.
//
// The error is [agent.CodeNotFound] if the tenant does not have the session, [agent.CodeConflict] if a turn runs or waits in one of the sessions, and
// [agent.CodeOverflow] for more than 10,000 sessions of child turns.
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
		refs, err := d.queryStrings(ctx, readOwnRefs, d.sessions)
		if err != nil {
			return err
		}
		if deleted.Turns, deleted.Messages, err = d.delete(ctx); err != nil || len(refs) == 0 {
			return err
		}
		if _, err := tx.Exec(ctx, deleteCached, tenant, refs); err != nil {
			return err
		}
		deleted.Refs, err = d.queryStrings(ctx, readOrphans, refs, s.cfg.BlobGrace)
		deleted.Blobs = len(deleted.Refs)
		return err
	})
	if err != nil {
		return agent.SessionDeleted{}, mapError("delete session", err)
	}
	return deleted, nil
}

// HasStream reports whether the database has the stream of a turn, even if its events have been removed. It does not have that of a deleted turn, whose
// events the process that wrote them may still show for a moment.
func (s *SessionStore) HasStream(ctx context.Context, id agent.TurnID) (exists bool, err error) {
	err = s.pool.QueryRow(ctx, `SELECT EXISTS (SELECT FROM streams WHERE stream_id = $1)`, id).Scan(&exists)
	return exists, mapError("read stream", err)
}

// sessionDeletion is the transaction that deletes a session.
type sessionDeletion struct {
	tx       pgx.Tx
	tenant   string
	sessions []string // locked
}

// choose locks a session and, generation by generation, the sessions that only its child turns have used. It returns an error if the session must not be
// deleted.
func (d *sessionDeletion) choose(ctx context.Context, id agent.SessionID) error {
	if n, err := d.lock(ctx, []string{string(id)}); err != nil || n == 0 {
		return cmp.Or(err, unknownSession(id))
	}
	d.sessions = []string{string(id)}
	for {
		children, err := d.queryStrings(ctx, readChildSessions, d.sessions, maxDeletedSessions+1)
		if err != nil {
			return err
		}
		if _, err := d.lock(ctx, children); err != nil {
			return err
		}
		ownSessions, err := d.queryStrings(ctx, readOwnSessions, d.sessions, children)
		if err != nil {
			return err
		}
		if len(ownSessions) == 0 {
			break
		}
		if d.sessions = append(d.sessions, ownSessions...); len(d.sessions) > maxDeletedSessions {
			return agent.Errorf(agent.CodeOverflow, "", "session %q has child turns in more than %d sessions", id, maxDeletedSessions)
		}
	}
	var areLive bool
	if err := d.tx.QueryRow(ctx, sessionsAreLive, d.tenant, d.sessions).Scan(&areLive); err != nil {
		return err
	}
	if areLive {
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
	countInto := func(n *int) func(pgconn.CommandTag) error {
		return func(tag pgconn.CommandTag) error {
			*n = int(tag.RowsAffected())
			return nil
		}
	}
	for _, sql := range deletesOfTurns() {
		b.Queue(sql, d.tenant, d.sessions)
	}
	b.Queue(deleteMessages, d.tenant, d.sessions).Exec(countInto(&messages))
	b.Queue(deleteTurns, d.tenant, d.sessions).Exec(countInto(&turns))
	b.Queue(deleteSessions, d.tenant, d.sessions)
	return turns, messages, d.tx.SendBatch(ctx, &b).Close()
}

// queryStrings returns the only column of a query whose first argument is the tenant.
func (d *sessionDeletion) queryStrings(ctx context.Context, sql string, args ...any) ([]string, error) {
	return queryRows(ctx, d.tx, pgx.RowTo[string], sql, append([]any{d.tenant}, args...)...)
}
