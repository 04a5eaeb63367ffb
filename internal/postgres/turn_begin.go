package postgres

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype/zeronull"

	"github.com/turnstone-run/turnstone/agent"
)

// lockedSession is a locked row of sessions, joined with the turn that holds the session. holder is empty if the session is free.
type lockedSession struct {
	holder         agent.TurnID
	holderWorkflow string
	holderSince    time.Time
	holderMode     agent.Mode
	holderLease    *time.Time // if the holder is direct
	isWaiting      bool       // whether the holder waits for a decision that can still be made
	lastSeq        int64
	lastPosition   int64
}

// recordedTurn is the row of the turn that begins, and its place in the queue.
type recordedTurn struct {
	exists     bool // whether there is a row; if not, the fields up to output are zero
	tenant     string
	session    agent.SessionID
	state      string
	cursor     int64 // 0 before the input is in the transcript
	workflowID string
	binding    agent.Binding
	createdAt  time.Time
	mode       agent.Mode
	lease      *time.Time             // of a direct turn
	output     *agent.AgentStepOutput // of a finished turn

	queued int // the number of turns that wait in the session
	ahead  int // the number of them that are before this one
}

// lockSession inserts the session or locks its row, in one statement, because the session could be deleted between two. It updates no row;
// because it names a column of the key, the lock is as strong as that of FOR UPDATE.
const lockSession = `
INSERT INTO sessions (tenant, session_id) VALUES ($1, $2)
ON CONFLICT (tenant, session_id) DO UPDATE SET session_id = excluded.session_id WHERE false`

// readHolder is a separate statement so that it sees what was committed while lockSession waited.
const readHolder = `
SELECT coalesce(s.holder, ''), s.last_seq, s.last_position, coalesce(t.workflow_id, ''), coalesce(t.held_at, t.created_at),
	coalesce(t.mode, ''), t.lease_until, EXISTS (SELECT FROM approvals a WHERE a.turn_id = s.holder AND ` + isOpen + `)
FROM sessions s LEFT JOIN turns t ON t.turn_id = s.holder
WHERE s.tenant = $1 AND s.session_id = $2`

const readRecorded = `
SELECT t.tenant, t.session_id, t.state, coalesce(t.cursor, 0), t.workflow_id, t.agent, t.instance_id, t.plan_hash, t.model, t.route,
	t.trace, t.created_at, t.mode, t.lease_until, r.output
FROM turns t LEFT JOIN agent_results r ON r.turn_id = t.turn_id
WHERE t.turn_id = $1`

const countQueue = `
SELECT count(*), count(*) FILTER (WHERE q.seq < (SELECT seq FROM turns WHERE turn_id = $3))
FROM turns q WHERE q.tenant = $1 AND q.session_id = $2 AND q.state = 'queued'`

// insertTurn inserts the values of [turnValues]. Values for seq, state, cursor and held_at must follow it.
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

// Begin records a turn once, by its id, and returns its place in the session's queue (docs/design/design.md, "Sessions and the queue"). The
// turns of a session run in the order in which their first Begin was committed. The answers are:
//
//   - ready: the turn holds the session and its input is in the transcript. Another Begin returns the same cursor.
//   - behind: the turn waits; Position 1 is next. With on_busy interrupt the caller asks the holder to stop.
//   - busy (on_busy reject), waiting ([agent.TurnRecord.RefuseWaiting]) and overflow (the queue is full): nothing was stored.
//   - duplicate: the turn has finished; Output is its output.
//
// After an error that wraps [agent.ErrOutcomeUnknown] the turn may have been recorded; any other error means that it was not.
//
// The error is [agent.CodeConflict] if another tenant or session has a turn with that id, or if another workflow or process runs the turn.
func (s *TurnStore) Begin(ctx context.Context, t agent.TurnRecord) (agent.Begun, error) {
	const op = "begin turn"
	input, err := encodeMessages(t.Input)
	if err != nil {
		return agent.Begun{}, err
	}
	branch, err := s.branchOf(ctx, &t)
	if err != nil {
		return agent.Begun{}, mapError(op, err)
	}
	begun, done, err := s.beginInFreeSession(ctx, &t, input)
	if done || err != nil {
		return begun, mapError(op, err)
	}
	var (
		held lockedSession
		turn recordedTurn
	)
	err = s.transact(ctx, func(b *pgx.Batch) {
		branch.queueLock(b, &t)
		b.Queue(lockSession, t.Tenant, t.SessionID)
		branch.queueCopy(b, &t)
		b.Queue(readHolder, t.Tenant, t.SessionID).QueryRow(scanInto(&held.holder, &held.lastSeq, &held.lastPosition, &held.holderWorkflow,
			(*zeronull.Timestamptz)(&held.holderSince), &held.holderMode, &held.holderLease, &held.isWaiting))
		b.Queue(readRecorded, t.TurnID).QueryRow(scanFound(&turn.exists, &turn.tenant, &turn.session, &turn.state, &turn.cursor, &turn.workflowID,
			&turn.binding.Agent, &turn.binding.InstanceID, &turn.binding.PlanHash, &turn.binding.Model, &turn.binding.Route, &turn.binding.Trace,
			&turn.createdAt, &turn.mode, &turn.lease, &turn.output))
		b.Queue(countQueue, t.Tenant, t.SessionID, t.TurnID).QueryRow(scanInto(&turn.queued, &turn.ahead))
	}, func(b *pgx.Batch) error {
		if err := turn.checkOwner(&t); err != nil {
			return err
		}
		if err := branch.check(&t); err != nil && !turn.exists {
			return err
		}
		begun = decideBegin(&t, held, turn, cmp.Or(max(t.QueueLimit, 0), s.cfg.QueueLimit))
		return queueBegin(b, &t, input, held, turn, &begun)
	})
	if err != nil {
		return agent.Begun{}, mapError(op, err)
	}
	return begun, nil
}

// checkOwner returns an error if the row belongs to another tenant or session, or if another workflow or process runs the turn. The error
// reveals nothing about the row.
func (p *recordedTurn) checkOwner(t *agent.TurnRecord) error {
	switch {
	case !p.exists:
		return nil
	case p.tenant != t.Tenant || p.session != t.SessionID:
	case p.output == nil && p.workflowID != "" && t.WorkflowID != "" && p.workflowID != t.WorkflowID:
	case p.output == nil && p.mode != agent.ModeDirect && t.Mode == agent.ModeDirect: // a workflow runs the turn
	default:
		return nil
	}
	return agent.FieldErrorf(agent.CodeConflict, "turn_id", "%q is taken", t.TurnID)
}

// decideBegin returns the answer of [TurnStore.Begin]. The cursor of a turn that becomes ready is still 0.
func decideBegin(t *agent.TurnRecord, held lockedSession, p recordedTurn, limit int) agent.Begun {
	begun := agent.Begun{
		Holder: held.holder, HolderWorkflow: held.holderWorkflow, HolderSince: held.holderSince, HolderMode: held.holderMode,
		Binding: t.Binding, StartedAt: time.Now().UTC().Truncate(time.Microsecond),
	}
	if held.holderLease != nil {
		begun.HolderLease = held.holderLease.UTC()
	}
	if p.exists {
		begun.Binding, begun.StartedAt, begun.Cursor = p.binding, p.createdAt, p.cursor
	}
	switch {
	case p.exists && p.output != nil:
		return agent.Begun{Answer: agent.BeginDuplicate, Output: p.output, Binding: p.binding, StartedAt: p.createdAt}
	case held.holder == t.TurnID, held.holder == "" && p.ahead == 0 && (p.exists || p.queued == 0):
		begun.Answer = agent.BeginReady
		begun.Holder, begun.HolderWorkflow, begun.HolderSince, begun.HolderMode, begun.HolderLease = "", "", time.Time{}, "", time.Time{}
	case p.exists:
		begun.Answer, begun.Position = agent.BeginBehind, p.ahead+1
	case t.OnBusy == agent.OnBusyReject:
		begun.Answer = agent.BeginBusy
	case t.RefuseWaiting && held.isWaiting:
		begun.Answer = agent.BeginWaiting
	case p.queued >= limit:
		begun.Answer = agent.BeginOverflow
	default:
		begun.Answer, begun.Position = agent.BeginBehind, p.queued+1
	}
	return begun
}

// queueBegin queues the writes for an answer, and sets the cursor of a turn that becomes ready. Without changes it queues nothing.
func queueBegin(b *pgx.Batch, t *agent.TurnRecord, input messageColumns, held lockedSession, p recordedTurn, begun *agent.Begun) error {
	state := agent.StateRunning
	switch begun.Answer {
	case agent.BeginBehind:
		state = agent.StateQueued
	case agent.BeginReady:
	case agent.BeginBusy, agent.BeginWaiting, agent.BeginOverflow:
		b.Queue(leavePlace, t.Tenant, t.TurnID) // the turn was admitted and will not begin
		return nil
	default:
		return nil
	}
	workflowID := t.WorkflowID
	if p.exists && p.workflowID != "" {
		workflowID = p.workflowID
	}
	mode, lease := p.driver(t)
	appends := begun.Answer == agent.BeginReady && begun.Cursor == 0
	if appends {
		begun.Cursor = held.lastPosition + int64(len(input.roles))
	}
	switch {
	case !p.exists:
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
	if !p.exists {
		held.lastSeq++
	}
	b.Queue(advanceSession, t.Tenant, t.SessionID, held.holder, held.lastSeq, held.lastPosition)
	return nil
}

func queueInsertTurn(b *pgx.Batch, t *agent.TurnRecord, state string, seq int64, begun *agent.Begun) error {
	fallback := t.Fallback
	if t.Mode == agent.ModeDirect && begun.Answer == agent.BeginBehind { // a workflow will wait for the session
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
	if t.Rerun == nil {
		return nil
	}
	return queueRerun(b, t.TurnID, t.Rerun)
}

// turnValues returns the first 26 arguments of [insertTurn].
func turnValues(t *agent.TurnRecord, fallback agent.Fallback, createdAt time.Time) ([]any, error) {
	var e columnEncoder
	input, invocation, route := e.json(t.Input), e.json(t.Context), e.json(t.Route)
	schema, limits := e.raw(t.OutputSchema), e.keep(encodeOptional(t.Limits))
	var tools []byte
	if len(t.ClientTools) > 0 {
		tools = e.json(t.ClientTools)
	}
	mode, lease := (&recordedTurn{}).driver(t)
	return []any{
		t.TurnID, t.Tenant, t.SessionID, t.WorkflowID, t.Agent, t.InstanceID, t.PlanHash, t.Model, t.Channel, t.UserID, t.OnBusy, t.History, input,
		invocation, createdAt, route, schema, limits, mode, lease, t.Parent, t.Trace, t.StartByID, tools, string(t.Approvals), string(fallback),
	}, e.err
}

// beginFree records a new turn and makes it the holder of its session, if no turn holds the session or waits in it. Otherwise it changes
// nothing.
//
// PostgreSQL locks the session's row before it reads the holder. A turn that was queued since the statement began is no problem, because
// turns only wait while there is a holder, which the statement then finds.
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

// beginInFreeSession is [TurnStore.Begin] in one statement, for a new turn whose session is free and that is not a rerun. For any other turn
// it does nothing and done is false.
func (s *TurnStore) beginInFreeSession(ctx context.Context, t *agent.TurnRecord, input messageColumns) (begun agent.Begun, done bool, err error) {
	if t.Rerun != nil { // its session begins with copied turns
		return agent.Begun{}, false, nil
	}
	begun = agent.Begun{Answer: agent.BeginReady, Binding: t.Binding, StartedAt: time.Now().UTC().Truncate(time.Microsecond), New: true}
	values, err := turnValues(t, t.Fallback, begun.StartedAt)
	if err != nil {
		return agent.Begun{}, false, err
	}
	conn, err := s.pool.Acquire(ctx)
	if err != nil { // nothing was sent: the turn is not recorded
		return agent.Begun{}, false, err
	}
	defer conn.Release()
	values = append(values, input.roles, input.blocks, t.Stream.Owner, t.Stream.Reserve)
	err = conn.QueryRow(ctx, beginFree, values...).Scan(&begun.Cursor, &begun.Claimed)
	switch {
	case err == nil:
		if begun.Cursor == int64(len(t.Input)) && len(t.Input) <= s.cfg.PromptMessages {
			s.cache.addFirstTurn(t, input)
		}
		return begun, true, nil
	case errors.Is(err, pgx.ErrNoRows), isViolation(err, "turns_pkey"): // the same turn is recorded at the same time
		return agent.Begun{}, false, nil
	default:
		return agent.Begun{}, false, markUncertain(err)
	}
}
