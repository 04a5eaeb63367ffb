package postgres

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype/zeronull"

	"github.com/turnstone-run/turnstone/agent"
)

// RunStore stores the runs of workflow definitions, and the steps of these runs.
type RunStore struct{ *database }

// Bounds of a run.
const (
	maxRunInput   = 1 << 20
	maxRunError   = 64 << 10
	maxStepOutput = 1 << 20
	maxShownSteps = 10_000
	maxShownBytes = 8 << 20 // of the outputs of these steps
)

const runColumns = `run_id, workflow_id, tenant, owner, tag, version, status, user_id, schedule, error, started_at, finished_at`

const insertRun = `
INSERT INTO workflow_runs (run_id, workflow_id, tenant, owner, tag, version, status, user_id, schedule, input, started_at)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, coalesce($11, clock_timestamp()))
ON CONFLICT DO NOTHING`

const readRun = `
SELECT input, ` + runColumns + ` FROM workflow_runs WHERE run_id = $1`

// BeginRun records a run once, by its id, as running, and returns what is recorded. If r.StartedAt is zero, it becomes the current time. The error is
// [agent.CodeConflict] with Field "run_id" if another definition or tenant has a run with that id.
func (s *RunStore) BeginRun(ctx context.Context, r agent.Run) (agent.Run, error) {
	if err := checkNames(nameField{"run_id", r.RunID, true}, nameField{"workflow_id", r.WorkflowID, false}, nameField{"tenant", r.Tenant, true},
		nameField{"workflow_tag", r.Tag, true}, nameField{"workflow_owner", r.Owner, true}, nameField{"user_id", r.UserID, false},
		nameField{"schedule", r.Schedule, false}); err != nil {
		return agent.Run{}, err
	}
	if len(r.Input) > maxRunInput {
		return agent.Run{}, agent.FieldErrorf(agent.CodeOverflow, "input", "is %d bytes, at most %d", len(r.Input), maxRunInput)
	}
	var (
		b      pgx.Batch
		stored agent.Run
	)
	b.Queue(insertRun, r.RunID, r.WorkflowID, r.Tenant, r.Owner, r.Tag, r.Version, agent.RunRunning, r.UserID, r.Schedule, rawColumn(r.Input),
		zeronull.Timestamptz(r.StartedAt))
	queueRow(&b, &stored, nil, pgx.RowToStructByNameLax[agent.Run], readRun, r.RunID)
	if err := s.send(ctx, &b); err != nil {
		return agent.Run{}, mapError("begin run", err)
	}
	if stored.Tenant != r.Tenant { // the error must not reveal that the other tenant has such a run
		return agent.Run{}, agent.FieldErrorf(agent.CodeConflict, "run_id", "cannot be used: choose another")
	}
	if stored.WorkflowKey != r.WorkflowKey {
		return agent.Run{}, agent.FieldErrorf(agent.CodeConflict, "run_id", "%q is taken", r.RunID)
	}
	return stored, nil
}

const finishRun = `
UPDATE workflow_runs SET status = $3, error = $4, finished_at = $5 WHERE run_id = $1 AND tenant = $2 AND status = 'running'`

const runExists = `
SELECT FROM workflow_runs WHERE run_id = $1 AND tenant = $2`

// FinishRun ends a run, unless it has ended. The error is [agent.CodeNotFound] with Field "run_id" if the tenant does not have the run.
func (s *RunStore) FinishRun(ctx context.Context, tenant, runID string, status agent.RunStatus, failure *agent.Failure, at time.Time) error {
	switch status {
	case agent.RunCompleted, agent.RunFailed, agent.RunCancelled:
	case agent.RunRunning:
		return agent.Invalid("status", "%q is no end", status)
	default:
		return agent.Invalid("status", "is unknown: %.100q", string(status))
	}
	text, err := encodeFailure(failure)
	if err != nil {
		return err
	}
	var b pgx.Batch
	b.Queue(finishRun, cleanText(runID), tenant, status, text, at)
	queueExists(&b, unknownRun(runID), runExists, cleanText(runID), tenant)
	return mapError("finish run", s.send(ctx, &b))
}

func unknownRun(runID string) error {
	return agent.FieldErrorf(agent.CodeNotFound, "run_id", "there is no run %q", runID)
}

// encodeFailure returns a failure as JSON. It shortens a failure that is too long. nil becomes NULL.
func encodeFailure(f *agent.Failure) ([]byte, error) {
	text, err := encodeOptional(f)
	if err != nil || len(text) <= maxRunError {
		return text, err
	}
	short := *f
	short.Message, short.Field, short.Faults = cleanText(f.Message[:min(len(f.Message), maxTextBytes)])+" …", "", nil
	return encode(short)
}

// listRuns returns one run more than the page may have, so that it is known whether there is a next page.
const listRuns = `
SELECT ` + runColumns + `
FROM workflow_runs
WHERE (tenant = $1 OR $1 = '*') AND ($2 = '' OR tag = $2) AND ($3 = '' OR owner = $3) AND ($4 = '' OR status = $4)
	AND (started_at, run_id) < ($5, $6)
ORDER BY started_at DESC, run_id DESC LIMIT $7::integer + 1`

// Runs lists runs, newest first, without their inputs and steps. The tenant "*" stands for all tenants. Next is empty on the last page.
func (s *RunStore) Runs(ctx context.Context, q agent.RunQuery) (page agent.RunPage, err error) {
	switch q.Status {
	case "", agent.RunRunning, agent.RunCompleted, agent.RunFailed, agent.RunCancelled:
	default:
		return page, agent.Invalid("status", "want running, completed, failed or cancelled, got %.100q", string(q.Status))
	}
	at, id, err := decodeTimePlace(q.Token)
	if err != nil {
		return page, err
	}
	size := pageSize(q.Size)
	// Filters may match many runs or few. This mode makes PostgreSQL plan for the actual arguments.
	page.Runs, err = queryRows(ctx, s.pool, pgx.RowToStructByNameLax[agent.Run], listRuns, pgx.QueryExecModeCacheDescribe, q.Tenant, cleanText(q.Tag),
		cleanText(q.Owner), string(q.Status), at, id, size)
	if err == nil {
		page.Runs, page.Next, err = cutPage(page.Runs, size, func(last *agent.Run) any { return timePlace{last.StartedAt.UnixMicro(), last.RunID} })
	}
	return page, mapError("list runs", err)
}

const readShownRun = readRun + ` AND (tenant = $2 OR $2 IN ('', '*'))`

const stepColumnsOfRun = `node_id, visit, type, status, outcome, output, ref, turn_id, error, started_at, finished_at`

// readRunSteps reads the newest steps, with the newest outputs up to the bound on bytes, and returns them oldest first.
const readRunSteps = `
SELECT node_id, visit, type, status, outcome, CASE WHEN total <= $4 THEN output END AS output, ref, turn_id, error, started_at, finished_at
FROM (
	SELECT ` + stepColumnsOfRun + `, sum(coalesce(octet_length(output::text), 0)) OVER (
		ORDER BY started_at DESC, visit DESC, node_id DESC ROWS UNBOUNDED PRECEDING) AS total
	FROM workflow_run_steps
	WHERE run_id = (SELECT run_id FROM workflow_runs WHERE run_id = $1 AND (tenant = $2 OR $2 IN ('', '*')))
	ORDER BY started_at DESC, visit DESC, node_id DESC LIMIT $3
) s ORDER BY started_at, visit, node_id`

// Run returns a run with its newest 10,000 finished steps, in the order in which they began, and the newest 8 MiB of their outputs. The tenants "" and "*"
// stand for all tenants. The error is [agent.CodeNotFound] with Field "run_id" if the tenant does not have the run.
func (s *RunStore) Run(ctx context.Context, tenant, runID string) (agent.Run, error) {
	var (
		r     agent.Run
		steps []agent.RunStep
	)
	err := s.snapshot(ctx, func(b *pgx.Batch) {
		queueRow(b, &r, unknownRun(runID), pgx.RowToStructByNameLax[agent.Run], readShownRun, cleanText(runID), tenant)
		queueRows(b, &steps, pgx.RowToStructByName[agent.RunStep], readRunSteps, cleanText(runID), tenant, maxShownSteps, maxShownBytes)
	})
	if err != nil {
		return agent.Run{}, mapError("load run", err)
	}
	r.Steps = steps
	return r, nil
}

const insertRunStep = `
INSERT INTO workflow_run_steps (run_id, ` + stepColumnsOfRun + `)
SELECT run_id, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13 FROM workflow_runs WHERE run_id = $1 AND tenant = $2
ON CONFLICT DO NOTHING`

const readRunStep = `
SELECT ` + stepColumnsOfRun + ` FROM workflow_run_steps WHERE run_id = $1 AND node_id = $2 AND visit = $3`

// SaveStep stores a finished visit of a node, unless it is stored, and returns what is stored. The error is [agent.CodeNotFound] with Field "run_id" if the
// tenant does not have the run.
func (s *RunStore) SaveStep(ctx context.Context, tenant, runID string, step agent.RunStep) (stored agent.RunStep, err error) {
	if err := checkNames(nameField{"run_id", runID, true}, nameField{"node_id", step.NodeID, true}, nameField{"type", step.Type, false},
		nameField{"outcome", step.Outcome, false}, nameField{"ref", step.Ref, false},
		nameField{"turn_id", string(step.TurnID), false}); err != nil {
		return stored, err
	}
	if len(step.Output) > maxStepOutput {
		return stored, agent.FieldErrorf(agent.CodeOverflow, "output", "is %d bytes, at most %d", len(step.Output), maxStepOutput)
	}
	failure, err := encodeFailure(step.Error)
	if err != nil {
		return stored, err
	}
	var b pgx.Batch
	b.Queue(insertRunStep, runID, tenant, step.NodeID, step.Visit, step.Type, step.Status, step.Outcome, rawColumn(step.Output), step.Ref, step.TurnID,
		failure, step.StartedAt, step.FinishedAt)
	queueExists(&b, unknownRun(runID), runExists, runID, tenant)
	queueRow(&b, &stored, nil, pgx.RowToStructByName[agent.RunStep], readRunStep, runID, step.NodeID, step.Visit)
	return stored, mapError("save step", s.send(ctx, &b))
}

// Step returns a visit of a node. ok is false if it has not finished.
func (s *RunStore) Step(ctx context.Context, runID, nodeID string, visit int) (step agent.RunStep, ok bool, err error) {
	found, err := queryRows(ctx, s.pool, pgx.RowToStructByName[agent.RunStep], readRunStep, cleanText(runID), cleanText(nodeID), visit)
	if err != nil || len(found) == 0 {
		return step, false, mapError("load step", err)
	}
	return found[0], true, nil
}

const markAttempt = `
INSERT INTO workflow_run_attempts (run_id, node_id, visit, at) VALUES ($1, $2, $3, clock_timestamp()) ON CONFLICT DO NOTHING`

// Attempt records that an effect is about to be attempted, and reports whether that was already recorded. The error is [agent.CodeNotFound] if there is no
// such run.
func (s *RunStore) Attempt(ctx context.Context, runID, nodeID string, visit int) (isRepeated bool, err error) {
	if err := checkNames(nameField{"run_id", runID, true}, nameField{"node_id", nodeID, true}); err != nil {
		return false, err
	}
	tag, err := s.pool.Exec(ctx, markAttempt, runID, nodeID, visit)
	return err == nil && tag.RowsAffected() == 0, mapError("mark attempt", err)
}
