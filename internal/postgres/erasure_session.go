package postgres

import (
	"cmp"
	"context"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/turnstone-run/turnstone/agent"
)

const (
	// maxForgotten bounds the sessions that go in one transaction: the one that is named and those of child turns.
	maxForgotten = 10_000
	// forgetTimeout is what a statement may take here: a session may have been in use for years.
	forgetTimeout = `SET LOCAL statement_timeout = '5min'`
)

const lockSessions = `
SELECT FROM sessions WHERE tenant = $1 AND session_id = ANY ($2) ORDER BY session_id FOR UPDATE`

const sessionsAreLive = `
SELECT EXISTS (SELECT FROM turns WHERE tenant = $1 AND session_id = ANY ($2) AND state IN ('queued', 'running'))`

// The sessions in which child turns of the sessions $2 ran.
const readChildSessions = `
SELECT DISTINCT c.session_id
FROM turns p JOIN turns c ON c.parent = p.turn_id AND c.parent <> ''
WHERE p.tenant = $1 AND p.session_id = ANY ($2) AND c.tenant = $1 AND c.session_id <> ALL ($2)
ORDER BY c.session_id LIMIT $3`

// Of the sessions $3 those that have child turns of the sessions $2 alone.
const readOwnSessions = `
SELECT s.session_id FROM sessions s
WHERE s.tenant = $1 AND s.session_id = ANY ($3) AND NOT EXISTS (
	SELECT FROM turns o
	WHERE o.tenant = s.tenant AND o.session_id = s.session_id AND NOT EXISTS (
		SELECT FROM turns p WHERE p.turn_id = o.parent AND p.tenant = $1 AND p.session_id = ANY ($2)))
ORDER BY s.session_id`

// What tools and turns of these sessions have stored. All turns have ended, so that every call is in tool_calls.
const readOwnRefs = `
SELECT c.ref FROM turns t JOIN tool_calls c ON c.turn_id = t.turn_id
WHERE t.tenant = $1 AND t.session_id = ANY ($2) AND c.ref LIKE 'cas://sha256:%'
UNION
SELECT 'cas://sha256:' || d FROM turns t JOIN tool_calls c ON c.turn_id = t.turn_id, turnstone_digests(c.dataset::text) AS d
WHERE t.tenant = $1 AND t.session_id = ANY ($2)
UNION
SELECT 'cas://' || r.cas_id FROM turns t JOIN agent_results r ON r.turn_id = t.turn_id
WHERE t.tenant = $1 AND t.session_id = ANY ($2) AND r.cas_id IS NOT NULL`

// Of the references $2 those that nobody of the tenant holds, once the sessions are gone, and that nobody has put of late: whoever has just
// put content has yet to refer to it.
const readOrphans = `
SELECT d.ref FROM unnest($2::text[]) AS d (ref)
WHERE NOT EXISTS (SELECT FROM blob_refs r WHERE r.tenant = $1 AND r.digest = substr(d.ref, 14))
	AND NOT EXISTS (
		SELECT FROM blobs b WHERE b.tenant = $1 AND b.digest = substr(d.ref, 14) AND b.put_at >= clock_timestamp() - $3::interval)
ORDER BY d.ref`

const turnsOf = ` IN (SELECT turn_id FROM turns WHERE tenant = $1 AND session_id = ANY ($2))`

// forget lists the statements that take away what refers to messages, turns and sessions. The ledger is not among them: a bill outlives
// what it paid for.
func forget() []string {
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
	forgetMessages = `DELETE FROM messages WHERE tenant = $1 AND session_id = ANY ($2)`
	forgetCached   = `DELETE FROM result_cache WHERE tenant = $1 AND 'cas://sha256:' || digest = ANY ($2)`
	forgetTurns    = `DELETE FROM turns WHERE tenant = $1 AND session_id = ANY ($2)`
	forgetSessions = `DELETE FROM sessions WHERE tenant = $1 AND session_id = ANY ($2)`
)

// DeleteSession takes a session away, in one transaction: its turns with everything that they said, did and were asked, the log of
// their events, and the sessions in which nothing but their child turns ran. What was paid stays in the ledger. Refs are the references
// to stored content that the session left and nobody else of the tenant holds; removing the content is the caller's, once this has returned.
// Content that was put within [Config.BlobGrace], perhaps by somebody who is about to refer to it, is left to the collection.
//
// A session that the tenant does not have is [agent.CodeNotFound]; one in which a turn runs or waits, or a child turn does, is
// [agent.CodeConflict]; more than 10,000 sessions of child turns are [agent.CodeOverflow].
func (s *Store) DeleteSession(ctx context.Context, tenant string, id agent.SessionID) (agent.SessionDeleted, error) {
	gone := agent.SessionDeleted{SessionID: id}
	err := pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, forgetTimeout); err != nil {
			return err
		}
		f := forgetting{tx: tx, tenant: tenant}
		if err := f.choose(ctx, id); err != nil {
			return err
		}
		own, err := f.strings(ctx, readOwnRefs, f.sessions)
		if err != nil {
			return err
		}
		if gone.Turns, gone.Messages, err = f.delete(ctx); err != nil || len(own) == 0 {
			return err
		}
		if _, err := tx.Exec(ctx, forgetCached, tenant, own); err != nil {
			return err
		}
		gone.Refs, err = f.strings(ctx, readOrphans, own, s.cfg.BlobGrace)
		gone.Blobs = len(gone.Refs)
		return err
	})
	if err != nil {
		return agent.SessionDeleted{}, mapError("delete session", err)
	}
	return gone, nil
}

// forgetting is one deletion under way.
type forgetting struct {
	tx       pgx.Tx
	tenant   string
	sessions []string // locked, and to go
}

// choose locks the session that is named, and then, generation by generation, those that its turns had for themselves.
func (f *forgetting) choose(ctx context.Context, id agent.SessionID) error {
	if n, err := f.lock(ctx, []string{string(id)}); err != nil || n == 0 {
		return cmp.Or(err, unknownSession(id))
	}
	f.sessions = []string{string(id)}
	for {
		children, err := f.strings(ctx, readChildSessions, f.sessions, maxForgotten+1)
		if err != nil {
			return err
		}
		if _, err := f.lock(ctx, children); err != nil {
			return err
		}
		own, err := f.strings(ctx, readOwnSessions, f.sessions, children)
		if err != nil {
			return err
		}
		if len(own) == 0 {
			break
		}
		if f.sessions = append(f.sessions, own...); len(f.sessions) > maxForgotten {
			return agent.Errorf(agent.CodeOverflow, "", "session %q has child turns in more than %d sessions", id, maxForgotten)
		}
	}
	var live bool
	if err := f.tx.QueryRow(ctx, sessionsAreLive, f.tenant, f.sessions).Scan(&live); err != nil {
		return err
	}
	if live {
		return agent.Errorf(agent.CodeConflict, "", "a turn runs or waits in session %q", id)
	}
	return nil
}

func (f *forgetting) lock(ctx context.Context, sessions []string) (int64, error) {
	tag, err := f.tx.Exec(ctx, lockSessions, f.tenant, sessions)
	return tag.RowsAffected(), err
}

func (f *forgetting) delete(ctx context.Context) (turns, messages int, err error) {
	var b pgx.Batch
	counted := func(to *int) func(pgconn.CommandTag) error {
		return func(tag pgconn.CommandTag) error {
			*to = int(tag.RowsAffected())
			return nil
		}
	}
	for _, sql := range forget() {
		b.Queue(sql, f.tenant, f.sessions)
	}
	b.Queue(forgetMessages, f.tenant, f.sessions).Exec(counted(&messages))
	b.Queue(forgetTurns, f.tenant, f.sessions).Exec(counted(&turns))
	b.Queue(forgetSessions, f.tenant, f.sessions)
	return turns, messages, f.tx.SendBatch(ctx, &b).Close()
}

// strings returns the one column of a query about the tenant.
func (f *forgetting) strings(ctx context.Context, sql string, args ...any) ([]string, error) {
	rows, err := f.tx.Query(ctx, sql, append([]any{f.tenant}, args...)...)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowTo[string])
}
