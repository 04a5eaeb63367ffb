package postgres

import (
	"context"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/turnstone-run/turnstone/agent"
)

const (
	maxScheduleOutput = 16 << 10 // of a run
	// maxUnfinished bounds the unfinished runs of a schedule, because a run whose workflow was terminated never finishes.
	maxUnfinished = 1000
)

const scheduleRunColumns = `r.run_id, r.tenant, r.schedule, r.kind, r.workflow_id AS workflow, r.turn_id, r.session_id, r.status, r.output,
	r.result_ref, r.error, r.quiet, r.started_at, r.ended_at,
	(SELECT json_agg(json_build_object('position', n.position, 'kind', n.kind, 'target', n.target, 'status', n.status,
		'attempts', n.attempts, 'error', n.error, 'at', n.at) ORDER BY n.position) FROM schedule_notices n WHERE n.run_id = r.run_id) AS notices`

func scanScheduleRun(row pgx.CollectableRow) (agent.ScheduleRun, error) {
	r, err := pgx.RowToStructByName[agent.ScheduleRun](row)
	for i := range r.Notices {
		r.Notices[i].At = r.Notices[i].At.UTC()
	}
	return r, err
}

const insertScheduleRun = `
INSERT INTO schedule_runs (run_id, tenant, schedule, kind, workflow_id, status, started_at)
SELECT $1, tenant, name, kind, $4, 'running', clock_timestamp()
FROM schedules WHERE tenant = $2 AND name = $3
ON CONFLICT DO NOTHING`

const readScheduleRun = `
SELECT ` + scheduleRunColumns + ` FROM schedule_runs r WHERE r.run_id = $1 AND r.tenant = $2`

// BeginScheduleRun records a run once, by its id, as running, and returns the current schedule and the recorded run. The error is
// [agent.CodeNotFound] with Field "name" if the schedule is gone, and [agent.CodeConflict] if another schedule has a run with that id.
func (s *ScheduleStore) BeginScheduleRun(
	ctx context.Context, tenant, name, runID, workflowID string,
) (schedule agent.StoredSchedule, run agent.ScheduleRun, err error) {
	if err := checkNames(nameField{"tenant", tenant, true}, nameField{"name", name, true}, nameField{"run_id", runID, true},
		nameField{"workflow_id", workflowID, false}); err != nil {
		return schedule, run, err
	}
	var b pgx.Batch
	b.Queue(insertScheduleRun, runID, tenant, name, workflowID)
	queueRow(&b, &schedule, unknownSchedule(name), scanSchedule, readSchedule, tenant, name)
	queueRow(&b, &run, agent.FieldErrorf(agent.CodeConflict, "run_id", "is taken"), scanScheduleRun, readScheduleRun+` AND r.schedule = $3`,
		runID, tenant, name)
	return schedule, run, mapError("begin run of schedule", s.send(ctx, &b))
}

// ScheduleRun returns a run with its notices. The error is [agent.CodeNotFound] if the tenant does not have it.
func (s *ScheduleStore) ScheduleRun(ctx context.Context, tenant, runID string) (agent.ScheduleRun, error) {
	unknown := agent.FieldErrorf(agent.CodeNotFound, "run_id", "there is no run %.140q", runID)
	r, err := queryRow(ctx, s.pool, unknown, scanScheduleRun, readScheduleRun, cleanText(runID), tenant)
	return r, mapError("read run of schedule", err)
}

const countUnfinished = `
SELECT count(*) FROM schedule_runs WHERE tenant = $1 AND schedule = $2 AND ended_at IS NULL AND started_at > clock_timestamp() - interval '1 day'`

// UnfinishedRuns counts the runs of a schedule that began within a day and have not ended.
func (s *ScheduleStore) UnfinishedRuns(ctx context.Context, tenant, name string) (int, error) {
	var n int
	err := s.pool.QueryRow(ctx, countUnfinished, tenant, cleanText(name)).Scan(&n)
	return n, mapError("count runs of schedule", err)
}

const listUnfinished = `
SELECT ` + scheduleRunColumns + ` FROM schedule_runs r WHERE r.ended_at IS NULL AND r.started_at < clock_timestamp() - $1::interval
ORDER BY r.started_at DESC LIMIT $2`

// LongRuns lists unfinished runs of all tenants that began at least minDuration ago, newest first.
func (s *ScheduleStore) LongRuns(ctx context.Context, minDuration time.Duration, limit int) ([]agent.ScheduleRun, error) {
	found, err := queryRows(ctx, s.pool, scanScheduleRun, listUnfinished, minDuration, limit)
	return found, mapError("list unfinished runs of schedules", err)
}

const bindScheduleRun = `
UPDATE schedule_runs SET turn_id = $3, session_id = $4 WHERE run_id = $1 AND tenant = $2`

// BindScheduleRun records the turn and the session of a run. It does nothing if the run is gone.
func (s *ScheduleStore) BindScheduleRun(ctx context.Context, tenant, runID string, turn agent.TurnID, session agent.SessionID) error {
	_, err := s.pool.Exec(ctx, bindScheduleRun, runID, tenant, turn, session)
	return mapError("bind run of schedule", err)
}

const lockScheduleRun = `
SELECT schedule, session_id, ended_at IS NOT NULL FROM schedule_runs WHERE run_id = $1 AND tenant = $2 FOR UPDATE`

// readScheduleBefore reads the last run that had an answer. Skipped and cancelled runs have none.
const readScheduleBefore = `
SELECT b.status, b.digest FROM schedule_runs r JOIN schedule_runs b ON b.tenant = r.tenant AND b.schedule = r.schedule
WHERE r.run_id = $1 AND r.tenant = $2 AND b.run_id <> r.run_id AND b.ended_at IS NOT NULL AND b.status NOT IN ('skipped', 'cancelled')
ORDER BY b.ended_at DESC, b.run_id DESC LIMIT 1`

const readNotices = `
SELECT n.position, n.kind, n.target, n.status, n.attempts, n.error, n.at
FROM schedule_notices n JOIN schedule_runs r USING (run_id) WHERE r.run_id = $1 AND r.tenant = $2 ORDER BY n.position`

const endScheduleRun = `
UPDATE schedule_runs SET status = $2, output = $3, digest = $4, result_ref = $5, error = $6, quiet = $7, ended_at = $8 WHERE run_id = $1`

const insertNotice = `
INSERT INTO schedule_notices (run_id, position, kind, target, status, attempts, at) VALUES ($1, $2, $3, $4, 'pending', 0, $5)`

const retireSession = `
UPDATE sessions SET inactive_at = clock_timestamp() WHERE tenant = $1 AND session_id = $2`

const pruneScheduleRuns = `
DELETE FROM schedule_runs WHERE run_id IN (
	(SELECT run_id FROM schedule_runs WHERE tenant = $1 AND schedule = $2 AND ended_at IS NOT NULL ORDER BY started_at DESC, run_id DESC OFFSET $3)
	UNION ALL
	(SELECT run_id FROM schedule_runs WHERE tenant = $1 AND schedule = $2 AND ended_at IS NULL ORDER BY started_at DESC, run_id DESC OFFSET $4))`

// FinishScheduleRun ends a run, marks its session inactive and removes the oldest runs of its schedule, in one transaction. Only the first call for a run
// changes anything. It returns the notices that still have to be sent, which are none if the run is gone.
func (s *ScheduleStore) FinishScheduleRun(ctx context.Context, e agent.ScheduleEnd) ([]agent.ScheduleNotice, error) {
	failure, err := encodeFailure(e.Error)
	if err != nil {
		return nil, err
	}
	var (
		schedule, session          string
		hasEnded                   bool
		statusBefore, digestBefore string
		notices                    []agent.ScheduleNotice
	)
	err = s.transact(ctx, func(b *pgx.Batch) {
		b.Queue(lockScheduleRun, e.RunID, e.Tenant).QueryRow(scanOptional(&schedule, &session, &hasEnded))
		b.Queue(readScheduleBefore, e.RunID, e.Tenant).QueryRow(scanOptional(&statusBefore, &digestBefore))
		queueRows(b, &notices, pgx.RowToStructByName[agent.ScheduleNotice], readNotices, e.RunID, e.Tenant)
	}, func(b *pgx.Batch) error {
		if schedule == "" || hasEnded {
			return nil
		}
		notices = e.Notices
		if statusBefore != e.Status || digestBefore != e.Digest {
			notices = slices.Concat(notices, e.IfChanged)
		}
		output := cleanText(e.Output[:min(len(e.Output), maxScheduleOutput)])
		b.Queue(endScheduleRun, e.RunID, e.Status, output, e.Digest, cleanText(e.ResultRef), failure, e.Quiet, e.EndedAt)
		for i := range notices {
			notices[i].Status, notices[i].At = agent.NoticePending, e.EndedAt
			b.Queue(insertNotice, e.RunID, notices[i].Position, notices[i].Kind, cleanText(notices[i].Target), e.EndedAt)
		}
		if session != "" {
			b.Queue(retireSession, e.Tenant, session)
		}
		if e.Keep > 0 {
			b.Queue(pruneScheduleRuns, e.Tenant, schedule, e.Keep, maxUnfinished)
		}
		return nil
	})
	if err != nil {
		return nil, mapError("finish run of schedule", err)
	}
	isSent := func(n agent.ScheduleNotice) bool { return n.Status == agent.NoticeSent }
	return slices.DeleteFunc(slices.Clone(notices), isSent), nil
}

const noteNotice = `
UPDATE schedule_notices n SET status = $4, attempts = greatest(n.attempts, $5), error = $6, at = clock_timestamp()
FROM schedule_runs r WHERE r.run_id = n.run_id AND n.run_id = $1 AND r.tenant = $2 AND n.position = $3 AND n.status <> 'sent'`

// NoteNotice records the outcome of an attempt to send a notice. A notice that was sent keeps that status. NoteNotice does nothing if the run is gone.
func (s *ScheduleStore) NoteNotice(ctx context.Context, tenant, runID string, n agent.ScheduleNotice) error {
	failure, err := encodeFailure(n.Error)
	if err != nil {
		return err
	}
	_, err = s.pool.Exec(ctx, noteNotice, runID, tenant, n.Position, n.Status, n.Attempts, failure)
	return mapError("note notice", err)
}

const listScheduleRuns = `
SELECT ` + scheduleRunColumns + ` FROM schedule_runs r
WHERE r.tenant = $1 AND r.schedule = $2 AND (r.started_at, r.run_id) < ($3, $4)
ORDER BY r.started_at DESC, r.run_id DESC LIMIT $5::integer + 1`

// ScheduleRuns lists the runs of a schedule, newest first. Next is empty on the last page.
func (s *ScheduleStore) ScheduleRuns(ctx context.Context, tenant, name string, p agent.Page) (page agent.ScheduleRunPage, err error) {
	at, id, err := decodeTimePlace(p.Token)
	if err != nil {
		return page, err
	}
	size := pageSize(p.Size)
	page.Runs, err = queryRows(ctx, s.pool, scanScheduleRun, listScheduleRuns, tenant, cleanText(name), at, id, size)
	if err == nil {
		page.Runs, page.Next, err = cutPage(page.Runs, size, func(last *agent.ScheduleRun) any {
			return timePlace{last.StartedAt.UnixMicro(), last.RunID}
		})
	}
	return page, mapError("list runs of schedule", err)
}
