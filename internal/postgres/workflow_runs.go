package postgres

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/turnstone-run/turnstone/agent"
)

// Bounds of a run.
const (
	maxRunInput   = 1 << 20
	maxRunError   = 64 << 10
	maxRunSteps   = 10_000  // that are shown
	maxShownSteps = 8 << 20 // bytes of their outputs
)

const runColumns = `run_id, workflow_id, tenant, owner, tag, version, status, user_id, schedule, error, started_at, finished_at`

func runInto(r *agent.Run) []any {
	return []any{
		&r.RunID, &r.WorkflowID, &r.Tenant, &r.Owner, &r.Tag, &r.Version, &r.Status, &r.UserID, &r.Schedule, &r.Error, &r.StartedAt, &r.FinishedAt,
	}
}

func scanRun(row pgx.CollectableRow) (r agent.Run, err error) {
	err = row.Scan(runInto(&r)...)
	inUTC(&r.StartedAt, r.FinishedAt)
	return r, err
}

func inUTC(times ...*time.Time) {
	for _, t := range times {
		if t != nil {
			*t = t.UTC()
		}
	}
}

const insertRun = `
INSERT INTO workflow_runs (run_id, workflow_id, tenant, owner, tag, version, status, user_id, schedule, input, started_at)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, coalesce($11, clock_timestamp()))
ON CONFLICT DO NOTHING`

const readRun = `
SELECT input, ` + runColumns + ` FROM workflow_runs WHERE run_id = $1`

// BeginRun records a run once, by its id, as running, and answers what is recorded. Without StartedAt it began now. [agent.CodeConflict]
// with Field "run_id" when another definition, or tenant, has a run of that id. One round trip.
func (s *Store) BeginRun(ctx context.Context, r agent.Run) (agent.Run, error) {
	const op = "begin run"
	if err := checkNames(named{"run_id", r.RunID, true}, named{"workflow_id", r.WorkflowID, false}, named{"tenant", r.Tenant, true},
		named{"workflow_tag", r.Tag, true}, named{"workflow_owner", r.Owner, true}, named{"user_id", r.UserID, false},
		named{"schedule", r.Schedule, false}); err != nil {
		return agent.Run{}, err
	}
	if len(r.Input) > maxRunInput {
		return agent.Run{}, agent.FieldErrorf(agent.CodeOverflow, "input", "is %d bytes, at most %d", len(r.Input), maxRunInput)
	}
	var startedAt *time.Time
	if !r.StartedAt.IsZero() {
		startedAt = &r.StartedAt
	}
	var (
		b    pgx.Batch
		kept agent.Run
	)
	b.Queue(insertRun, r.RunID, r.WorkflowID, r.Tenant, r.Owner, r.Tag, r.Version, agent.RunRunning, r.UserID, r.Schedule, verbatim(r.Input), startedAt)
	b.Queue(readRun, r.RunID).QueryRow(func(row pgx.Row) error {
		return row.Scan(append([]any{(*[]byte)(&kept.Input)}, runInto(&kept)...)...)
	})
	if err := s.pool.SendBatch(ctx, &b).Close(); err != nil {
		return agent.Run{}, mapError(op, err)
	}
	if kept.Tenant != r.Tenant { // of which nothing is said
		return agent.Run{}, agent.FieldErrorf(agent.CodeConflict, "run_id", "cannot be used: choose another")
	}
	if kept.WorkflowKey != r.WorkflowKey {
		return agent.Run{}, agent.FieldErrorf(agent.CodeConflict, "run_id", "%q is taken", r.RunID)
	}
	inUTC(&kept.StartedAt, kept.FinishedAt)
	return kept, nil
}

const finishRun = `
UPDATE workflow_runs SET status = $3, error = $4, finished_at = $5 WHERE run_id = $1 AND tenant = $2 AND status = 'running'`

const runExists = `
SELECT FROM workflow_runs WHERE run_id = $1 AND tenant = $2`

// FinishRun ends a run; the first stands. [agent.CodeNotFound] with Field "run_id" when the tenant has none of that id. One round trip.
func (s *Store) FinishRun(ctx context.Context, tenant, runID string, status agent.RunStatus, failure *agent.Failure, at time.Time) error {
	const op = "finish run"
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
	b.Queue(finishRun, plain(runID), tenant, status, text, at)
	b.Queue(runExists, plain(runID), tenant).QueryRow(func(row pgx.Row) error { return knownRun(row.Scan(), runID) })
	return mapError(op, s.pool.SendBatch(ctx, &b).Close())
}

// encodeFailure is the failure as JSON, without what makes it too long.
func encodeFailure(f *agent.Failure) ([]byte, error) {
	text, err := encodeOptional(f)
	if err != nil || len(text) <= maxRunError {
		return text, err
	}
	short := *f
	short.Message, short.Field, short.Faults = plain(f.Message[:min(len(f.Message), maxTextBytes)])+" …", "", nil
	return encode(short)
}

// listRuns looks at one more run than the page may have, to know whether there are more.
const listRuns = `
SELECT ` + runColumns + `
FROM workflow_runs
WHERE (tenant = $1 OR $1 = '*') AND ($2 = '' OR tag = $2) AND ($3 = '' OR owner = $3) AND ($4 = '' OR status = $4)
	AND (started_at, run_id) < ($5, $6)
ORDER BY started_at DESC, run_id DESC LIMIT $7::integer + 1`

// runPlace is the place of a run in a list.
type runPlace struct {
	StartedAt int64  `json:"s"` // microseconds since 1970
	RunID     string `json:"r"`
}

func (p *runPlace) valid() bool {
	return 0 < p.StartedAt && p.StartedAt <= maxTokenTime && checkNames(named{value: p.RunID}) == nil
}

// Runs lists runs, newest first, without their inputs and steps; the tenant "*" is all of them. Next is empty on the last page. One query.
func (s *Store) Runs(ctx context.Context, q agent.RunQuery) (agent.RunPage, error) {
	const op = "list runs"
	switch q.Status {
	case "", agent.RunRunning, agent.RunCompleted, agent.RunFailed, agent.RunCancelled:
	default:
		return agent.RunPage{}, agent.Invalid("status", "want running, completed, failed or cancelled, got %.100q", string(q.Status))
	}
	from := runPlace{StartedAt: maxTokenTime}
	if err := readPageToken(q.Token, &from, (*runPlace).valid); err != nil {
		return agent.RunPage{}, err
	}
	limit := pageSize(q.Size)
	// The filters differ so much in what they leave that no plan suits all of them: this mode makes one for the values at hand.
	rows, err := s.pool.Query(ctx, listRuns, pgx.QueryExecModeCacheDescribe, q.Tenant, plain(q.Tag), plain(q.Owner), string(q.Status),
		time.UnixMicro(from.StartedAt), from.RunID, limit)
	if err != nil {
		return agent.RunPage{}, mapError(op, err)
	}
	var page agent.RunPage
	page.Runs, err = pgx.CollectRows(rows, scanRun)
	if err == nil && len(page.Runs) > limit {
		page.Runs = page.Runs[:limit]
		last := &page.Runs[limit-1]
		page.Next, err = pageToken(runPlace{last.StartedAt.UnixMicro(), last.RunID})
	}
	if err != nil {
		return agent.RunPage{}, mapError(op, err)
	}
	return page, nil
}
