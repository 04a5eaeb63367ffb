package postgres

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"

	"github.com/turnstone-run/turnstone/agent"
)

const maxStepOutput = 1 << 20

const readShownRun = `
SELECT input, ` + runColumns + ` FROM workflow_runs WHERE run_id = $1 AND (tenant = $2 OR $2 IN ('', '*'))`

const visitColumns = `node_id, visit, type, status, outcome, output, ref, turn_id, error, started_at, finished_at`

// Of many visits the newest are shown, of large outputs those of the newest.
const readRunSteps = `
SELECT node_id, visit, type, status, outcome, CASE WHEN total <= $4 THEN output END, ref, turn_id, error, started_at, finished_at
FROM (
	SELECT ` + visitColumns + `, sum(coalesce(octet_length(output::text), 0)) OVER (
		ORDER BY started_at DESC, visit DESC, node_id DESC ROWS UNBOUNDED PRECEDING) AS total
	FROM workflow_run_steps
	WHERE run_id = (SELECT run_id FROM workflow_runs WHERE run_id = $1 AND (tenant = $2 OR $2 IN ('', '*')))
	ORDER BY started_at DESC, visit DESC, node_id DESC LIMIT $3
) s ORDER BY started_at, visit, node_id`

func scanRunStep(row pgx.CollectableRow) (s agent.RunStep, err error) {
	err = row.Scan(&s.NodeID, &s.Visit, &s.Type, &s.Status, &s.Outcome, (*[]byte)(&s.Output), &s.Ref, &s.TurnID, &s.Error, &s.StartedAt, &s.FinishedAt)
	inUTC(&s.StartedAt, s.FinishedAt)
	return s, err
}

// Run returns a run with its finished visits in the order in which they began: the newest 10,000, and outputs of at most 8 MiB, those of
// the newest. The tenant "" or "*" is any. [agent.CodeNotFound] with Field "run_id". One round trip.
func (s *Store) Run(ctx context.Context, tenant, runID string) (agent.Run, error) {
	var r agent.Run
	err := snapshot(ctx, s.pool, func(b *pgx.Batch) {
		b.Queue(readShownRun, plain(runID), tenant).QueryRow(func(row pgx.Row) error {
			return knownRun(row.Scan(append([]any{(*[]byte)(&r.Input)}, runInto(&r)...)...), runID)
		})
		b.Queue(readRunSteps, plain(runID), tenant, maxRunSteps, maxShownSteps).Query(func(rows pgx.Rows) (err error) {
			r.Steps, err = pgx.CollectRows(rows, scanRunStep)
			return err
		})
	})
	if err != nil {
		return agent.Run{}, mapError("load run", err)
	}
	inUTC(&r.StartedAt, r.FinishedAt)
	return r, nil
}

func knownRun(err error, runID string) error {
	if errors.Is(err, pgx.ErrNoRows) {
		return agent.FieldErrorf(agent.CodeNotFound, "run_id", "there is no run %q", runID)
	}
	return err
}

const insertRunStep = `
INSERT INTO workflow_run_steps (run_id, ` + visitColumns + `)
SELECT run_id, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13 FROM workflow_runs WHERE run_id = $1 AND tenant = $2
ON CONFLICT DO NOTHING`

const readRunStep = `
SELECT ` + visitColumns + ` FROM workflow_run_steps WHERE run_id = $1 AND node_id = $2 AND visit = $3`

// SaveStep stores a finished visit of a node, and answers what is stored: the first stands. [agent.CodeNotFound] with Field "run_id" when
// the tenant has no such run. One round trip.
func (s *Store) SaveStep(ctx context.Context, tenant, runID string, step agent.RunStep) (agent.RunStep, error) {
	const op = "save step"
	if err := checkNames(named{"run_id", runID, true}, named{"node_id", step.NodeID, true}, named{"type", step.Type, false},
		named{"outcome", step.Outcome, false}, named{"ref", step.Ref, false}, named{"turn_id", string(step.TurnID), false}); err != nil {
		return agent.RunStep{}, err
	}
	if len(step.Output) > maxStepOutput {
		return agent.RunStep{}, agent.FieldErrorf(agent.CodeOverflow, "output", "is %d bytes, at most %d", len(step.Output), maxStepOutput)
	}
	failure, err := encodeFailure(step.Error)
	if err != nil {
		return agent.RunStep{}, err
	}
	var (
		b    pgx.Batch
		kept agent.RunStep
	)
	b.Queue(insertRunStep, runID, tenant, step.NodeID, step.Visit, step.Type, step.Status, step.Outcome, verbatim(step.Output), step.Ref, step.TurnID, failure,
		step.StartedAt, step.FinishedAt)
	b.Queue(runExists, runID, tenant).QueryRow(func(row pgx.Row) error { return knownRun(row.Scan(), runID) })
	b.Queue(readRunStep, runID, step.NodeID, step.Visit).Query(func(rows pgx.Rows) (err error) {
		kept, err = pgx.CollectExactlyOneRow(rows, scanRunStep)
		return err
	})
	if err := s.pool.SendBatch(ctx, &b).Close(); err != nil {
		return agent.RunStep{}, mapError(op, err)
	}
	return kept, nil
}

// Step returns one visit, ok false when it has not finished.
func (s *Store) Step(ctx context.Context, runID, nodeID string, visit int) (step agent.RunStep, ok bool, err error) {
	rows, err := s.pool.Query(ctx, readRunStep, plain(runID), plain(nodeID), visit)
	if err != nil {
		return agent.RunStep{}, false, mapError("load step", err)
	}
	step, err = pgx.CollectExactlyOneRow(rows, scanRunStep)
	if errors.Is(err, pgx.ErrNoRows) {
		return agent.RunStep{}, false, nil
	}
	return step, err == nil, mapError("load step", err)
}

const markAttempt = `
INSERT INTO workflow_run_attempts (run_id, node_id, visit, at) VALUES ($1, $2, $3, clock_timestamp()) ON CONFLICT DO NOTHING`

// Attempt marks that an effect is about to be tried and says whether it was marked before. [agent.CodeNotFound] when there is no such run.
func (s *Store) Attempt(ctx context.Context, runID, nodeID string, visit int) (before bool, err error) {
	if err := checkNames(named{"run_id", runID, true}, named{"node_id", nodeID, true}); err != nil {
		return false, err
	}
	tag, err := s.pool.Exec(ctx, markAttempt, runID, nodeID, visit)
	return err == nil && tag.RowsAffected() == 0, mapError("mark attempt", err)
}
