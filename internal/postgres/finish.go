package postgres

import (
	"context"
	"errors"
	"slices"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"go.uber.org/zap"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/stream"
)

const lockTurnsSession = `
SELECT s.tenant, s.session_id, coalesce(s.holder, '') FROM sessions s JOIN turns t USING (tenant, session_id)
WHERE t.turn_id = $1 FOR UPDATE OF s`

const lockTurn = `
SELECT state FROM turns WHERE turn_id = $1 FOR UPDATE`

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

// What nobody decided of a turn that has ended is closed: the audit shows it, and nobody is asked any more. The approvals for want of which
// it ended stay open.
const endApprovals = `
UPDATE approvals SET decision = 'reject', decided_by = $2, message = 'the turn ended first', decided_at = clock_timestamp()
WHERE turn_id = $1 AND decision IS NULL AND NOT (refused AND $3)`

const handOver = `
UPDATE turns SET state = 'running', held_at = clock_timestamp() WHERE turn_id = $1`

// How a stream ends: behind an index that its owner names, or wherever it stands. With a result's id only if that is stored.
const (
	endStream   = `SELECT turnstone_end($1, $3, $4, $5, $6)` + ifStored
	closeStream = `SELECT turnstone_close($1, $3::json)` + ifStored
	ifStored    = ` WHERE $2 = '' OR EXISTS (SELECT FROM agent_results WHERE result_id = nullif($2, '')::uuid)`
)

// ending is a turn under lock, about to end.
type ending struct {
	tenant    string
	sessionID agent.SessionID
	holder    agent.TurnID // of its session
	known     bool
	state     string
	output    *agent.AgentStepOutput // it has ended already
	next      agent.Finished         // Next and NextWorkflow
	steps     []step
}

// Finish ends a turn in one transaction: its steps join the transcript, its result and tool calls are stored, the session
// passes to the next turn in line, and the events end its stream. The output that it returns, and that the terminal event carries, is f.Output
// with ResultRef set. That is one round trip for a completed turn that brings its steps and has nobody behind it, else two, one more if it
// looked like the former.
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
		if pg, taken := errors.AsType[*pgconn.PgError](err); !taken || pg.ConstraintName != "agent_results_job_id_key" {
			break
		}
	}
	if err == nil {
		s.kept.drop(f.TurnID)
	}
	return done, mapError(op, err)
}

func (s *Store) finish(ctx context.Context, f *agent.FinishRecord, job uuid.UUID) (done agent.Finished, err error) {
	if done, ended, err := s.finishAtOnce(ctx, f, job); ended || err != nil {
		return done, err
	}
	var e ending
	err = transact(ctx, s.pool,
		func(b *pgx.Batch) { e.queueReads(b, f.TurnID) },
		func(b *pgx.Batch) error {
			switch {
			case !e.known:
				b.Queue(leavePlace, f.Tenant, f.TurnID) // refused after it was admitted
				done = agent.Finished{Output: f.Output}
				return s.queueClose(b, f, &done, "")
			case e.tenant != f.Tenant:
				return unknownTurn("", f.TurnID)
			case e.output != nil:
				done = agent.Finished{
					Output: *e.output, Next: e.next.Next, NextWorkflow: e.next.NextWorkflow, Logged: !s.cfg.SeparateLog,
				}
				return nil
			case e.lacks(f):
				s.kept.drop(f.TurnID)
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

// lacks reports whether a record that brings steps brings others than there are.
func (e *ending) lacks(f *agent.FinishRecord) bool {
	brought := len(f.Models) + len(f.Tools)
	return brought > 0 && brought != len(e.steps)
}

func (e *ending) queueReads(b *pgx.Batch, id agent.TurnID) {
	b.Queue(lockTurnsSession, id).QueryRow(func(row pgx.Row) error {
		return optional(row.Scan(&e.tenant, &e.sessionID, &e.holder))
	})
	b.Queue(lockTurn, id).QueryRow(func(row pgx.Row) error {
		err := row.Scan(&e.state)
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
		b.Queue(yieldJobID, job, e.tenant, plain(f.JobID))
	}
	b.Queue(releaseLocked+finishTurn, append(values, e.holder)...)
	if done.Output.Status != agent.TurnCompleted { // a completed turn waits for nobody
		b.Queue(endApprovals, f.TurnID, agent.EndedBy, done.Output.StopReason == agent.StopApprovalRequired)
	}
	if done.Next != "" {
		b.Queue(handOver, done.Next)
	}
	return done, s.queueClose(b, f, &done, "") // last: it locks the stream
}

// queueClose queues the end of the stream, for the case that a result, if any is given, is stored. The terminal event carries the output as it is
// stored.
func (s *Store) queueClose(b *pgx.Batch, f *agent.FinishRecord, done *agent.Finished, result string) error {
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
