package postgres

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"go.uber.org/zap"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/stream"
)

const lockTurnsSession = `
SELECT s.tenant, coalesce(s.holder, '') FROM sessions s JOIN turns t USING (tenant, session_id)
WHERE t.turn_id = $1 FOR UPDATE OF s`

const lockTurn = `
SELECT FROM turns WHERE turn_id = $1 FOR UPDATE`

const readOutput = `
SELECT output FROM agent_results WHERE turn_id = $1`

// readNext finds the turn that gets the session: the first in the queue or, if the session has been passed on already, a holder that has not
// begun again.
const readNext = `
SELECT n.turn_id, n.workflow_id FROM turns t JOIN sessions s USING (tenant, session_id)
	JOIN turns n ON n.tenant = t.tenant AND n.session_id = t.session_id
WHERE t.turn_id = $1 AND n.turn_id <> t.turn_id
	AND (n.state = 'queued' AND s.holder = t.turn_id OR n.turn_id = s.holder AND n.state = 'running' AND n.cursor IS NULL)
ORDER BY n.seq LIMIT 1`

const readOutline = stepOutline + ` WHERE s.turn_id = $1 ORDER BY s.step, s.call_id`

// endApprovals closes the undecided approvals of a turn that ends, so that nobody is asked for them. It leaves those open that the turn has
// failed for.
const endApprovals = `
UPDATE approvals SET decision = 'reject', decided_by = $2, message = 'the turn ended first', decided_at = clock_timestamp()
WHERE turn_id = $1 AND decision IS NULL AND NOT (refused AND $3)`

const handOver = `
UPDATE turns SET state = 'running', held_at = clock_timestamp() WHERE turn_id = $1`

// endStream ends a stream after an index that the owner of the stream knows, closeStream after the last stored event. If $2 is the id of a
// result, they do so only if the result is stored.
const (
	endStream   = `SELECT turnstone_end($1, $3, $4, $5, $6)` + ifStored
	closeStream = `SELECT turnstone_close($1, $3::json)` + ifStored
	ifStored    = ` WHERE $2 = '' OR EXISTS (SELECT FROM agent_results WHERE result_id = nullif($2, '')::uuid)`
)

// lockedTurn is the locked row of a turn that ends, with its session and its steps.
type lockedTurn struct {
	tenant string
	holder agent.TurnID // of its session
	exists bool
	output *agent.AgentStepOutput // of a turn that has ended already
	next   agent.Finished         // Next and NextWorkflow
	steps  []step
}

// Finish ends a turn in one transaction: it appends the steps to the transcript, stores the result and the tool calls, passes the session to
// the next turn in the queue, and ends the stream with the events. It returns f.Output with ResultRef set; the terminal event has the same
// output. It takes one round trip for a completed turn if the record has its steps and no turn waits behind it, otherwise two or three.
//
// The first call for a turn wins. Later calls return the stored output, and the next turn if that has not begun yet, because the caller may
// not know of it. If the turn was never recorded, Finish only closes its stream. A turn of another tenant is [agent.CodeNotFound].
func (s *TurnStore) Finish(ctx context.Context, f agent.FinishRecord) (agent.Finished, error) {
	const op = "finish turn"
	switch f.Output.Status {
	case agent.TurnCompleted, agent.TurnFailed, agent.TurnCancelled:
	default:
		return agent.Finished{}, agent.Invalid("status", "%q is no end of a turn", f.Output.Status)
	}
	ids := append(jobIDs(f.Tenant, f.JobID, f.TurnID), uuid.New())
	var (
		done agent.Finished
		err  error
	)
	for i, id := range ids {
		if i > 0 {
			s.cfg.Logger.Warn("job id is taken, storing the result under another one", zap.String("turn_id", string(f.TurnID)),
				zap.Stringer("job_id", ids[0]), zap.Stringer("stored_as", id))
		}
		done, err = s.finish(ctx, &f, id)
		if !isViolation(err, "idx_agent_results_job_id") {
			break
		}
	}
	if err == nil {
		s.cache.drop(f.TurnID)
	}
	return done, mapError(op, err)
}

func (s *TurnStore) finish(ctx context.Context, f *agent.FinishRecord, job uuid.UUID) (done agent.Finished, err error) {
	if err := s.later.store(ctx, s.database, f.TurnID); err != nil {
		return agent.Finished{}, err
	}
	if done, ended, err := s.finishAtOnce(ctx, f, job); ended || err != nil {
		return done, err
	}
	var e lockedTurn
	err = s.transact(ctx,
		func(b *pgx.Batch) { e.queueReads(b, f.TurnID) },
		func(b *pgx.Batch) error {
			switch {
			case !e.exists:
				b.Queue(leavePlace, f.Tenant, f.TurnID) // the turn was refused after it was admitted
				done = agent.Finished{Output: f.Output}
				return s.queueClose(b, f, &done, "")
			case e.tenant != f.Tenant:
				return unknownTurn("", f.TurnID)
			case e.output != nil:
				done = agent.Finished{
					Output: *e.output, Next: e.next.Next, NextWorkflow: e.next.NextWorkflow, Logged: !s.cfg.SeparateLog,
				}
				return nil
			case e.differsFrom(f):
				s.cache.drop(f.TurnID)
				done = agent.Finished{Stale: true}
				return nil
			default:
				done, err = s.queueFinish(b, f, &e, job)
				return err
			}
		})
	if err != nil {
		return agent.Finished{}, err
	}
	return done, nil
}

// differsFrom reports whether a record has steps, but not as many as are stored.
func (e *lockedTurn) differsFrom(f *agent.FinishRecord) bool {
	n := len(f.Models) + len(f.Tools)
	return n > 0 && n != len(e.steps)
}

func (e *lockedTurn) queueReads(b *pgx.Batch, id agent.TurnID) {
	b.Queue(lockTurnsSession, id).QueryRow(scanOptional(&e.tenant, &e.holder))
	b.Queue(lockTurn, id).QueryRow(scanFound(&e.exists))
	b.Queue(readOutput, id).QueryRow(scanOptional(&e.output))
	b.Queue(readNext, id).QueryRow(scanOptional(&e.next.Next, &e.next.NextWorkflow))
	queueRows(b, &e.steps, scanStep, readOutline, id)
}

// queueFinish queues the writes of the first call for a turn.
func (s *TurnStore) queueFinish(b *pgx.Batch, f *agent.FinishRecord, e *lockedTurn, job uuid.UUID) (agent.Finished, error) {
	models, tools, err := splitSteps(e.steps)
	if err != nil {
		return agent.Finished{}, err
	}
	done := agent.Finished{Output: f.Output, Ended: true}
	values, err := finishValues(f, &done.Output, job, models, tools)
	if err != nil {
		return agent.Finished{}, err
	}
	if e.holder == f.TurnID {
		done.Next, done.NextWorkflow = e.next.Next, e.next.NextWorkflow
		e.holder = done.Next
	}
	if f.JobID != "" {
		b.Queue(yieldJobID, job, e.tenant, cleanText(f.JobID))
	}
	b.Queue(releaseLocked+finishTurn, append(values, e.holder)...)
	if done.Output.Status != agent.TurnCompleted { // a completed turn has no undecided approvals
		b.Queue(endApprovals, f.TurnID, agent.EndedBy, done.Output.StopReason == agent.StopApprovalRequired)
	}
	if done.Next != "" {
		b.Queue(handOver, done.Next)
	}
	return done, s.queueClose(b, f, &done, "") // last: it locks the stream
}

// queueClose queues the end of the stream. If result is not empty, the stream ends only if the result with that id is stored. The terminal
// event gets the stored output.
func (s *TurnStore) queueClose(b *pgx.Batch, f *agent.FinishRecord, done *agent.Finished, result string) error {
	if s.cfg.SeparateLog || len(f.Events) == 0 {
		return nil
	}
	done.Logged = true
	events := slices.Clone(f.Events)
	if last := &events[len(events)-1]; last.Terminal() {
		last.Result = &done.Output
	}
	if f.Stream == nil {
		text, err := encode(events)
		b.Queue(closeStream, f.TurnID, result, text)
		return err
	}
	done.Events = events
	bodies, err := stream.Number(f.Stream, events)
	b.Queue(endStream, f.TurnID, result, f.Stream.Owner, f.Stream.Generation, f.Stream.LastIndex, bodies)
	return err
}

// releaseLocked sets the next holder ($33) of the locked session of a turn ($1, of tenant $2). releaseHeld frees a session that is not
// locked, if the turn holds it, no turn waits behind it, and the turn has as many steps as the caller knows ($33). If another turn is queued
// meanwhile, that changes the session's row, so that PostgreSQL checks the conditions again.
const (
	releaseLocked = `
WITH session AS (
	UPDATE sessions s SET holder = nullif($33, ''), last_position = s.last_position + cardinality($4::text[])
	FROM turns t WHERE t.turn_id = $1` + ofTenant + ` AND s.tenant = t.tenant AND s.session_id = t.session_id
` + releasedSession
	releaseHeld = `
WITH session AS (
	UPDATE sessions s SET holder = NULL, last_position = s.last_position + cardinality($4::text[])
	FROM turns t WHERE t.turn_id = $1` + ofTenant + ` AND s.tenant = t.tenant AND s.session_id = t.session_id
		AND s.holder = t.turn_id AND s.last_seq = t.seq AND (SELECT count(*) FROM turn_steps p WHERE p.turn_id = $1) = $33::bigint
` + releasedSession
	releasedSession = `	RETURNING s.tenant, s.session_id, s.last_position, t.agent, t.created_at
)`
)

// finishTurn follows releaseLocked or releaseHeld. It ends the turn, and returns a row if it has.
const finishTurn = `, turn AS (
	UPDATE turns t SET state = $3, finished_at = clock_timestamp() FROM session WHERE t.turn_id = $1
), output AS (
	INSERT INTO messages (tenant, session_id, turn_id, position, role, blocks, size)
	SELECT s.tenant, s.session_id, $1, s.last_position - cardinality($4::text[]) + m.n, m.role, m.blocks::json, octet_length(m.blocks)
	FROM session s, unnest($4::text[], $5::text[]) WITH ORDINALITY AS m (role, blocks, n)
), calls AS (
	INSERT INTO tool_calls (turn_id, step, call_id, tenant, name, args, status, ref, duration_ms, dataset, cache_hit, created_at)
	SELECT $1, c.step, c.call_id, s.tenant, c.name, c.args::json, c.status, c.ref, c.duration, c.dataset::json, c.cache_hit,
		now() + c.n * interval '1 microsecond' -- the order of the calls
	FROM session s, unnest($6::integer[], $7::text[], $8::text[], $9::text[], $10::text[], $11::text[], $12::bigint[], $13::text[], $14::boolean[])
		WITH ORDINALITY AS c (step, call_id, name, args, status, ref, duration, dataset, cache_hit, n)
	ON CONFLICT DO NOTHING
), result AS (
	INSERT INTO agent_results (turn_id, tenant, session_id, created_at, completed_at, result_id, job_id, run_id, node_id, result_data, cas_id,
		status, error, tool_calls, tokens_used, cache_hit, execution_time_ms, output, job_key, cached_tokens, pipeline_cache_hit, answer, s3_ref)
	SELECT $1, s.tenant, s.session_id, s.created_at, clock_timestamp(), $15::uuid, $16::uuid, $17, coalesce(nullif($18, ''), s.agent), $19::jsonb,
		nullif($20, ''), $21, $22::jsonb, $23::jsonb, $24::integer, $25::boolean, $26::integer, $27::json, nullif($28, ''), $29::bigint, $30::boolean,
		$31::json, nullif($32, '')
	FROM session s
)
SELECT FROM session`

// finishValues returns the first 32 arguments of [finishTurn], and sets the reference of the output.
func finishValues(f *agent.FinishRecord, o *agent.AgentStepOutput, job uuid.UUID, models []agent.ModelStep, tools []agent.ToolStep) ([]any, error) {
	produced, err := encodeMessages(stepMessages(models, tools))
	if err != nil {
		return nil, err
	}
	rows := callRows(models, tools)
	calls, err := callColumns(rows)
	if err != nil {
		return nil, err
	}
	id := uuid.Must(uuid.NewV7())
	o.ResultRef = artifactScheme + id.String()
	named := *f
	named.RunID = cmp.Or(f.RunID, string(f.TurnID))
	result, err := resultColumns(&named, o, id, job, rows)
	if err != nil {
		return nil, err
	}
	values := []any{f.TurnID, f.Tenant, string(o.Status), produced.roles, produced.blocks}
	return slices.Concat(values, calls, result), nil
}

// finishAtOnce is [TurnStore.Finish] in one round trip, for a completed turn whose record has all its steps and that no turn waits behind.
// For any other turn it changes nothing and ended is false.
func (s *TurnStore) finishAtOnce(ctx context.Context, f *agent.FinishRecord, job uuid.UUID) (done agent.Finished, ended bool, err error) {
	if f.Output.Status != agent.TurnCompleted || f.JobID != "" || !isComplete(f.Models, f.Tools) {
		return agent.Finished{}, false, nil
	}
	done = agent.Finished{Output: f.Output, Ended: true}
	values, err := finishValues(f, &done.Output, job, f.Models, f.Tools)
	if err != nil {
		return agent.Finished{}, false, err
	}
	var b pgx.Batch
	b.Queue(releaseHeld+finishTurn, append(values, len(f.Models)+len(f.Tools))...).QueryRow(scanFound(&ended))
	if err := s.queueClose(&b, f, &done, strings.TrimPrefix(done.Output.ResultRef, artifactScheme)); err != nil {
		return agent.Finished{}, false, err
	}
	if err := s.send(ctx, &b); err != nil {
		return agent.Finished{}, false, markUncertain(err)
	}
	return done, ended, nil
}

// isComplete reports whether each call in the steps of a turn has a result, so that no step can follow.
func isComplete(models []agent.ModelStep, tools []agent.ToolStep) bool {
	unanswered := func(row callRow) bool { return row.status == callUnfinished }
	return len(models) > 0 && !slices.ContainsFunc(callRows(models, tools), unanswered)
}
