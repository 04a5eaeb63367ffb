package postgres

import (
	"context"
	"errors"
	"math"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"go.uber.org/zap"

	"github.com/turnstone-run/turnstone/agent"
)

const lockTurnsSession = `
SELECT s.tenant, s.session_id, coalesce(s.holder, ''), s.last_seq, s.last_position
FROM sessions s JOIN turns t USING (tenant, session_id)
WHERE t.turn_id = $1 FOR UPDATE OF s`

const lockTurn = `
SELECT state, agent, created_at FROM turns WHERE turn_id = $1 FOR UPDATE`

const readOutput = `
SELECT output FROM agent_results WHERE turn_id = $1`

// The turn that is, or will be, handed the session: the first in the queue, or a holder that has not begun again yet.
const readNext = `
SELECT n.turn_id, n.workflow_id FROM turns t JOIN sessions s USING (tenant, session_id)
	JOIN turns n ON n.tenant = t.tenant AND n.session_id = t.session_id
WHERE t.turn_id = $1 AND n.turn_id <> t.turn_id
	AND (n.state = 'queued' AND s.holder = t.turn_id OR n.turn_id = s.holder AND n.state = 'running' AND n.cursor IS NULL)
ORDER BY n.seq LIMIT 1`

const readOutline = stepOutline + ` WHERE s.turn_id = $1 ORDER BY s.step, s.call_id`

const endTurn = `
UPDATE turns SET state = $2, finished_at = clock_timestamp() WHERE turn_id = $1`

// What nobody decided of a turn that has ended is closed: the audit shows it, and nobody is asked any more.
const endApprovals = `
UPDATE approvals SET decision = 'reject', decided_by = $2, message = 'the turn ended first', decided_at = clock_timestamp()
WHERE turn_id = $1 AND decision IS NULL`

const handOver = `
UPDATE turns SET state = 'running', held_at = clock_timestamp() WHERE turn_id = $1`

const insertResult = `
INSERT INTO agent_results (result_id, job_id, run_id, node_id, result_data, cas_id, status, error, tool_calls, tokens_used, cache_hit,
	execution_time_ms, created_at, completed_at, turn_id, tenant, session_id, output)
VALUES ($1, $2, $3, $4, $5, nullif($6, ''), $7, $8, $9, $10, $11, $12, $13, clock_timestamp(), $14, $15, $16, $17)`

const insertCalls = `
INSERT INTO tool_calls (turn_id, step, call_id, tenant, name, args, status, ref, duration_ms)
SELECT $1, c.step, c.call_id, $2, c.name, c.args::json, c.status, c.ref, c.duration
FROM unnest($3::integer[], $4::text[], $5::text[], $6::text[], $7::text[], $8::text[], $9::bigint[])
	AS c (step, call_id, name, args, status, ref, duration)
ON CONFLICT DO NOTHING`

const closeStream = `
SELECT turnstone_close($1, $2::json)`

// ending is a turn under lock, about to end.
type ending struct {
	tenant    string
	sessionID agent.SessionID
	held      session
	known     bool
	state     string
	agentName string
	createdAt time.Time
	output    *agent.AgentStepOutput // it has ended already
	next      agent.Finished         // Next and NextWorkflow
	steps     []step
}

// Finish ends a turn in one transaction of two round trips (DESIGN §3, step 4): its steps join the transcript, its result and tool
// calls are stored, the session passes to the next turn in line, and the events end its stream. The output that it returns, and
// that the terminal event carries, is f.Output with ResultRef set.
//
// The first to finish a turn wins: everybody later gets the stored output, and again the next turn if that has not begun yet, since
// the news may not have reached it. A turn that never began has no row: then only the stream is closed. A turn of another
// tenant is [agent.CodeNotFound].
func (s *Store) Finish(ctx context.Context, f agent.FinishRecord) (agent.Finished, error) {
	const op = "finish turn"
	switch f.Output.Status {
	case agent.TurnCompleted, agent.TurnFailed, agent.TurnCancelled:
	default:
		return agent.Finished{}, &agent.Error{
			Code: agent.CodeInvalid, Op: op, Field: "status",
			Err: agent.Errorf(agent.CodeInvalid, "", "%q is no end of a turn", f.Output.Status),
		}
	}
	job := jobID(f.JobID, f.TurnID)
	done, err := s.finish(ctx, f, job)
	var pg *pgconn.PgError
	if errors.As(err, &pg) && pg.ConstraintName == "agent_results_job_id_key" {
		// Job ids come from outside. One that another turn has taken must not keep this one from ending.
		fresh := uuid.New()
		s.cfg.Logger.Warn("job id is taken, storing the result under another one",
			zap.String("turn_id", string(f.TurnID)), zap.Stringer("job_id", job), zap.Stringer("stored_as", fresh))
		done, err = s.finish(ctx, f, fresh)
	}
	return done, mapError(op, err)
}

func (s *Store) finish(ctx context.Context, f agent.FinishRecord, job uuid.UUID) (done agent.Finished, err error) {
	var e ending
	err = transact(ctx, s.pool,
		func(b *pgx.Batch) { e.queueReads(b, f.TurnID) },
		func(b *pgx.Batch) error {
			switch {
			case !e.known:
				done = agent.Finished{Output: f.Output}
				done.Logged, err = s.queueClose(b, &f, &done.Output)
				return err
			case e.tenant != f.Tenant:
				return unknownTurn("", f.TurnID)
			case e.output != nil:
				done = agent.Finished{
					Output: *e.output, Next: e.next.Next, NextWorkflow: e.next.NextWorkflow, Logged: !s.cfg.SeparateLog,
				}
				return nil
			default:
				done, err = s.queueFinish(b, &f, &e, job)
				return err
			}
		})
	if err != nil {
		return agent.Finished{}, err
	}
	return done, nil
}

func (e *ending) queueReads(b *pgx.Batch, id agent.TurnID) {
	b.Queue(lockTurnsSession, id).QueryRow(func(row pgx.Row) error {
		return optional(row.Scan(&e.tenant, &e.sessionID, &e.held.holder, &e.held.lastSeq, &e.held.lastPosition))
	})
	b.Queue(lockTurn, id).QueryRow(func(row pgx.Row) error {
		err := row.Scan(&e.state, &e.agentName, &e.createdAt)
		e.known = err == nil
		return optional(err)
	})
	b.Queue(readOutput, id).QueryRow(func(row pgx.Row) error { return optional(row.Scan(&e.output)) })
	b.Queue(readNext, id).QueryRow(func(row pgx.Row) error {
		return optional(row.Scan(&e.next.Next, &e.next.NextWorkflow))
	})
	b.Queue(readOutline, id).Query(func(rows pgx.Rows) (err error) {
		e.steps, err = pgx.CollectRows(rows, scanStep)
		return err
	})
}

// queueFinish queues the writes of the first to finish a turn.
func (s *Store) queueFinish(b *pgx.Batch, f *agent.FinishRecord, e *ending, job uuid.UUID) (agent.Finished, error) {
	models, tools, err := splitSteps(e.steps)
	if err != nil {
		return agent.Finished{}, err
	}
	produced, err := encodeMessages(promote(models, tools))
	if err != nil {
		return agent.Finished{}, err
	}
	done := agent.Finished{Output: f.Output}
	resultID := uuid.New()
	done.Output.ResultRef = artifactScheme + resultID.String()

	produced.queue(b, e.tenant, e.sessionID, f.TurnID, e.held.lastPosition)
	e.held.lastPosition += int64(len(produced.roles))
	if err := queueCalls(b, f.TurnID, e.tenant, callRows(models, tools)); err != nil {
		return agent.Finished{}, err
	}
	if err := queueResult(b, f, e, &done.Output, resultID, job); err != nil {
		return agent.Finished{}, err
	}
	b.Queue(endTurn, f.TurnID, string(done.Output.Status))
	if done.Output.Status != agent.TurnCompleted { // a completed turn waits for nobody
		b.Queue(endApprovals, f.TurnID, agent.EndedBy)
	}
	if e.held.holder == f.TurnID {
		done.Next, done.NextWorkflow = e.next.Next, e.next.NextWorkflow
		e.held.holder = done.Next
		if done.Next != "" {
			b.Queue(handOver, done.Next)
		}
	}
	b.Queue(advanceSession, e.tenant, e.sessionID, e.held.holder, e.held.lastSeq, e.held.lastPosition)
	done.Logged, err = s.queueClose(b, f, &done.Output) // last: it locks the stream
	return done, err
}

// queueClose queues the end of the stream; the terminal event carries the output as it is stored. It reports whether the events
// are, or were before, in the log.
func (s *Store) queueClose(b *pgx.Batch, f *agent.FinishRecord, output *agent.AgentStepOutput) (bool, error) {
	if s.cfg.SeparateLog || len(f.Events) == 0 {
		return false, nil
	}
	events := slices.Clone(f.Events)
	if last := &events[len(events)-1]; last.Terminal() {
		last.Result = output
	}
	text, err := encode(events)
	if err != nil {
		return false, err
	}
	b.Queue(closeStream, f.TurnID, text)
	return true, nil
}

func queueResult(b *pgx.Batch, f *agent.FinishRecord, e *ending, o *agent.AgentStepOutput, id, job uuid.UUID) error {
	data, err := encodeJSONB(f.Result)
	if err != nil {
		return err
	}
	failure, err := encodeJSONB(o.Error)
	if err != nil {
		return err
	}
	calls, err := encodeJSONB(o.ToolCalls)
	if err != nil {
		return err
	}
	output, err := encode(o)
	if err != nil {
		return err
	}
	runID, nodeID := f.RunID, f.NodeID
	if runID == "" {
		runID = string(f.TurnID)
	}
	if nodeID == "" {
		nodeID = e.agentName
	}
	b.Queue(insertResult, id, job, plain(runID), plain(nodeID), data, f.CASID, string(o.Status), failure, calls,
		clamp(o.Usage.InputTokens+o.Usage.OutputTokens), f.CacheHit, clamp(o.ExecutionTimeMS), e.createdAt, f.TurnID, e.tenant, e.sessionID,
		output)
	return nil
}

func queueCalls(b *pgx.Batch, id agent.TurnID, tenant string, rows []callRow) error {
	n := len(rows)
	if n == 0 {
		return nil
	}
	var (
		steps                    = make([]int, n)
		ids, names, states, refs = make([]string, n), make([]string, n), make([]string, n), make([]string, n)
		args                     = make([]*string, n)
		durations                = make([]int64, n)
	)
	for i, r := range rows {
		raw, err := encodeRaw(r.args)
		if err != nil {
			return err
		}
		if raw != nil {
			text := string(raw)
			args[i] = &text
		}
		steps[i], ids[i], names[i], states[i], refs[i] = r.step, plain(string(r.id)), plain(r.name), r.status, plain(r.ref)
		durations[i] = r.duration
	}
	b.Queue(insertCalls, id, tenant, steps, ids, names, args, states, refs, durations)
	return nil
}

// clamp fits a count into the seed's INTEGER columns.
func clamp(n int64) int32 {
	return int32(min(max(n, 0), math.MaxInt32))
}

// jobNamespace makes job ids of turn ids that are no UUIDs.
//
//nolint:gochecknoglobals // a constant in all but syntax
var jobNamespace = uuid.NewSHA1(uuid.NameSpaceURL, []byte("https://turnstone.run/job"))

// jobID is the job that a result belongs to: the one that was named, else the turn id; either as it is when it is a UUID, and as the
// UUIDv5 of it when not.
func jobID(job string, turn agent.TurnID) uuid.UUID {
	if job == "" {
		job = string(turn)
	}
	if id, err := uuid.Parse(job); err == nil {
		return id
	}
	return uuid.NewSHA1(jobNamespace, []byte(job))
}
