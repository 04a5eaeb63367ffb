package postgres

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/turnstone-run/turnstone/agent"
)

const (
	maxScheduleOutput = 16 << 10 // of a run
	// maxUnfinished bounds the runs of a schedule that have no end: those whose workflow was terminated never get one.
	maxUnfinished = 1000
)

const scheduleRunColumns = `r.run_id, r.tenant, r.schedule, r.kind, r.workflow_id, r.turn_id, r.session_id, r.status, r.output, r.result_ref,
	r.error, r.quiet, r.started_at, r.ended_at,
	(SELECT json_agg(json_build_object('position', n.position, 'kind', n.kind, 'target', n.target, 'status', n.status,
		'attempts', n.attempts, 'error', n.error, 'at', n.at) ORDER BY n.position) FROM schedule_notices n WHERE n.run_id = r.run_id)`

func scanScheduleRun(row pgx.CollectableRow) (r agent.ScheduleRun, err error) {
	err = row.Scan(&r.RunID, &r.Tenant, &r.Schedule, &r.Kind, &r.Workflow, &r.TurnID, &r.SessionID, &r.Status, &r.Output, &r.ResultRef,
		&r.Error, &r.Quiet, &r.StartedAt, &r.EndedAt, &r.Notices)
	inUTC(&r.StartedAt, r.EndedAt)
	for i := range r.Notices {
		inUTC(&r.Notices[i].At)
	}
	return r, err
}

const insertScheduleRun = `
INSERT INTO schedule_runs (run_id, tenant, schedule, kind, workflow_id, status, started_at)
SELECT $1, tenant, name, kind, $4, 'running', clock_timestamp()
FROM schedules WHERE tenant = $2 AND name = $3
ON CONFLICT DO NOTHING`

const readScheduleRun = `
SELECT ` + scheduleRunColumns + ` FROM schedule_runs r WHERE r.run_id = $1 AND r.tenant = $2 AND r.schedule = $3`

// BeginScheduleRun records a run once, by its id, as running, and answers the schedule as it is now and what is recorded.
// [agent.CodeNotFound] with Field "name" when there is no such schedule any more; [agent.CodeConflict] when another one has a run of
// that id. One round trip.
func (s *Store) BeginScheduleRun(ctx context.Context, tenant, name, runID, workflowID string) (agent.StoredSchedule, agent.ScheduleRun, error) {
	const op = "begin run of schedule"
	if err := checkNames(named{"tenant", tenant, true}, named{"name", name, true}, named{"run_id", runID, true},
		named{"workflow_id", workflowID, false}); err != nil {
		return agent.StoredSchedule{}, agent.ScheduleRun{}, err
	}
	var (
		b        pgx.Batch
		schedule agent.StoredSchedule
		run      agent.ScheduleRun
	)
	b.Queue(insertScheduleRun, runID, tenant, name, workflowID)
	b.Queue(readSchedule, tenant, name).Query(func(rows pgx.Rows) (err error) {
		if schedule, err = pgx.CollectExactlyOneRow(rows, scanSchedule); errors.Is(err, pgx.ErrNoRows) {
			err = unknownSchedule(name)
		}
		return err
	})
	b.Queue(readScheduleRun, runID, tenant, name).Query(func(rows pgx.Rows) (err error) {
		if run, err = pgx.CollectExactlyOneRow(rows, scanScheduleRun); errors.Is(err, pgx.ErrNoRows) {
			err = agent.FieldErrorf(agent.CodeConflict, "run_id", "is taken")
		}
		return err
	})
	return schedule, run, mapError(op, s.pool.SendBatch(ctx, &b).Close())
}

// ScheduleRun returns a run with its notices. [agent.CodeNotFound] when the tenant has none of that id, or it was forgotten.
func (s *Store) ScheduleRun(ctx context.Context, tenant, runID string) (agent.ScheduleRun, error) {
	const op = "read run of schedule"
	rows, err := s.pool.Query(ctx, `SELECT `+scheduleRunColumns+` FROM schedule_runs r WHERE r.run_id = $1 AND r.tenant = $2`, plain(runID), tenant)
	if err != nil {
		return agent.ScheduleRun{}, mapError(op, err)
	}
	r, err := pgx.CollectExactlyOneRow(rows, scanScheduleRun)
	if errors.Is(err, pgx.ErrNoRows) {
		return agent.ScheduleRun{}, agent.FieldErrorf(agent.CodeNotFound, "run_id", "there is no run %.140q", runID)
	}
	return r, mapError(op, err)
}

const countUnfinished = `
SELECT count(*) FROM schedule_runs WHERE tenant = $1 AND schedule = $2 AND ended_at IS NULL AND started_at > clock_timestamp() - interval '1 day'`

// UnfinishedRuns counts the runs of a schedule that began within a day and have not ended.
func (s *Store) UnfinishedRuns(ctx context.Context, tenant, name string) (int, error) {
	var n int
	err := s.pool.QueryRow(ctx, countUnfinished, tenant, plain(name)).Scan(&n)
	return n, mapError("count runs of schedule", err)
}

const listUnfinished = `
SELECT ` + scheduleRunColumns + ` FROM schedule_runs r WHERE r.ended_at IS NULL AND r.started_at < clock_timestamp() - $1::interval
ORDER BY r.started_at DESC LIMIT $2`

// LongRuns lists the newest runs of all tenants that began longer ago than that and have not ended.
func (s *Store) LongRuns(ctx context.Context, than time.Duration, limit int) ([]agent.ScheduleRun, error) {
	const op = "list unfinished runs of schedules"
	rows, err := s.pool.Query(ctx, listUnfinished, than, limit)
	if err != nil {
		return nil, mapError(op, err)
	}
	found, err := pgx.CollectRows(rows, scanScheduleRun)
	return found, mapError(op, err)
}

const bindScheduleRun = `
UPDATE schedule_runs SET turn_id = $3, session_id = $4 WHERE run_id = $1 AND tenant = $2`

// BindScheduleRun says which turn a run became. A run that is gone needs none.
func (s *Store) BindScheduleRun(ctx context.Context, tenant, runID string, turn agent.TurnID, session agent.SessionID) error {
	_, err := s.pool.Exec(ctx, bindScheduleRun, runID, tenant, turn, session)
	return mapError("bind run of schedule", err)
}

const lockScheduleRun = `
SELECT schedule, session_id, ended_at IS NOT NULL FROM schedule_runs WHERE run_id = $1 AND tenant = $2 FOR UPDATE`

// Skipped runs say nothing of what there is to say.
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

// FinishScheduleRun ends a run, marks its session inactive and forgets the oldest runs of its schedule, in one transaction; the first end
// stands. It answers the notices that are to be sent and have not been. Of a run that is gone there are none. Two round trips.
func (s *Store) FinishScheduleRun(ctx context.Context, e agent.ScheduleEnd) ([]agent.ScheduleNotice, error) {
	text, err := encodeFailure(e.Error)
	if err != nil {
		return nil, err
	}
	var (
		schedule, session string
		over, gone        bool
		before            struct{ status, digest string }
		notices           []agent.ScheduleNotice
	)
	err = transact(ctx, s.pool, func(b *pgx.Batch) {
		b.Queue(lockScheduleRun, e.RunID, e.Tenant).QueryRow(func(row pgx.Row) error {
			err := row.Scan(&schedule, &session, &over)
			if gone = errors.Is(err, pgx.ErrNoRows); gone {
				return nil
			}
			return err
		})
		b.Queue(readScheduleBefore, e.RunID, e.Tenant).QueryRow(func(row pgx.Row) error {
			if err := row.Scan(&before.status, &before.digest); !errors.Is(err, pgx.ErrNoRows) {
				return err
			}
			return nil
		})
		b.Queue(readNotices, e.RunID, e.Tenant).Query(func(rows pgx.Rows) (err error) {
			notices, err = pgx.CollectRows(rows, scanNotice)
			return err
		})
	}, func(b *pgx.Batch) error {
		if gone || over {
			return nil
		}
		notices = e.Notices
		if before.status != e.Status || before.digest != e.Digest {
			notices = append(append([]agent.ScheduleNotice(nil), notices...), e.IfChanged...)
		}
		output := plain(e.Output[:min(len(e.Output), maxScheduleOutput)])
		b.Queue(endScheduleRun, e.RunID, e.Status, output, e.Digest, plain(e.ResultRef), text, e.Quiet, e.EndedAt)
		for i := range notices {
			notices[i].Status, notices[i].At = agent.NoticePending, e.EndedAt
			b.Queue(insertNotice, e.RunID, notices[i].Position, notices[i].Kind, plain(notices[i].Target), e.EndedAt)
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
	var left []agent.ScheduleNotice
	for _, n := range notices {
		if n.Status != agent.NoticeSent {
			left = append(left, n)
		}
	}
	return left, nil
}

func scanNotice(row pgx.CollectableRow) (n agent.ScheduleNotice, err error) {
	err = row.Scan(&n.Position, &n.Kind, &n.Target, &n.Status, &n.Attempts, &n.Error, &n.At)
	inUTC(&n.At)
	return n, err
}

const noteNotice = `
UPDATE schedule_notices n SET status = $4, attempts = greatest(n.attempts, $5), error = $6, at = clock_timestamp()
FROM schedule_runs r WHERE r.run_id = n.run_id AND n.run_id = $1 AND r.tenant = $2 AND n.position = $3 AND n.status <> 'sent'`

// NoteNotice says what became of an attempt to notify; once it is sent it stays so. A run that is gone has no notices.
func (s *Store) NoteNotice(ctx context.Context, tenant, runID string, n agent.ScheduleNotice) error {
	text, err := encodeFailure(n.Error)
	if err != nil {
		return err
	}
	_, err = s.pool.Exec(ctx, noteNotice, runID, tenant, n.Position, n.Status, n.Attempts, text)
	return mapError("note notice", err)
}

const listScheduleRuns = `
SELECT ` + scheduleRunColumns + ` FROM schedule_runs r
WHERE r.tenant = $1 AND r.schedule = $2 AND (r.started_at, r.run_id) < ($3, $4)
ORDER BY r.started_at DESC, r.run_id DESC LIMIT $5::integer + 1`

// ScheduleRuns lists the runs of a schedule, newest first. Next is empty on the last page. One query.
func (s *Store) ScheduleRuns(ctx context.Context, tenant, name string, p agent.Page) (agent.ScheduleRunPage, error) {
	const op = "list runs of schedule"
	from := runPlace{StartedAt: maxTokenTime}
	if err := readPageToken(p.Token, &from, (*runPlace).valid); err != nil {
		return agent.ScheduleRunPage{}, err
	}
	limit := pageSize(p.Size)
	rows, err := s.pool.Query(ctx, listScheduleRuns, tenant, plain(name), time.UnixMicro(from.StartedAt), from.RunID, limit)
	if err != nil {
		return agent.ScheduleRunPage{}, mapError(op, err)
	}
	var page agent.ScheduleRunPage
	page.Runs, err = pgx.CollectRows(rows, scanScheduleRun)
	if err == nil && len(page.Runs) > limit {
		page.Runs = page.Runs[:limit]
		last := &page.Runs[limit-1]
		page.Next, err = pageToken(runPlace{last.StartedAt.UnixMicro(), last.RunID})
	}
	return page, mapError(op, err)
}
