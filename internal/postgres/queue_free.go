package postgres

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/turnstone-run/turnstone/agent"
)

// beginFree records a new turn and makes it the holder of its session, if nobody holds that and nobody waits in it; else it changes nothing.
//
// The session's row is locked before its holder is looked at. A turn waits in a session only behind a holder, so that whoever queued since the
// statement began is seen by the holder that there is then.
const beginFree = `
WITH session AS (
	INSERT INTO sessions AS s (tenant, session_id, holder, last_seq, last_position)
	SELECT $2, $3, $1, 1, cardinality($27::text[]) WHERE NOT EXISTS (SELECT FROM turns WHERE turn_id = $1)
	ON CONFLICT (tenant, session_id) DO UPDATE
	SET holder = excluded.holder, last_seq = s.last_seq + 1, last_position = s.last_position + excluded.last_position
	WHERE s.holder IS NULL
		AND NOT EXISTS (SELECT FROM turns q WHERE q.tenant = s.tenant AND q.session_id = s.session_id AND q.state = 'queued')
	RETURNING last_seq, last_position
), turn AS (` + insertTurn + `last_seq, 'running', last_position, $15::timestamptz FROM session
), input AS (
	INSERT INTO messages (tenant, session_id, turn_id, position, role, blocks, size)
	SELECT $2, $3, $1, s.last_position - cardinality($27::text[]) + m.n, m.role, m.blocks::json, octet_length(m.blocks)
	FROM session s, unnest($27::text[], $28::text[]) WITH ORDINALITY AS m (role, blocks, n)
), stream AS (
	INSERT INTO streams (stream_id, owner, generation, reserved) SELECT $1, $29, 1, $30::bigint FROM session WHERE $29 <> ''
	ON CONFLICT DO NOTHING RETURNING stream_id
)
SELECT last_position, EXISTS (SELECT FROM stream) FROM session`

// beginInFreeSession is [Store.Begin] in one statement, for a new turn whose session is free: done is false for any other.
func (s *Store) beginInFreeSession(ctx context.Context, t *agent.TurnRecord, input encoded) (begun agent.Begun, done bool, err error) {
	begun = agent.Begun{Answer: agent.BeginReady, Binding: t.Binding, StartedAt: time.Now().UTC().Truncate(time.Microsecond), New: true}
	values, err := turnValues(t, t.Fallback, begun.StartedAt)
	if err != nil {
		return agent.Begun{}, false, err
	}
	conn, err := s.pool.Acquire(ctx)
	if err != nil { // nothing was sent: the outcome is known
		return agent.Begun{}, false, err
	}
	defer conn.Release()
	values = append(values, input.roles, input.blocks, t.Stream.Owner, t.Stream.Reserve)
	err = conn.QueryRow(ctx, beginFree, values...).Scan(&begun.Cursor, &begun.Claimed)
	switch {
	case err == nil:
		return begun, true, nil
	case errors.Is(err, pgx.ErrNoRows), violates(err, "turns_pkey"): // the same turn is recorded at the same time
		return agent.Begun{}, false, nil
	default:
		return agent.Begun{}, false, uncertain(err)
	}
}
