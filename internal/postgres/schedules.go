package postgres

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/turnstone-run/turnstone/agent"
)

// maxScheduleBytes bounds the document of a schedule.
const maxScheduleBytes = 512 << 10

const scheduleColumns = `tenant, name, revision, document, paused, note, principal, created_by, updated_by, created_at, updated_at`

func scanSchedule(row pgx.CollectableRow) (agent.StoredSchedule, error) {
	var (
		document, principal  []byte
		s, read              agent.StoredSchedule
		createdAt, updatedAt time.Time
	)
	err := row.Scan(&read.Tenant, &read.Name, &read.Revision, &document, &read.Paused, &read.Note, &principal, &read.CreatedBy,
		&read.UpdatedBy, &createdAt, &updatedAt)
	if err != nil {
		return s, err
	}
	if err := json.Unmarshal(document, &s.Schedule); err != nil {
		return s, agent.Errorf(agent.CodeInternal, "", "schedule %q of %q: %w", read.Name, read.Tenant, err)
	}
	if err := json.Unmarshal(principal, &s.Principal); err != nil {
		return s, agent.Errorf(agent.CodeInternal, "", "principal of schedule %q of %q: %w", read.Name, read.Tenant, err)
	}
	s.Tenant, s.Name, s.Revision, s.Paused, s.Note = read.Tenant, read.Name, read.Revision, read.Paused, read.Note
	s.CreatedBy, s.UpdatedBy = read.CreatedBy, read.UpdatedBy
	s.CreatedAt, s.UpdatedAt = new(createdAt.UTC()), new(updatedAt.UTC())
	return s, nil
}

// Two that make a tenant's last schedule at once take turns.
const lockSchedules = `
SELECT pg_advisory_xact_lock(hashtextextended('schedules/' || $1, 0))`

const countSchedules = `
SELECT count(*), count(*) FILTER (WHERE name = $2) FROM schedules WHERE tenant = $1`

const putSchedule = `
INSERT INTO schedules (` + scheduleColumns + `, kind)
VALUES ($1, $2, 1, $3, $4, $5, $6, $7, $7, clock_timestamp(), clock_timestamp(), $8)
ON CONFLICT (tenant, name) DO UPDATE SET revision = schedules.revision + 1, document = $3, paused = $4, note = $5, principal = $6,
	updated_by = $7, updated_at = clock_timestamp(), kind = $8
RETURNING ` + scheduleColumns

// PutSchedule stores a schedule with the rights of its UpdatedBy, and answers what is stored. With isNew one that is there is
// [agent.CodeConflict] with Field "name"; a new one beyond most of its tenant is [agent.CodeOverflow]. Two round trips.
func (s *Store) PutSchedule(ctx context.Context, in agent.StoredSchedule, isNew bool, most int) (agent.StoredSchedule, error) {
	const op = "put schedule"
	if err := checkNames(named{"tenant", in.Tenant, true}, named{"name", in.Name, true}, named{"updated_by", in.UpdatedBy, false}); err != nil {
		return agent.StoredSchedule{}, err
	}
	written := in.Schedule // without what has columns of its own, or is not written at all
	written.Tenant, written.Name, written.Revision, written.Paused, written.Note, written.CreatedBy, written.UpdatedBy = "", "", 0, false, "", "", ""
	written.CreatedAt, written.UpdatedAt, written.Next = nil, nil, nil
	document, err := encode(&written)
	if err != nil {
		return agent.StoredSchedule{}, err
	}
	if len(document) > maxScheduleBytes {
		return agent.StoredSchedule{}, agent.Errorf(agent.CodeOverflow, "", "the schedule is %d bytes, at most %d", len(document), maxScheduleBytes)
	}
	principal, err := encode(&in.Principal)
	if err != nil {
		return agent.StoredSchedule{}, err
	}
	kind := cmp.Or(in.Kind, agent.ScheduleRuns)
	var (
		all, known int
		kept       agent.StoredSchedule
	)
	err = transact(ctx, s.pool, func(b *pgx.Batch) {
		b.Queue(lockSchedules, in.Tenant)
		b.Queue(countSchedules, in.Tenant, in.Name).QueryRow(func(row pgx.Row) error { return row.Scan(&all, &known) })
	}, func(b *pgx.Batch) error {
		switch {
		case known > 0 && isNew:
			return agent.FieldErrorf(agent.CodeConflict, "name", "there is a schedule %q already", in.Name)
		case known == 0 && most > 0 && all >= most:
			return agent.Errorf(agent.CodeOverflow, "", "there are %d schedules, and no more are allowed", all)
		}
		b.Queue(putSchedule, in.Tenant, in.Name, document, in.Paused, plain(in.Note), principal, in.UpdatedBy, kind).Query(func(rows pgx.Rows) (err error) {
			kept, err = pgx.CollectExactlyOneRow(rows, scanSchedule)
			return err
		})
		return nil
	})
	return kept, mapError(op, err)
}

const pauseSchedule = `
UPDATE schedules SET paused = $3, note = $4, revision = revision + 1, updated_at = clock_timestamp() WHERE tenant = $1 AND name = $2
RETURNING ` + scheduleColumns

// PauseSchedule pauses a schedule, or lets it go on; with whose rights it runs stays. [agent.CodeNotFound].
func (s *Store) PauseSchedule(ctx context.Context, tenant, name string, paused bool, note string) (agent.StoredSchedule, error) {
	return s.oneSchedule(ctx, "pause schedule", name, pauseSchedule, tenant, plain(name), paused, plain(note))
}

const readSchedule = `
SELECT ` + scheduleColumns + ` FROM schedules WHERE tenant = $1 AND name = $2`

// Schedule returns a schedule. [agent.CodeNotFound] when the tenant has none of that name.
func (s *Store) Schedule(ctx context.Context, tenant, name string) (agent.StoredSchedule, error) {
	return s.oneSchedule(ctx, "read schedule", name, readSchedule, tenant, plain(name))
}

func (s *Store) oneSchedule(ctx context.Context, op, name, sql string, args ...any) (agent.StoredSchedule, error) {
	rows, err := s.pool.Query(ctx, sql, args...)
	if err != nil {
		return agent.StoredSchedule{}, mapError(op, err)
	}
	found, err := pgx.CollectExactlyOneRow(rows, scanSchedule)
	if errors.Is(err, pgx.ErrNoRows) {
		return agent.StoredSchedule{}, unknownSchedule(name)
	}
	return found, mapError(op, err)
}

func unknownSchedule(name string) error {
	return agent.FieldErrorf(agent.CodeNotFound, "name", "there is no schedule %.140q", name)
}

// DeleteSchedule forgets a schedule and its runs. [agent.CodeNotFound] when the tenant has none of that name.
func (s *Store) DeleteSchedule(ctx context.Context, tenant, name string) error {
	tag, err := s.pool.Exec(ctx, `DELETE FROM schedules WHERE tenant = $1 AND name = $2`, tenant, plain(name))
	if err == nil && tag.RowsAffected() == 0 {
		return unknownSchedule(name)
	}
	return mapError("delete schedule", err)
}

// schedulePlace is the place of a schedule in a list.
type schedulePlace struct {
	Tenant string `json:"t"`
	Name   string `json:"n"`
}

func (p *schedulePlace) valid() bool {
	return checkNames(named{value: p.Tenant}, named{value: p.Name}) == nil
}

const listSchedules = `
SELECT ` + scheduleColumns + ` FROM schedules WHERE (tenant = $1 OR $1 = '*') AND (tenant, name) > ($2, $3)
ORDER BY tenant, name LIMIT $4::integer + 1`

// Schedules lists schedules by name; the tenant "*" is all of them. Next is empty on the last page. One query.
func (s *Store) Schedules(ctx context.Context, tenant string, p agent.Page) (agent.SchedulePage, error) {
	const op = "list schedules"
	var from schedulePlace
	if err := readPageToken(p.Token, &from, (*schedulePlace).valid); err != nil {
		return agent.SchedulePage{}, err
	}
	limit := pageSize(p.Size)
	rows, err := s.pool.Query(ctx, listSchedules, tenant, from.Tenant, from.Name, limit)
	if err != nil {
		return agent.SchedulePage{}, mapError(op, err)
	}
	found, err := pgx.CollectRows(rows, scanSchedule)
	if err != nil {
		return agent.SchedulePage{}, mapError(op, err)
	}
	var page agent.SchedulePage
	if len(found) > limit {
		found = found[:limit]
		last := &found[limit-1]
		if page.Next, err = pageToken(schedulePlace{last.Tenant, last.Name}); err != nil {
			return agent.SchedulePage{}, mapError(op, err)
		}
	}
	page.Schedules = make([]agent.Schedule, len(found))
	for i := range found {
		page.Schedules[i] = found[i].Schedule
	}
	return page, nil
}
