package postgres

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/turnstone-run/turnstone/agent"
)

const readTurn = `
SELECT t.turn_id, t.tenant, t.session_id, t.state, coalesce(t.cursor, 0), t.workflow_id, t.agent, t.instance_id, t.plan_hash, t.model,
	t.channel, t.user_id, t.on_busy, t.history, t.input, t.context, t.route, t.output_schema, t.limits, t.mode, t.lease_until, t.parent,
	t.trace, t.start_by_id, t.client_tools, t.approvals, t.fallback, t.created_at, r.output
FROM turns t LEFT JOIN agent_results r ON r.turn_id = t.turn_id
WHERE t.turn_id = $1`

// Turn returns what is known of a turn; [agent.CodeNotFound] when nothing is. The tenant is for the caller to check.
func (s *Store) Turn(ctx context.Context, id agent.TurnID) (agent.TurnState, error) {
	const op = "read turn"
	rows, err := s.pool.Query(ctx, readTurn, id)
	if err != nil {
		return agent.TurnState{}, mapError(op, err)
	}
	found, err := pgx.CollectRows(rows, scanTurn)
	switch {
	case err != nil:
		return agent.TurnState{}, mapError(op, err)
	case len(found) == 0:
		return agent.TurnState{}, unknownTurn(op, id)
	}
	return found[0], nil
}

func scanTurn(row pgx.CollectableRow) (t agent.TurnState, err error) {
	r := &t.Record
	var lease *time.Time
	err = row.Scan(&r.TurnID, &r.Tenant, &r.SessionID, &t.State, &t.Cursor, &r.WorkflowID, &r.Agent, &r.InstanceID, &r.PlanHash, &r.Model,
		&r.Channel, &r.UserID, &r.OnBusy, &r.History, &r.Input, &r.Context, &r.Route,
		(*[]byte)(&r.OutputSchema), &r.Limits, &r.Mode, &lease, &r.Parent, &r.Trace, &r.StartByID, &r.ClientTools, &r.Approvals, &r.Fallback,
		&t.StartedAt, &t.Output)
	if lease != nil {
		r.LeaseUntil = lease.UTC()
		t.Lease = r.LeaseUntil
	}
	return t, err
}

// SessionTurn is one turn of a session's list.
type SessionTurn struct {
	Seq        int64 // the order of the session's turns, ascending with gaps for none
	TurnID     agent.TurnID
	Agent      string
	State      string // as in [agent.TurnState]
	CreatedAt  time.Time
	FinishedAt *time.Time // nil while it is queued or running
	Holds      bool       // the session, now
}

const readTurns = `
SELECT t.seq, t.turn_id, t.agent, t.state, t.created_at, t.finished_at, coalesce(t.turn_id = s.holder, false)
FROM turns t JOIN sessions s USING (tenant, session_id)
WHERE t.tenant = $1 AND t.session_id = $2 AND t.seq > $3
ORDER BY t.seq LIMIT $4`

// Turns returns a page of a session's turns in order, those behind the sequence number after, at most limit (100 by default, 1,000 at
// most). A session that the tenant does not have is [agent.CodeNotFound].
func (s *Store) Turns(ctx context.Context, tenant string, id agent.SessionID, after int64, limit int) ([]SessionTurn, error) {
	var (
		b    pgx.Batch
		page []SessionTurn
	)
	b.Queue(sessionExists, tenant, id).QueryRow(func(row pgx.Row) error { return knownSession(row, id) })
	b.Queue(readTurns, tenant, id, after, pageSize(limit)).Query(func(rows pgx.Rows) (err error) {
		page, err = pgx.CollectRows(rows, pgx.RowToStructByPos[SessionTurn])
		return err
	})
	if err := s.pool.SendBatch(ctx, &b).Close(); err != nil {
		return nil, mapError("list turns", err)
	}
	return page, nil
}
