package postgres

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype/zeronull"

	"github.com/turnstone-run/turnstone/agent"
)

// session is a locked row of sessions, with its holder's turn. The zero holder means that the session is free.
type session struct {
	holder         agent.TurnID
	holderWorkflow string
	holderSince    time.Time
	holderMode     agent.Mode
	holderLease    *time.Time // of a direct holder
	lastSeq        int64
	lastPosition   int64
}

// place is what is known of a turn that begins, again or for the first time.
type place struct {
	known      bool // the fields below are set
	tenant     string
	session    agent.SessionID
	state      string
	cursor     int64 // 0 before the input is in the transcript
	workflowID string
	bound      agent.Binding
	createdAt  time.Time
	mode       agent.Mode
	lease      *time.Time             // of a direct turn
	output     *agent.AgentStepOutput // finished

	waiting int // turns queued in the session
	ahead   int // those of them that were there before this one
}

// lockSession inserts the session or locks it as FOR UPDATE does, in one statement: between two, the session could be deleted. It updates nothing;
// naming a column of the key is what makes the lock that strong.
const lockSession = `
INSERT INTO sessions (tenant, session_id) VALUES ($1, $2)
ON CONFLICT (tenant, session_id) DO UPDATE SET session_id = excluded.session_id WHERE false`

// A statement of its own: it must see what was committed while lockSession waited.
const readHolder = `
SELECT coalesce(s.holder, ''), s.last_seq, s.last_position, coalesce(t.workflow_id, ''), coalesce(t.held_at, t.created_at),
	coalesce(t.mode, ''), t.lease_until
FROM sessions s LEFT JOIN turns t ON t.turn_id = s.holder
WHERE s.tenant = $1 AND s.session_id = $2`

const readPlace = `
SELECT t.tenant, t.session_id, t.state, coalesce(t.cursor, 0), t.workflow_id, t.agent, t.instance_id, t.plan_hash, t.model, t.route,
	t.trace, t.created_at, t.mode, t.lease_until, r.output
FROM turns t LEFT JOIN agent_results r ON r.turn_id = t.turn_id
WHERE t.turn_id = $1`

const countQueue = `
SELECT count(*), count(*) FILTER (WHERE q.seq < (SELECT seq FROM turns WHERE turn_id = $3))
FROM turns q WHERE q.tenant = $1 AND q.session_id = $2 AND q.state = 'queued'`

// insertTurn has the values of [turnValues], then the turn's place: seq, state, cursor and held_at.
const insertTurn = `
INSERT INTO turns (turn_id, tenant, session_id, workflow_id, agent, instance_id, plan_hash, model, channel, user_id, on_busy, history, input,
	context, created_at, route, output_schema, limits, mode, lease_until, parent, trace, start_by_id, client_tools, approvals, fallback, seq, state,
	cursor, held_at)
SELECT $1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15::timestamptz, $16, $17, $18, $19, $20, $21, $22, $23, $24, $25, $26, `

const continueTurn = `
UPDATE turns SET state = $2, cursor = nullif($3::bigint, 0), workflow_id = $4, mode = $5, lease_until = $6, fallback = coalesce(nullif($7, ''), fallback),
	held_at = CASE WHEN $2 = 'running' THEN coalesce(held_at, clock_timestamp()) END
WHERE turn_id = $1`

const advanceSession = `
UPDATE sessions SET holder = nullif($3, ''), last_seq = $4, last_position = $5 WHERE tenant = $1 AND session_id = $2`

// Begin records the turn once, by its id, and says where it stands in its session (docs/design.md, "Sessions and the queue").
// The order of a session's turns is the order in which their first Begin was committed. Answers:
//
//   - ready: the turn holds the session and its input is in the transcript; asked again, the same answer with the same cursor
//   - behind: it waits, Position 1 being next; for on_busy interrupt it is the caller who asks the holder to stop
//   - busy (on_busy reject) and overflow (the queue is full): nothing was stored
//   - duplicate: it has finished, and this is its output
//
// An error that wraps [agent.ErrOutcomeUnknown] leaves open whether the turn is recorded; after any other it is not.
//
// A turn id that is taken, by another tenant or session or by a turn that somebody else drives, is [agent.CodeConflict]. See lease.go for
// who drives a turn.
func (s *Store) Begin(ctx context.Context, t agent.TurnRecord) (agent.Begun, error) {
	const op = "begin turn"
	input, err := encodeMessages(t.Input)
	if err != nil {
		return agent.Begun{}, err
	}
	begun, done, err := s.beginInFreeSession(ctx, &t, input)
	if done || err != nil {
		return begun, mapError(op, err)
	}
	var (
		held  session
		place place
	)
	err = transact(ctx, s.pool, func(b *pgx.Batch) {
		b.Queue(lockSession, t.Tenant, t.SessionID)
		b.Queue(readHolder, t.Tenant, t.SessionID).QueryRow(func(row pgx.Row) error {
			return row.Scan(&held.holder, &held.lastSeq, &held.lastPosition, &held.holderWorkflow, (*zeronull.Timestamptz)(&held.holderSince),
				&held.holderMode, &held.holderLease)
		})
		b.Queue(readPlace, t.TurnID).QueryRow(func(row pgx.Row) error {
			err := row.Scan(&place.tenant, &place.session, &place.state, &place.cursor, &place.workflowID, &place.bound.Agent,
				&place.bound.InstanceID, &place.bound.PlanHash, &place.bound.Model, &place.bound.Route, &place.bound.Trace, &place.createdAt,
				&place.mode, &place.lease, &place.output)
			place.known = err == nil
			return optional(err)
		})
		b.Queue(countQueue, t.Tenant, t.SessionID, t.TurnID).QueryRow(func(row pgx.Row) error {
			return row.Scan(&place.waiting, &place.ahead)
		})
	}, func(b *pgx.Batch) error {
		if err := place.conflict(&t); err != nil {
			return err
		}
		begun = stand(&t, held, place, s.queueLimit(&t))
		return s.queueBegin(b, &t, input, held, place, &begun)
	})
	if err != nil {
		return agent.Begun{}, mapError(op, err)
	}
	return begun, nil
}

func (s *Store) queueLimit(t *agent.TurnRecord) int {
	if t.QueueLimit > 0 {
		return t.QueueLimit
	}
	return s.cfg.QueueLimit
}

// conflict refuses a turn id that means another turn. It says nothing about that turn.
func (p *place) conflict(t *agent.TurnRecord) error {
	switch {
	case !p.known:
		return nil
	case p.tenant != t.Tenant || p.session != t.SessionID:
	case p.output == nil && p.workflowID != "" && t.WorkflowID != "" && p.workflowID != t.WorkflowID:
	case p.output == nil && p.mode != agent.ModeDirect && t.Mode == agent.ModeDirect: // a workflow drives it, perhaps since a hand-over
	default:
		return nil
	}
	return &agent.Error{
		Code: agent.CodeConflict, Op: "begin turn", Field: "turn_id",
		Err: agent.Errorf(agent.CodeConflict, "", "%q is taken", t.TurnID),
	}
}

// stand decides where a turn stands. It is the whole rule of the queue; the cursor of a turn that has just become ready is not
// known yet and left 0.
func stand(t *agent.TurnRecord, held session, p place, limit int) agent.Begun {
	begun := agent.Begun{
		Holder: held.holder, HolderWorkflow: held.holderWorkflow, HolderSince: held.holderSince, HolderMode: held.holderMode,
		Binding: t.Binding, StartedAt: time.Now().UTC().Truncate(time.Microsecond),
	}
	if held.holderLease != nil {
		begun.HolderLease = held.holderLease.UTC()
	}
	if p.known {
		begun.Binding, begun.StartedAt, begun.Cursor = p.bound, p.createdAt, p.cursor
	}
	switch {
	case p.known && p.output != nil:
		return agent.Begun{Answer: agent.BeginDuplicate, Output: p.output, Binding: p.bound, StartedAt: p.createdAt}
	case held.holder == t.TurnID, held.holder == "" && p.ahead == 0 && (p.known || p.waiting == 0):
		begun.Answer = agent.BeginReady
		begun.Holder, begun.HolderWorkflow, begun.HolderSince, begun.HolderMode, begun.HolderLease = "", "", time.Time{}, "", time.Time{}
	case p.known:
		begun.Answer, begun.Position = agent.BeginBehind, p.ahead+1
	case t.OnBusy == agent.OnBusyReject:
		begun.Answer = agent.BeginBusy
	case p.waiting >= limit:
		begun.Answer = agent.BeginOverflow
	default:
		begun.Answer, begun.Position = agent.BeginBehind, p.waiting+1
	}
	return begun
}

// queueBegin queues the writes that make an answer true, none when it is true already, and fills in the cursor.
func (s *Store) queueBegin(b *pgx.Batch, t *agent.TurnRecord, input encoded, held session, p place, begun *agent.Begun) error {
	state := agent.StateRunning
	switch begun.Answer {
	case agent.BeginBehind:
		state = agent.StateQueued
	case agent.BeginReady:
	case agent.BeginBusy, agent.BeginOverflow:
		b.Queue(leavePlace, t.Tenant, t.TurnID) // it was admitted and does not begin
		return nil
	default:
		return nil
	}
	workflowID := t.WorkflowID
	if p.known && p.workflowID != "" {
		workflowID = p.workflowID
	}
	mode, lease := p.driver(t)
	appends := begun.Answer == agent.BeginReady && begun.Cursor == 0
	if appends {
		begun.Cursor = held.lastPosition + int64(len(input.roles))
	}
	switch {
	case !p.known:
		begun.New = true
		if err := queueInsertTurn(b, t, state, held.lastSeq+1, begun); err != nil {
			return err
		}
	case appends || workflowID != p.workflowID || mode != p.mode || !sameTime(lease, p.lease):
		b.Queue(continueTurn, t.TurnID, state, begun.Cursor, workflowID, mode, lease, string(t.Fallback))
	default:
		return nil
	}
	if appends {
		input.queue(b, t.Tenant, t.SessionID, t.TurnID, held.lastPosition)
		held.holder, held.lastPosition = t.TurnID, begun.Cursor
	}
	if !p.known {
		held.lastSeq++
	}
	b.Queue(advanceSession, t.Tenant, t.SessionID, held.holder, held.lastSeq, held.lastPosition)
	return nil
}

func queueInsertTurn(b *pgx.Batch, t *agent.TurnRecord, state string, seq int64, begun *agent.Begun) error {
	fallback := t.Fallback
	if t.Mode == agent.ModeDirect && begun.Answer == agent.BeginBehind { // a workflow waits for it
		fallback = agent.FallbackSession
	}
	values, err := turnValues(t, fallback, begun.StartedAt)
	if err != nil {
		return err
	}
	var (
		cursor *int64
		heldAt *time.Time
	)
	if begun.Answer == agent.BeginReady {
		cursor, heldAt = &begun.Cursor, &begun.StartedAt
	}
	b.Queue(insertTurn+`$27, $28, $29, $30`, append(values, seq, state, cursor, heldAt)...)
	return nil
}

// turnValues returns the first 26 arguments of [insertTurn], for a turn that is recorded at a time.
func turnValues(t *agent.TurnRecord, fallback agent.Fallback, at time.Time) ([]any, error) {
	input, err := encode(t.Input)
	if err != nil {
		return nil, err
	}
	invocation, err := encode(t.Context)
	if err != nil {
		return nil, err
	}
	route, err := encode(t.Route)
	if err != nil {
		return nil, err
	}
	schema, err := encodeRaw(t.OutputSchema)
	if err != nil {
		return nil, err
	}
	limits, err := encodeOptional(t.Limits)
	if err != nil {
		return nil, err
	}
	var tools []byte
	if len(t.ClientTools) > 0 {
		if tools, err = encode(t.ClientTools); err != nil {
			return nil, err
		}
	}
	mode, lease := (&place{}).driver(t)
	return []any{
		t.TurnID, t.Tenant, t.SessionID, t.WorkflowID, t.Agent, t.InstanceID, t.PlanHash, t.Model, t.Channel, t.UserID, t.OnBusy, t.History, input,
		invocation, at, route, schema, limits, mode, lease, t.Parent, t.Trace, t.StartByID, tools, string(t.Approvals), string(fallback),
	}, nil
}
