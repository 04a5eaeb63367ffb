package postgres

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/erasure"
)

// erasureTx runs work in a transaction that locks the row of an erasure, so that two processes do not work on it at the same time. The error
// is [agent.CodeConflict] if the erasure has ended.
func (s *ErasureStore) erasureTx(ctx context.Context, op, tenant, id string, work func(tx pgx.Tx, args pgx.NamedArgs) error) error {
	err := pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, deleteTimeout); err != nil {
			return err
		}
		args, err := lockErasure(ctx, tx, tenant, id)
		if err != nil {
			return err
		}
		return work(tx, args)
	})
	if agent.CodeOf(mapError(op, err)) == agent.CodeNotFound && !isUnknownErasure(err) {
		// A foreign key: a new row refers to one that should be deleted. The next attempt deletes both.
		return &agent.Error{Code: agent.CodeUnavailable, Op: op, Err: err}
	}
	return mapError(op, err)
}

func isUnknownErasure(err error) bool {
	e, ok := errors.AsType[*agent.Error](err)
	return ok && e.Field == "erasure_id"
}

func lockErasure(ctx context.Context, tx pgx.Tx, tenant, id string) (pgx.NamedArgs, error) {
	var (
		user          *string
		salt, subject string
		round         int
	)
	err := tx.QueryRow(ctx, `SELECT user_id, salt, subject, round FROM erasures WHERE tenant = $1 AND erasure_id = $2 FOR UPDATE`,
		tenant, cleanText(id)).Scan(&user, &salt, &subject, &round)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return nil, unknownErasure(id)
	case err != nil:
		return nil, err
	case user == nil:
		return nil, agent.FieldErrorf(agent.CodeConflict, "erasure_id", "erasure %q has ended", id)
	}
	quoted, err := json.Marshal(*user)
	if err != nil {
		return nil, err
	}
	return pgx.NamedArgs{
		"tenant": tenant, "user": *user, "quoted": unescapeHTML(string(quoted[1 : len(quoted)-1])), "id": id,
		"pseudonym": erasure.Pseudonym(subject), "salt": salt, "round": round,
	}, nil
}

// unescapeHTML undoes the escaping for HTML in Go's JSON, which PostgreSQL does not do.
func unescapeHTML(s string) string {
	return strings.NewReplacer(`\u003c`, "<", `\u003e`, ">", `\u0026`, "&", `\u2028`, "\u2028", `\u2029`, "\u2029").Replace(s)
}

const beginErasure = `
UPDATE erasures SET status = 'running', started_at = coalesce(started_at, clock_timestamp())
WHERE tenant = $1 AND erasure_id = $2 AND user_id IS NOT NULL`

// BeginErasure sets an erasure's status to running, unless it has ended, and returns it.
func (s *ErasureStore) BeginErasure(ctx context.Context, tenant, id string) (erasure.Erasure, error) {
	if _, err := s.pool.Exec(ctx, beginErasure, tenant, cleanText(id)); err != nil {
		return erasure.Erasure{}, mapError("begin erasure", err)
	}
	return s.Erasure(ctx, tenant, id)
}

// markStatements returns the statements that find the user's data and mark it.
func markStatements() []string {
	mark := func(kind, query string) string {
		return `INSERT INTO erasure_marks (erasure_id, kind, name) SELECT DISTINCT @id, '` + kind + `', m.name FROM (` + query + `) AS m (name)
		ON CONFLICT (erasure_id, kind, name) DO UPDATE SET done = false`
	}
	hasOtherUsers := func(session string) string {
		return `EXISTS (SELECT FROM turns o WHERE o.tenant = @tenant AND o.session_id = ` + session + ` AND o.turn_id NOT` + inTurns + `)`
	}
	sessions := `SELECT t.session_id FROM turns t WHERE t.tenant = @tenant AND t.turn_id` + inTurns
	noteHolders := `SELECT 'note/' || n.session_id || '/' || n.name FROM session_notes n WHERE n.tenant = @tenant AND n.session_id` + inVisited
	return []string{
		mark(erasure.MarkTurn, `WITH RECURSIVE own AS (
			SELECT turn_id FROM turns WHERE tenant = @tenant AND (user_id = @user OR origin_user = @user)
			UNION SELECT c.turn_id FROM own JOIN turns c ON c.parent = own.turn_id AND c.parent <> '' WHERE c.tenant = @tenant
		) SELECT turn_id FROM own`),
		mark(erasure.MarkSession, sessions+` AND NOT `+hasOtherUsers("t.session_id")),
		mark(erasure.MarkShared, sessions+` AND `+hasOtherUsers("t.session_id")),
		// Another user may have used a session since it was marked.
		`DELETE FROM erasure_marks WHERE erasure_id = @id AND kind = 'session' AND ` + hasOtherUsers("name"),
		mark(erasure.MarkRun, `SELECT run_id FROM workflow_runs WHERE tenant = @tenant AND user_id = @user`),
		mark(erasure.MarkSchedule, `SELECT name FROM schedules WHERE `+runsAsUser),
		mark(erasure.MarkChat, `SELECT c.channel || '/' || c.chat_id FROM (
				SELECT channel, chat_id FROM chat_links WHERE tenant = @tenant AND user_id = @user
				UNION SELECT channel, chat_id FROM chat_turns WHERE tenant = @tenant AND user_id = @user
				UNION SELECT channel, used_by FROM chat_link_codes WHERE tenant = @tenant AND user_id = @user AND used_by IS NOT NULL
			) c WHERE NOT EXISTS (SELECT FROM chat_links l WHERE l.channel = c.channel AND l.chat_id = c.chat_id AND (l.tenant, l.user_id) <> (@tenant, @user))
				AND NOT EXISTS (SELECT FROM chat_turns l WHERE l.channel = c.channel AND l.chat_id = c.chat_id AND (l.tenant, l.user_id) <> (@tenant, @user))`),
		mark(erasure.MarkExecution, `SELECT workflow_id FROM turns WHERE turn_id`+inTurns+` AND workflow_id <> ''
			UNION SELECT 'conversation/' || @tenant || '/' || t.session_id FROM turns t WHERE t.tenant = @tenant AND t.turn_id`+inTurns+`
			UNION SELECT workflow_id FROM workflow_runs WHERE tenant = @tenant AND user_id = @user AND workflow_id <> ''
			UNION SELECT workflow_id FROM schedule_runs WHERE (tenant = @tenant AND schedule`+inSchedules+` OR turn_id`+inTurns+`) AND workflow_id <> ''`),
		mark(erasure.MarkContent, `SELECT 'cas://sha256:' || digest FROM blob_refs WHERE tenant = @tenant AND holder IN (
			SELECT kind || '/' || name FROM erasure_marks WHERE erasure_id = @id AND kind IN ('turn', 'run') UNION `+noteHolders+`)`),
	}
}

// MarkErasure finds and marks all data of the user, in one transaction. Each call begins a new round.
func (s *ErasureStore) MarkErasure(ctx context.Context, tenant, id string) error {
	return s.erasureTx(ctx, "mark erasure", tenant, id, func(tx pgx.Tx, args pgx.NamedArgs) error {
		if _, err := tx.Exec(ctx, `UPDATE erasures SET round = round + 1 WHERE erasure_id = @id`, args); err != nil {
			return err
		}
		return execAll(ctx, tx, markStatements(), args)
	})
}

const readLive = `
SELECT t.turn_id FROM erasures e JOIN erasure_marks m ON m.erasure_id = e.erasure_id AND m.kind = 'turn' JOIN turns t ON t.turn_id = m.name
WHERE e.tenant = $1 AND e.erasure_id = $2 AND t.state IN ('queued', 'running') ORDER BY t.turn_id LIMIT $3`

// LiveTurns lists the marked turns that run or wait. It does not see turns that were recorded after the last round.
func (s *ErasureStore) LiveTurns(ctx context.Context, tenant, id string, limit int) ([]agent.TurnID, error) {
	live, err := queryRows(ctx, s.pool, pgx.RowTo[agent.TurnID], readLive, tenant, cleanText(id), limit)
	return live, mapError("list turns to erase", err)
}

const readMarks = `
SELECT m.name FROM erasures e JOIN erasure_marks m USING (erasure_id)
WHERE e.tenant = $1 AND e.erasure_id = $2 AND m.kind = $3 AND NOT m.done ORDER BY m.name LIMIT $4`

// Marks lists the marks of a kind that are not done.
func (s *ErasureStore) Marks(ctx context.Context, tenant, id, kind string, limit int) ([]string, error) {
	names, err := queryRows(ctx, s.pool, pgx.RowTo[string], readMarks, tenant, cleanText(id), kind, limit)
	return names, mapError("list marks of erasure", err)
}

const (
	markDone = `
WITH new AS (
	UPDATE erasure_marks SET done = true WHERE erasure_id = @id AND kind = @kind AND name = ANY (@names) AND NOT done RETURNING found
) SELECT count(*), coalesce(sum(found), 0)::bigint FROM new`
	markFound = `
UPDATE erasure_marks SET found = greatest(found, @found) WHERE erasure_id = @id AND kind = @kind AND name = @name AND NOT done`
	addCount = `
INSERT INTO erasure_counts AS c (erasure_id, kind, removed, unnamed, bytes) VALUES (@id, @kind, @removed, @unnamed, @bytes)
ON CONFLICT (erasure_id, kind) DO UPDATE SET removed = c.removed + excluded.removed, unnamed = c.unnamed + excluded.unnamed,
	bytes = c.bytes + excluded.bytes`
)

// MarkDone sets marks to done, and adds to the count of what was removed, unless all of them were done before.
func (s *ErasureStore) MarkDone(ctx context.Context, tenant, id, kind string, names []string, removed, bytes int64) error {
	return s.erasureTx(ctx, "note erased", tenant, id, func(tx pgx.Tx, args pgx.NamedArgs) error {
		args["kind"], args["names"] = kind, names
		var newlyDone int
		var found int64
		if err := tx.QueryRow(ctx, markDone, args).Scan(&newlyDone, &found); err != nil || newlyDone == 0 {
			return err
		}
		return addToCount(ctx, tx, args, ":"+kind, max(removed, found), 0, bytes)
	})
}

// MarkFound stores how much data of a mark was found. [ErasureStore.MarkDone] needs it, because deleted data cannot be counted.
func (s *ErasureStore) MarkFound(ctx context.Context, tenant, id, kind, name string, found int64) error {
	return s.erasureTx(ctx, "note found", tenant, id, func(tx pgx.Tx, args pgx.NamedArgs) error {
		args["kind"], args["name"], args["found"] = kind, name, found
		_, err := tx.Exec(ctx, markFound, args)
		return err
	})
}

func addToCount(ctx context.Context, tx pgx.Tx, args pgx.NamedArgs, kind string, removed, unnamed, bytes int64) error {
	if removed == 0 && unnamed == 0 {
		return nil
	}
	_, err := tx.Exec(ctx, addCount, pgx.NamedArgs{
		"id": args["id"], "kind": kind, "removed": removed, "unnamed": unnamed, "bytes": bytes,
	})
	return err
}

// settleContent releases the marked content that may be deleted. Content that others refer to stays, and content without a row is gone. Content that
// was stored within @settled is left for later, because whoever stored it may be about to refer to it.
const settleContent = `
WITH next AS (
	SELECT m.name, b.bytes, b.put_at, EXISTS (SELECT FROM blob_refs r WHERE r.tenant = @tenant AND r.digest = substr(m.name, 14)) AS held
	FROM erasure_marks m LEFT JOIN blobs b ON b.tenant = @tenant AND b.digest = substr(m.name, 14)
	WHERE m.erasure_id = @id AND m.kind = 'content' AND NOT m.done
), settled AS (
	UPDATE erasure_marks SET done = true FROM next
	WHERE erasure_id = @id AND kind = 'content' AND erasure_marks.name = next.name AND (next.held OR next.bytes IS NULL)
	RETURNING next.held AND next.bytes IS NOT NULL AS shared
), free AS (
	SELECT name, bytes FROM next WHERE NOT held AND bytes IS NOT NULL AND put_at < clock_timestamp() - @settled::interval ORDER BY name LIMIT @limit
), aged AS (
	UPDATE blobs SET put_at = 'epoch' WHERE tenant = @tenant AND digest IN (SELECT substr(name, 14) FROM free)
		AND put_at < clock_timestamp() - @settled::interval
	RETURNING 'cas://sha256:' || digest AS ref, bytes
)
SELECT (SELECT count(*) FROM settled WHERE shared),
	(SELECT count(*) FROM next WHERE NOT held AND bytes IS NOT NULL AND put_at >= clock_timestamp() - @settled::interval),
	coalesce((SELECT json_agg(json_build_object('Ref', ref, 'Bytes', bytes)) FROM aged), '[]')`

// ReleaseContent returns the marked content that the caller may delete: nothing refers to it, and it was not stored within the duration settled,
// which replaces [Config.BlobGrace]. pending is the number of contents that were stored within that time. Content that others of the tenant
// refer to stays.
func (s *ErasureStore) ReleaseContent(
	ctx context.Context, tenant, id string, settled time.Duration, limit int,
) (free []erasure.Object, pending int64, err error) {
	err = s.erasureTx(ctx, "release content of erasure", tenant, id, func(tx pgx.Tx, args pgx.NamedArgs) error {
		args["settled"], args["limit"] = settled, limit
		var shared int64
		if err := tx.QueryRow(ctx, settleContent, args).Scan(&shared, &pending, &free); err != nil {
			return err
		}
		return addToCount(ctx, tx, args, ":shared", shared, 0, 0)
	})
	return free, pending, err
}
