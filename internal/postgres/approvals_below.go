package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/turnstone-run/turnstone/agent"
)

const readChildrenAtWork = `
WITH RECURSIVE below (turn_id) AS (
	SELECT turn_id FROM turns WHERE parent = $1 AND parent <> '' AND state IN ('queued', 'running')
	UNION
	SELECT c.turn_id FROM turns c JOIN below b ON c.parent = b.turn_id WHERE c.parent <> '' AND c.state IN ('queued', 'running')
)
SELECT turn_id FROM below`

// ChildrenAtWork returns the child turns of a turn that have not ended, and theirs.
func (s *Store) ChildrenAtWork(ctx context.Context, id agent.TurnID) ([]agent.TurnID, error) {
	rows, err := s.pool.Query(ctx, readChildrenAtWork, id)
	if err != nil {
		return nil, mapError("list children at work", err)
	}
	found, err := pgx.CollectRows(rows, pgx.RowTo[agent.TurnID])
	return found, mapError("list children at work", err)
}

// readPendingBelow walks down the turns that a turn waits for; plans delegate in no circle, so that the walk ends.
const readPendingBelow = `
WITH RECURSIVE below (turn_id) AS (
	SELECT $1::text COLLATE "C"
	UNION
	SELECT c.turn_id FROM turns c JOIN below b ON c.parent = b.turn_id WHERE c.parent <> '' AND c.state IN ('queued', 'running')
)` + approvalColumns + ` JOIN below b ON b.turn_id = a.turn_id
WHERE a.decision IS NULL AND (a.expires_at IS NULL OR a.expires_at > clock_timestamp())
ORDER BY a.created_at, a.step, a.approval_id`

// PendingBelow lists what nobody has decided of a turn and of the turns that it waits for, oldest first: a person who watches a turn
// decides for those that work for it.
func (s *Store) PendingBelow(ctx context.Context, id agent.TurnID) ([]agent.Approval, error) {
	rows, err := s.pool.Query(ctx, readPendingBelow, id)
	if err != nil {
		return nil, mapError("list pending approvals", err)
	}
	found, err := pgx.CollectRows(rows, scanApproval)
	return found, mapError("list pending approvals", err)
}
