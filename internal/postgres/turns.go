package postgres

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/turnstone-run/turnstone/agent"
)

// TurnStore stores turns in the queues of their sessions. Whether something still runs a turn is known as follows:
//
//   - A workflow runs a durable turn. Temporal knows whether the workflow is closed, and the turn has no lease.
//   - A process runs a direct turn and keeps its lease (lease_until) from expiring: by calling Begin again while the turn waits in the queue, and
//     Renew once it holds the session. A turn whose lease has expired is passed over. A lease never gets shorter.
//   - A direct turn becomes durable by HandOver, or when a workflow begins it. The process finds out because its next Renew or Begin fails.
type TurnStore struct {
	*database

	cache *turnCache
	later *laterSteps
}

func unknownTurn(op string, id agent.TurnID) error {
	return agent.Errorf(agent.CodeNotFound, op, "there is no record of turn %q: it was deleted, or the database was restored from an older backup", id)
}

const readTurn = `
SELECT t.turn_id, t.tenant, t.session_id, t.state, coalesce(t.cursor, 0), t.workflow_id, t.agent, t.instance_id, t.plan_hash, t.model,
	t.channel, t.user_id, t.on_busy, t.history, t.input, t.context, t.route, t.output_schema, t.limits, t.mode, t.lease_until, t.parent,
	t.trace, t.start_by_id, t.client_tools, t.approvals, t.fallback, t.rerun_of, t.from_step, t.created_at, r.output
FROM turns t LEFT JOIN agent_results r ON r.turn_id = t.turn_id
WHERE t.turn_id = $1`

// Turn returns the state of a turn. The error is [agent.CodeNotFound] if there is no such turn. The caller checks the tenant.
func (s *TurnStore) Turn(ctx context.Context, id agent.TurnID) (agent.TurnState, error) {
	const op = "read turn"
	t, err := queryRow(ctx, s.pool, unknownTurn(op, id), scanTurn, readTurn, id)
	return t, mapError(op, err)
}

func scanTurn(row pgx.CollectableRow) (t agent.TurnState, err error) {
	r := &t.Record
	var lease *time.Time
	err = row.Scan(&r.TurnID, &r.Tenant, &r.SessionID, &t.State, &t.Cursor, &r.WorkflowID, &r.Agent, &r.InstanceID, &r.PlanHash, &r.Model,
		&r.Channel, &r.UserID, &r.OnBusy, &r.History, &r.Input, &r.Context, &r.Route,
		(*[]byte)(&r.OutputSchema), &r.Limits, &r.Mode, &lease, &r.Parent, &r.Trace, &r.StartByID, &r.ClientTools, &r.Approvals, &r.Fallback,
		&t.RerunOf, &t.FromStep, &t.StartedAt, &t.Output)
	if lease != nil {
		r.LeaseUntil, t.Lease = *lease, *lease
	}
	return t, err
}

// driver returns the mode of a turn after it begins with record t, and the lease of a direct turn.
func (p *recordedTurn) driver(t *agent.TurnRecord) (agent.Mode, *time.Time) {
	switch {
	case t.Mode != agent.ModeDirect && p.exists && p.mode != agent.ModeDirect:
		return p.mode, nil
	case t.Mode != agent.ModeDirect:
		return t.Mode, nil
	case t.LeaseUntil.IsZero() || p.lease != nil && !t.LeaseUntil.After(*p.lease):
		return t.Mode, p.lease
	default:
		until := t.LeaseUntil.UTC().Truncate(time.Microsecond) // as PostgreSQL stores it
		return t.Mode, &until
	}
}

func sameTime(a, b *time.Time) bool {
	if a == nil || b == nil {
		return a == b
	}
	return a.Equal(*b)
}

// renewLeases skips locked rows until the next time, so that one turn does not delay the leases of the others.
const renewLeases = `
WITH held AS (
	SELECT turn_id FROM turns WHERE turn_id = ANY ($1) AND mode = 'direct' AND state = 'running'
), free AS (
	SELECT t.turn_id FROM turns t JOIN held USING (turn_id) FOR NO KEY UPDATE OF t SKIP LOCKED
), renewed AS (
	UPDATE turns t SET lease_until = greatest(lease_until, $2) FROM free WHERE t.turn_id = free.turn_id AND mode = 'direct' AND state = 'running'
)
SELECT turn_id FROM held`

// handOverTurn also applies to a waiting turn, whose workflow then waits.
const handOverTurn = `
UPDATE turns SET mode = 'durable', lease_until = NULL, workflow_id = $2, fallback = coalesce(nullif(fallback, ''), $3)
WHERE turn_id = $1 AND state IN ('queued', 'running') AND (mode = 'direct' OR workflow_id = $2)`

const readState = `
SELECT state FROM turns WHERE turn_id = $1`

// Renew extends the leases of direct turns that hold their sessions, and returns the ids of those turns. The process must stop running all
// others: they wait, have ended, are no longer direct, or are unknown.
func (s *TurnStore) Renew(ctx context.Context, ids []agent.TurnID, until time.Time) ([]agent.TurnID, error) {
	held, err := queryRows(ctx, s.pool, pgx.RowTo[agent.TurnID], renewLeases, ids, until)
	return held, mapError("renew leases", err)
}

// HandOver makes a direct turn a durable one without a lease, which the workflow runs, and records the reason. Doing it again changes nothing.
// The error is [agent.CodeConflict] if the turn has ended or another workflow runs it, and [agent.CodeNotFound] if there is no such turn.
func (s *TurnStore) HandOver(ctx context.Context, id agent.TurnID, workflowID string, reason agent.Fallback) error {
	const op = "hand over turn"
	var (
		b       pgx.Batch
		applied bool
		state   string
	)
	b.Queue(handOverTurn, id, workflowID, string(reason)).Exec(func(tag pgconn.CommandTag) error {
		applied = tag.RowsAffected() > 0
		return nil
	})
	b.Queue(readState, id).QueryRow(scanOr(unknownTurn("", id), &state))
	err := s.send(ctx, &b)
	switch {
	case err != nil:
		return mapError(op, err)
	case applied:
		return nil
	case state != agent.StateQueued && state != agent.StateRunning:
		return agent.Errorf(agent.CodeConflict, op, "turn %q has ended", id)
	default:
		return agent.Errorf(agent.CodeConflict, op, "turn %q is driven by another workflow", id)
	}
}

const readUnfinishedChildren = `
WITH RECURSIVE below (turn_id) AS (
	SELECT turn_id FROM turns WHERE parent = $1 AND parent <> '' AND state IN ('queued', 'running')
	UNION
	SELECT c.turn_id FROM turns c JOIN below b ON c.parent = b.turn_id WHERE c.parent <> '' AND c.state IN ('queued', 'running')
)
SELECT turn_id FROM below`

// UnfinishedChildren returns the ids of the descendants of a turn that have not ended.
func (s *TurnStore) UnfinishedChildren(ctx context.Context, id agent.TurnID) ([]agent.TurnID, error) {
	found, err := queryRows(ctx, s.pool, pgx.RowTo[agent.TurnID], readUnfinishedChildren, id)
	return found, mapError("list unfinished child turns", err)
}

// readStalled returns turns in random order, so that turns that are only slow do not always fill the bounded list.
const readStalled = `
SELECT turn_id, workflow_id, reason FROM (
	SELECT t.turn_id, t.workflow_id, 'decided' AS reason
	FROM turns t CROSS JOIN LATERAL (
		SELECT max(a.step) AS step, max(a.decided_at) AS at, bool_and(a.decision IS NOT NULL) AS decided
		FROM approvals a WHERE a.turn_id = t.turn_id
	) a
	WHERE t.state = 'running' AND t.mode <> 'direct' AND a.decided AND a.at < clock_timestamp() - $1::interval
		AND NOT EXISTS (SELECT FROM turn_steps s WHERE s.turn_id = t.turn_id AND s.step > a.step)
	UNION ALL
	SELECT t.turn_id, t.workflow_id, 'session' FROM turns t
	WHERE t.state = 'running' AND t.mode <> 'direct' AND t.cursor IS NULL AND t.held_at < clock_timestamp() - $1::interval
	UNION ALL
	SELECT t.turn_id, t.workflow_id, 'cancelled'
	FROM (SELECT * FROM turns WHERE state = 'running' UNION ALL SELECT * FROM turns WHERE state = 'queued') t
		JOIN streams s ON s.stream_id = t.turn_id
	WHERE t.mode <> 'direct' AND s.cancelled AND s.closed_at IS NULL
) stalled WHERE workflow_id <> '' ORDER BY random() LIMIT $2`

// StalledTurns returns at most limit durable turns that should have continued at least minAge ago and have not. Cancelled turns are returned
// whatever their age, because the time of a cancellation is not stored. Some of the turns may only be slow.
func (s *TurnStore) StalledTurns(ctx context.Context, minAge time.Duration, limit int) ([]agent.StalledTurn, error) {
	found, err := queryRows(ctx, s.pool, pgx.RowToStructByPos[agent.StalledTurn], readStalled, minAge, limit)
	return found, mapError("find stalled turns", err)
}

// readStranded finds turns that hold their session and have neither an event nor a step, and direct turns whose lease has expired.
const readStranded = `
SELECT t.turn_id FROM turns t
WHERE t.state = 'running' AND t.mode = 'durable' AND t.start_by_id AND coalesce(t.held_at, t.created_at) < clock_timestamp() - $1::interval
	AND NOT EXISTS (SELECT FROM streams s WHERE s.stream_id = t.turn_id) AND NOT EXISTS (SELECT FROM turn_steps p WHERE p.turn_id = t.turn_id)
UNION ALL
SELECT t.turn_id FROM turns t WHERE t.state IN ('queued', 'running') AND t.mode = 'direct' AND t.lease_until < clock_timestamp()
LIMIT $2`

// Stranded calls work with turns that may have been abandoned, at most limit (100 by default, 1,000 at most): they were recorded at least
// minAge ago and have not begun, or they are direct and their lease has expired. Only one process at a time does so; ran is false in the
// others.
func (s *TurnStore) Stranded(
	ctx context.Context, minAge time.Duration, limit int, work func(context.Context, []agent.TurnID) error,
) (ran bool, err error) {
	const op = "list stranded turns"
	return s.withLock(ctx, op, "turnstone stranded turns", func(ctx context.Context, conn *pgxpool.Conn) error {
		ids, err := queryRows(ctx, conn, pgx.RowTo[agent.TurnID], readStranded, minAge, pageSize(limit))
		if err != nil {
			return mapError(op, err)
		}
		return work(ctx, ids)
	})
}
