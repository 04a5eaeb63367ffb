package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/turnstone-run/turnstone/agent"
)

// shownTurn is the id of turn t for readers: a copy is shown under the id of its original.
const shownTurn = `coalesce(nullif(t.copy_of, ''), t.turn_id)`

// lockForked makes deletions and sweeps of the copied session wait until the copies exist.
const lockForked = `
SELECT FROM sessions WHERE tenant = $1 AND session_id = $2 FOR SHARE`

// readForkPoint reads turn $3 of a session, or the newest turn if $3 is empty.
const readForkPoint = `
SELECT ` + shownTurn + `, t.seq FROM turns t
WHERE t.tenant = $1 AND t.session_id = $2 AND ($3 = '' OR t.turn_id = $3 OR t.copy_of = $3) ORDER BY t.seq DESC LIMIT 1`

const readUnended = `
SELECT turn_id FROM turns WHERE tenant = $1 AND session_id = $2 AND seq <= $3 AND state IN ('queued', 'running') ORDER BY seq LIMIT 1`

const measureMessages = `
SELECT coalesce(sum(size), 0)::bigint FROM messages WHERE tenant = $1 AND session_id = $2`

// copyTurns copies the finished turns of a session ($3) up to a sequence number ($4) into a locked session ($2). It returns a row if that session had no
// turns and no messages; otherwise it changes nothing. Copies have the messages, the datasets, which later turns may use, and the references to content of
// their originals, but no events, results, steps or ledger rows. Sweeps do not visit turns from before their mark, so a copy is marked as swept like its
// original. An erasure waits for copies that are being made, and finds them by their user.
const copyTurns = `
WITH target AS (
	SELECT FROM sessions WHERE tenant = $1 AND session_id = $2 AND last_seq = 0 AND last_position = 0
), chosen AS MATERIALIZED (
	SELECT t.*, 'copy/' || gen_random_uuid() AS copy_id FROM turns t, target
	WHERE t.tenant = $1 AND t.session_id = $3 AND t.seq <= $4 AND t.state NOT IN ('queued', 'running') FOR KEY SHARE OF t
), copy AS (
	INSERT INTO turns (turn_id, tenant, session_id, seq, state, cursor, workflow_id, agent, instance_id, plan_hash, model, channel, user_id,
		on_busy, history, input, context, created_at, held_at, finished_at, mode, swept, copy_of, origin_user)
	SELECT copy_id, tenant, $2, seq, state, cursor, '', agent, instance_id, plan_hash, model, channel, user_id,
		on_busy, history, input, '{}', created_at, held_at, finished_at, mode, swept, ` + shownTurn + `, origin_user
	FROM chosen t
), message AS (
	INSERT INTO messages (tenant, session_id, position, turn_id, role, blocks, size, created_at)
	SELECT $1, $2, m.position, c.copy_id, m.role, m.blocks, m.size, m.created_at
	FROM chosen c JOIN messages m ON m.turn_id = c.turn_id AND m.tenant = $1 AND m.session_id = $3
	RETURNING position
), call AS (
	INSERT INTO tool_calls (turn_id, step, call_id, tenant, name, args, status, ref, duration_ms, created_at, dataset, cache_hit)
	SELECT c.copy_id, d.step, d.call_id, d.tenant, d.name, d.args, d.status, d.ref, d.duration_ms, d.created_at, d.dataset, d.cache_hit
	FROM chosen c JOIN tool_calls d ON d.turn_id = c.turn_id WHERE d.dataset IS NOT NULL
), content AS (
	INSERT INTO blob_refs (tenant, holder, digest)
	SELECT r.tenant, 'turn/' || c.copy_id, r.digest
	FROM chosen c JOIN blob_refs r ON r.tenant = $1 AND r.holder = 'turn/' || c.turn_id
	ON CONFLICT DO NOTHING
), list AS (
	INSERT INTO reference_lists (tenant, session_id, numbers)
	SELECT l.tenant, $2, l.numbers FROM reference_lists l, target WHERE l.tenant = $1 AND l.session_id = $3 ON CONFLICT DO NOTHING
	RETURNING tenant
), source AS (
	INSERT INTO session_references (tenant, session_id, number, key, aliases, source, item, added_at)
	SELECT r.tenant, $2, r.number, r.key, r.aliases, r.source, r.item, r.added_at
	FROM session_references r JOIN list USING (tenant) WHERE r.session_id = $3 AND r.added_at <= (SELECT max(finished_at) FROM chosen)
	RETURNING tenant, number
), name AS (
	INSERT INTO reference_names (tenant, session_id, name, number)
	SELECT n.tenant, $2, n.name, n.number FROM reference_names n JOIN source USING (tenant, number) WHERE n.session_id = $3
), branch AS (
	UPDATE sessions s SET forked_from = $3, last_seq = coalesce((SELECT max(seq) FROM chosen), 0),
		last_position = coalesce((SELECT max(position) FROM message), 0)
	FROM target WHERE s.tenant = $1 AND s.session_id = $2
	RETURNING s.session_id
)
SELECT (SELECT count(*) FROM chosen), (SELECT count(*) FROM message) FROM branch`

func sessionInUse(id agent.SessionID) error {
	return agent.FieldErrorf(agent.CodeConflict, "session_id", "session %q has turns or messages already: name a new one", id)
}

// ForkSession creates a session that begins with a copy of another session's transcript, in one transaction. It does not copy remembered decisions, nor
// notes, which may be about later turns. The error is [agent.CodeNotFound] if the tenant does not have the session or the session does not have the turn,
// [agent.CodeConflict] if a turn up to that one has not ended or the new session is in use, and [agent.CodeOverflow] for more than 256 MiB.
func (s *SessionStore) ForkSession(ctx context.Context, tenant string, f agent.Fork) (agent.SessionForked, error) {
	forked := agent.SessionForked{SessionID: f.SessionID, ForkedFrom: f.From}
	err := pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, deleteTimeout); err != nil {
			return err
		}
		if err := tx.QueryRow(ctx, lockForked, tenant, f.From).Scan(); err != nil {
			return ifNoRows(err, unknownSession(f.From))
		}
		last, err := forkPoint(ctx, tx, tenant, &f, &forked)
		if err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, lockSession, tenant, f.SessionID); err != nil {
			return err
		}
		err = tx.QueryRow(ctx, copyTurns, tenant, f.SessionID, f.From, last).Scan(&forked.Turns, &forked.Messages)
		return ifNoRows(err, sessionInUse(f.SessionID))
	})
	if err != nil {
		return agent.SessionForked{}, mapError("fork session", err)
	}
	return forked, nil
}

// forkPoint returns the sequence number of the last turn that a fork copies, and sets forked.TurnID to its id. The session must be locked.
func forkPoint(ctx context.Context, tx pgx.Tx, tenant string, f *agent.Fork, forked *agent.SessionForked) (last int64, err error) {
	err = tx.QueryRow(ctx, readForkPoint, tenant, f.From, f.TurnID).Scan(&forked.TurnID, &last)
	if f.TurnID == "" {
		err = ignoreNoRows(err)
	}
	if err != nil {
		return 0, ifNoRows(err, agent.FieldErrorf(agent.CodeNotFound, "turn_id", "session %q has no turn %q", f.From, f.TurnID))
	}
	var unended agent.TurnID
	if err := ignoreNoRows(tx.QueryRow(ctx, readUnended, tenant, f.From, last).Scan(&unended)); err != nil {
		return 0, err
	}
	if unended != "" {
		return 0, agent.FieldErrorf(agent.CodeConflict, "turn_id", "turn %q has not ended: name an earlier turn, or wait", unended)
	}
	return last, checkForkSize(ctx, tx, tenant, f.From)
}

// checkForkSize returns an error if a session is too large to be copied in one transaction.
func checkForkSize(ctx context.Context, q querier, tenant string, id agent.SessionID) error {
	size, err := queryRow(ctx, q, nil, pgx.RowTo[int64], measureMessages, tenant, id)
	if err != nil {
		return err
	}
	if size > maxExportBytes {
		return agent.Errorf(agent.CodeOverflow, "", "session %q has %d bytes, a copy at most %d", id, size, maxExportBytes)
	}
	return nil
}

const readRerunSource = `
SELECT session_id, seq FROM turns WHERE turn_id = $1 AND tenant = $2`

// lockOriginal prevents that a turn is erased before its rerun is recorded.
const lockOriginal = `
SELECT FROM turns WHERE turn_id = $1 FOR KEY SHARE`

const markRerun = `
UPDATE turns t SET rerun_of = $2, from_step = $3, origin_user = coalesce(nullif(o.origin_user, ''), o.user_id)
FROM turns o WHERE t.turn_id = $1 AND o.turn_id = $2`

// copyPrepared copies a preparation without its ledger rows, so that it is not charged again.
const copyPrepared = `
INSERT INTO prepared (turn_id, producer, epoch, body) VALUES ($1, $2, $3, $4::json)`

// queueRerun queues the statements that link a new turn to its original and copy the original's preparation.
func queueRerun(b *pgx.Batch, id agent.TurnID, r *agent.Rerun) error {
	b.Queue(markRerun, id, r.Of, r.FromStep)
	if r.Prepared == nil {
		return nil
	}
	prepared := *r.Prepared
	prepared.TurnID, prepared.Usage = id, agent.Usage{}
	body, err := encode(prepared)
	b.Queue(copyPrepared, id, prepared.Fence.Producer, prepared.Fence.Epoch, body)
	return err
}

// branchSource is the range of turns that are copied into the session of a rerun. Its methods do nothing for the zero value, that of a record that is not a
// rerun.
type branchSource struct {
	from      agent.SessionID
	last      int64 // the sequence number of the last turn
	exists    bool  // whether the original turn still exists
	areCopied bool  // whether the turns have been copied
}

// branchOf returns the branch source of a record.
func (s *TurnStore) branchOf(ctx context.Context, t *agent.TurnRecord) (b branchSource, err error) {
	if t.Rerun == nil {
		return branchSource{}, nil
	}
	var seq int64
	if err := s.pool.QueryRow(ctx, readRerunSource, t.Rerun.Of, t.Tenant).Scan(&b.from, &seq); err != nil {
		return branchSource{}, ifNoRows(err, unknownTurn("", t.Rerun.Of))
	}
	b.last = seq - 1
	return b, checkForkSize(ctx, s.pool, t.Tenant, b.from)
}

// queueLock queues the locks of the original session and turn. They are taken before the lock of the new session.
func (b *branchSource) queueLock(batch *pgx.Batch, t *agent.TurnRecord) {
	if b.from == "" {
		return
	}
	batch.Queue(lockForked, t.Tenant, b.from)
	batch.Queue(lockOriginal, t.Rerun.Of).QueryRow(scanFound(&b.exists))
}

// check returns an error if the branch could not be made.
func (b *branchSource) check(t *agent.TurnRecord) error {
	switch {
	case b.from == "":
		return nil
	case !b.exists:
		return unknownTurn("", t.Rerun.Of)
	case !b.areCopied:
		return sessionInUse(t.SessionID)
	default:
		return nil
	}
}

// queueCopy queues the statement that copies the turns into the locked session of the rerun.
func (b *branchSource) queueCopy(batch *pgx.Batch, t *agent.TurnRecord) {
	if b.from == "" {
		return
	}
	batch.Queue(copyTurns, t.Tenant, t.SessionID, b.from, b.last).QueryRow(scanFound(&b.areCopied, new(int), new(int)))
}
