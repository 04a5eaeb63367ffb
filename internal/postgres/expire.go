package postgres

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/turnstone-run/turnstone/agent"
)

// The rows are locked in one order, so that two who expire a step do not wait for each other.
const expireApprovals = `
WITH turn AS (
	SELECT turn_id FROM turns WHERE turn_id = $1 AND state IN ('queued', 'running') FOR SHARE
), due AS (
	SELECT a.turn_id, a.approval_id FROM approvals a JOIN turn ON turn.turn_id = a.turn_id
	WHERE a.step = $2 AND a.decision IS NULL AND a.expires_at <= clock_timestamp()
	ORDER BY a.approval_id FOR UPDATE OF a
)
UPDATE approvals a SET decision = CASE a.on_expiry WHEN 'approve' THEN 'approve' ELSE 'reject' END, decided_by = $3,
	message = CASE a.kind WHEN '' THEN 'nobody decided in time' ELSE 'no result was provided in time' END, decided_at = clock_timestamp()
FROM due WHERE a.turn_id = due.turn_id AND a.approval_id = due.approval_id AND a.decision IS NULL`

const readExpired = approvalColumns + ` WHERE a.turn_id = $1 AND a.step = $2 AND a.decided_by = $3 AND a.decision IS NOT NULL
ORDER BY a.created_at, a.approval_id`

// Rounded up: whoever waits for so long finds it due.
const readNextExpiry = `
SELECT CASE WHEN min(a.expires_at) IS NULL THEN 0
	ELSE greatest(ceil(extract(epoch FROM min(a.expires_at) - clock_timestamp()) * 1000), 1) END::bigint
FROM approvals a JOIN turns t ON t.turn_id = a.turn_id
WHERE a.turn_id = $1 AND a.step = $2 AND a.decision IS NULL AND t.state IN ('queued', 'running')`

// ExpireApprovals decides the undecided approvals of a step whose time is over, in one round trip: OnExpiry approve approves, reject and
// end reject; the caller reads from OnExpiry that the turn is to end. They are decided by [agent.ExpiredBy]. It returns all of the step
// that have expired, now or before, and how long it takes until the next one is due, 0 when there is none or the turn has ended. The
// clock is the database's. Of a person who decides and the time that runs out exactly one wins.
func (s *Store) ExpireApprovals(ctx context.Context, id agent.TurnID, step int) (expired []agent.Approval, next time.Duration, err error) {
	var (
		b  pgx.Batch
		ms int64
	)
	b.Queue(expireApprovals, id, step, agent.ExpiredBy)
	b.Queue(readExpired, id, step, agent.ExpiredBy).Query(func(rows pgx.Rows) (err error) {
		expired, err = pgx.CollectRows(rows, scanApproval)
		return err
	})
	b.Queue(readNextExpiry, id, step).QueryRow(func(row pgx.Row) error { return row.Scan(&ms) })
	if err := s.pool.SendBatch(ctx, &b).Close(); err != nil {
		return nil, 0, mapError("expire approvals", err)
	}
	return expired, time.Duration(ms) * time.Millisecond, nil
}
