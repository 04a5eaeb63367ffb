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

// erasureTx runs work in a transaction that has an erasure's row, which makes two who work on one take turns. [agent.CodeConflict] when the
// erasure has ended.
func (s *Store) erasureTx(ctx context.Context, op, tenant, id string, work func(tx pgx.Tx, args pgx.NamedArgs) error) error {
	err := pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, forgetTimeout); err != nil {
			return err
		}
		args, err := lockErasure(ctx, tx, tenant, id)
		if err != nil {
			return err
		}
		return work(tx, args)
	})
	if agent.CodeOf(mapError(op, err)) == agent.CodeNotFound && !isUnknownErasure(err) {
		// A row came that refers to one which was to go: the next attempt sees both.
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
		tenant, plain(id)).Scan(&user, &salt, &subject, &round)
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
		"tenant": tenant, "user": *user, "quoted": unescaped(string(quoted[1 : len(quoted)-1])), "id": id,
		"pseudonym": erasure.Pseudonym(subject), "salt": salt, "round": round,
	}, nil
}

// unescaped undoes what Go escapes in JSON for HTML's sake and PostgreSQL does not.
func unescaped(s string) string {
	return strings.NewReplacer(`\u003c`, "<", `\u003e`, ">", `\u0026`, "&", `\u2028`, "\u2028", `\u2029`, "\u2029").Replace(s)
}

const beginErasure = `
UPDATE erasures SET status = 'running', started_at = coalesce(started_at, clock_timestamp())
WHERE tenant = $1 AND erasure_id = $2 AND user_id IS NOT NULL`

// BeginErasure says that an erasure is under way and returns it; one that has ended stays so.
func (s *Store) BeginErasure(ctx context.Context, tenant, id string) (erasure.Erasure, error) {
	if _, err := s.pool.Exec(ctx, beginErasure, tenant, plain(id)); err != nil {
		return erasure.Erasure{}, mapError("begin erasure", err)
	}
	return s.Erasure(ctx, tenant, id)
}

// marking finds what is the user's. What was found before is found again only while it is there.
func marking() []string {
	mark := func(kind, from string) string {
		return `INSERT INTO erasure_marks (erasure_id, kind, name) SELECT DISTINCT @id, '` + kind + `', m.name FROM (` + from + `) AS m (name)
		ON CONFLICT (erasure_id, kind, name) DO UPDATE SET done = false`
	}
	strangers := func(in string) string {
		return `EXISTS (SELECT FROM turns o WHERE o.tenant = @tenant AND o.session_id = ` + in + ` AND o.turn_id NOT` + ofTurns + `)`
	}
	visited := `SELECT t.session_id FROM turns t WHERE t.tenant = @tenant AND t.turn_id` + ofTurns
	ofNotes := `SELECT 'note/' || n.session_id || '/' || n.name FROM session_notes n WHERE n.tenant = @tenant AND n.session_id` + ofVisited
	return []string{
		mark(erasure.MarkTurn, `WITH RECURSIVE own AS (
			SELECT turn_id FROM turns WHERE tenant = @tenant AND user_id = @user
			UNION SELECT c.turn_id FROM own JOIN turns c ON c.parent = own.turn_id AND c.parent <> '' WHERE c.tenant = @tenant
		) SELECT turn_id FROM own`),
		mark(erasure.MarkSession, visited+` AND NOT `+strangers("t.session_id")),
		mark(erasure.MarkShared, visited+` AND `+strangers("t.session_id")),
		// Somebody else may have come into a session since.
		`DELETE FROM erasure_marks WHERE erasure_id = @id AND kind = 'session' AND ` + strangers("name"),
		mark(erasure.MarkRun, `SELECT run_id FROM workflow_runs WHERE tenant = @tenant AND user_id = @user`),
		mark(erasure.MarkSchedule, `SELECT name FROM schedules WHERE `+runsAsUser),
		mark(erasure.MarkChat, `SELECT c.channel || '/' || c.chat_id FROM (
				SELECT channel, chat_id FROM chat_links WHERE tenant = @tenant AND user_id = @user
				UNION SELECT channel, chat_id FROM chat_turns WHERE tenant = @tenant AND user_id = @user
				UNION SELECT channel, used_by FROM chat_link_codes WHERE tenant = @tenant AND user_id = @user AND used_by IS NOT NULL
			) c WHERE NOT EXISTS (SELECT FROM chat_links l WHERE l.channel = c.channel AND l.chat_id = c.chat_id AND (l.tenant, l.user_id) <> (@tenant, @user))
				AND NOT EXISTS (SELECT FROM chat_turns l WHERE l.channel = c.channel AND l.chat_id = c.chat_id AND (l.tenant, l.user_id) <> (@tenant, @user))`),
		mark(erasure.MarkExecution, `SELECT workflow_id FROM turns WHERE turn_id`+ofTurns+` AND workflow_id <> ''
			UNION SELECT 'conversation/' || @tenant || '/' || t.session_id FROM turns t WHERE t.tenant = @tenant AND t.turn_id`+ofTurns+`
			UNION SELECT workflow_id FROM workflow_runs WHERE tenant = @tenant AND user_id = @user AND workflow_id <> ''
			UNION SELECT workflow_id FROM schedule_runs WHERE (tenant = @tenant AND schedule`+ofClock+` OR turn_id`+ofTurns+`) AND workflow_id <> ''`),
		mark(erasure.MarkContent, `SELECT 'cas://sha256:' || digest FROM blob_refs WHERE tenant = @tenant AND holder IN (
			SELECT kind || '/' || name FROM erasure_marks WHERE erasure_id = @id AND kind IN ('turn', 'run') UNION `+ofNotes+`)`),
	}
}

// MarkErasure looks for everything of the user and remembers what it is, in one transaction; each call is a round.
func (s *Store) MarkErasure(ctx context.Context, tenant, id string) error {
	return s.erasureTx(ctx, "mark erasure", tenant, id, func(tx pgx.Tx, args pgx.NamedArgs) error {
		if _, err := tx.Exec(ctx, `UPDATE erasures SET round = round + 1 WHERE erasure_id = @id`, args); err != nil {
			return err
		}
		for _, sql := range marking() {
			if _, err := tx.Exec(ctx, sql, args); err != nil {
				return err
			}
		}
		return nil
	})
}

const readLive = `
SELECT t.turn_id FROM erasures e JOIN erasure_marks m ON m.erasure_id = e.erasure_id AND m.kind = 'turn' JOIN turns t ON t.turn_id = m.name
WHERE e.tenant = $1 AND e.erasure_id = $2 AND t.state IN ('queued', 'running') ORDER BY t.turn_id LIMIT $3`

// LiveTurns lists marked turns that run or wait, and what has begun since they were marked is marked by the next round.
func (s *Store) LiveTurns(ctx context.Context, tenant, id string, limit int) ([]agent.TurnID, error) {
	rows, err := s.pool.Query(ctx, readLive, tenant, plain(id), limit)
	if err != nil {
		return nil, mapError("list turns to erase", err)
	}
	live, err := pgx.CollectRows(rows, pgx.RowTo[agent.TurnID])
	return live, mapError("list turns to erase", err)
}

const readMarks = `
SELECT m.name FROM erasures e JOIN erasure_marks m USING (erasure_id)
WHERE e.tenant = $1 AND e.erasure_id = $2 AND m.kind = $3 AND NOT m.done ORDER BY m.name LIMIT $4`

// Marks lists marked things of a kind that are not done.
func (s *Store) Marks(ctx context.Context, tenant, id, kind string, limit int) ([]string, error) {
	rows, err := s.pool.Query(ctx, readMarks, tenant, plain(id), kind, limit)
	if err != nil {
		return nil, mapError("list marks of erasure", err)
	}
	names, err := pgx.CollectRows(rows, pgx.RowTo[string])
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

// MarkDone says that marked things are done, and counts how much of them was removed; of those that were done already nothing is counted.
func (s *Store) MarkDone(ctx context.Context, tenant, id, kind string, names []string, removed, bytes int64) error {
	return s.erasureTx(ctx, "note erased", tenant, id, func(tx pgx.Tx, args pgx.NamedArgs) error {
		args["kind"], args["names"] = kind, names
		var fresh int
		var found int64
		if err := tx.QueryRow(ctx, markDone, args).Scan(&fresh, &found); err != nil || fresh == 0 {
			return err
		}
		return count(ctx, tx, args, ":"+kind, max(removed, found), 0, bytes)
	})
}

// MarkFound remembers how much of a marked thing there was, for [Store.MarkDone] when it is gone: by then nobody can count it.
func (s *Store) MarkFound(ctx context.Context, tenant, id, kind, name string, found int64) error {
	return s.erasureTx(ctx, "note found", tenant, id, func(tx pgx.Tx, args pgx.NamedArgs) error {
		args["kind"], args["name"], args["found"] = kind, name, found
		_, err := tx.Exec(ctx, markFound, args)
		return err
	})
}

func count(ctx context.Context, tx pgx.Tx, args pgx.NamedArgs, kind string, removed, unnamed, bytes int64) error {
	if removed == 0 && unnamed == 0 {
		return nil
	}
	_, err := tx.Exec(ctx, addCount, pgx.NamedArgs{
		"id": args["id"], "kind": kind, "removed": removed, "unnamed": unnamed, "bytes": bytes,
	})
	return err
}

// Content that somebody holds stays, and so does what was never put. Of the rest that which was put since @settled ago waits; its row may be
// young because somebody has put the same content and is about to refer to it.
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

// ReleaseContent makes marked content that nobody refers to free at once, without [Config.BlobGrace], unless somebody has put it since settled
// ago: what is returned may be removed. pending is what may not yet. What others of the tenant refer to stays.
func (s *Store) ReleaseContent(ctx context.Context, tenant, id string, settled time.Duration, limit int) (free []erasure.Object, pending int64, err error) {
	err = s.erasureTx(ctx, "release content of erasure", tenant, id, func(tx pgx.Tx, args pgx.NamedArgs) error {
		args["settled"], args["limit"] = settled, limit
		var shared int64
		if err := tx.QueryRow(ctx, settleContent, args).Scan(&shared, &pending, &free); err != nil {
			return err
		}
		return count(ctx, tx, args, ":shared", shared, 0, 0)
	})
	return free, pending, err
}
