package postgres

import (
	"cmp"
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/turnstone-run/turnstone/agent"
)

// ScheduleStore stores schedules, and their runs with the notices of these.
type ScheduleStore struct{ *database }

// maxScheduleBytes bounds the document of a schedule.
const maxScheduleBytes = 512 << 10

const scheduleColumns = `document, principal, tenant, name, revision, paused, note, created_by, updated_by, created_at, updated_at`

func scanSchedule(row pgx.CollectableRow) (s agent.StoredSchedule, err error) {
	err = row.Scan(&s.Schedule, &s.Principal, &s.Tenant, &s.Name, &s.Revision, &s.Paused, &s.Note, &s.CreatedBy, &s.UpdatedBy, &s.CreatedAt,
		&s.UpdatedAt)
	return s, err
}

// lockSchedules prevents that two concurrent requests exceed the maximum of a tenant's schedules.
const lockSchedules = `
SELECT pg_advisory_xact_lock(hashtextextended('schedules/' || $1, 0))`

const countSchedules = `
SELECT count(*), count(*) FILTER (WHERE name = $2) FROM schedules WHERE tenant = $1`

const putSchedule = `
INSERT INTO schedules (` + scheduleColumns + `, kind)
VALUES ($3, $6, $1, $2, 1, $4, $5, $7, $7, clock_timestamp(), clock_timestamp(), $8)
ON CONFLICT (tenant, name) DO UPDATE SET revision = schedules.revision + 1, document = $3, paused = $4, note = $5, principal = $6,
	updated_by = $7, updated_at = clock_timestamp(), kind = $8
RETURNING ` + scheduleColumns

// PutSchedule stores a schedule with its Principal, and returns what is stored. The error is [agent.CodeConflict] with Field "name" if isNew is set and the
// schedule exists, and [agent.CodeOverflow] if the tenant already has maxSchedules schedules.
func (s *ScheduleStore) PutSchedule(ctx context.Context, in agent.StoredSchedule, isNew bool, maxSchedules int) (agent.StoredSchedule, error) {
	if err := checkNames(
		nameField{"tenant", in.Tenant, true}, nameField{"name", in.Name, true}, nameField{"updated_by", in.UpdatedBy, false},
	); err != nil {
		return agent.StoredSchedule{}, err
	}
	fields := in.Schedule // without the fields that have columns of their own or are not stored
	fields.Tenant, fields.Name, fields.Revision, fields.Paused, fields.Note, fields.CreatedBy, fields.UpdatedBy = "", "", 0, false, "", "", ""
	fields.CreatedAt, fields.UpdatedAt, fields.Next = nil, nil, nil
	document, err := encode(&fields)
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
	var (
		count, sameName int
		stored          agent.StoredSchedule
	)
	err = s.transact(ctx, func(b *pgx.Batch) {
		b.Queue(lockSchedules, in.Tenant)
		b.Queue(countSchedules, in.Tenant, in.Name).QueryRow(scanInto(&count, &sameName))
	}, func(b *pgx.Batch) error {
		switch {
		case sameName > 0 && isNew:
			return agent.FieldErrorf(agent.CodeConflict, "name", "there is a schedule %q already", in.Name)
		case sameName == 0 && maxSchedules > 0 && count >= maxSchedules:
			return agent.Errorf(agent.CodeOverflow, "", "there are %d schedules, and no more are allowed", count)
		}
		queueRow(b, &stored, nil, scanSchedule, putSchedule, in.Tenant, in.Name, document, in.Paused, cleanText(in.Note), principal, in.UpdatedBy,
			cmp.Or(in.Kind, agent.ScheduleRuns))
		return nil
	})
	return stored, mapError("put schedule", err)
}

const pauseSchedule = `
UPDATE schedules SET paused = $3, note = $4, revision = revision + 1, updated_at = clock_timestamp() WHERE tenant = $1 AND name = $2
RETURNING ` + scheduleColumns

// PauseSchedule pauses or resumes a schedule. It does not change the principal with whose rights the schedule runs. The error is [agent.CodeNotFound] if
// the tenant does not have the schedule.
func (s *ScheduleStore) PauseSchedule(ctx context.Context, tenant, name string, paused bool, note string) (agent.StoredSchedule, error) {
	found, err := queryRow(ctx, s.pool, unknownSchedule(name), scanSchedule, pauseSchedule, tenant, cleanText(name), paused, cleanText(note))
	return found, mapError("pause schedule", err)
}

const readSchedule = `
SELECT ` + scheduleColumns + ` FROM schedules WHERE tenant = $1 AND name = $2`

// Schedule returns a schedule. The error is [agent.CodeNotFound] if the tenant does not have it.
func (s *ScheduleStore) Schedule(ctx context.Context, tenant, name string) (agent.StoredSchedule, error) {
	found, err := queryRow(ctx, s.pool, unknownSchedule(name), scanSchedule, readSchedule, tenant, cleanText(name))
	return found, mapError("read schedule", err)
}

func unknownSchedule(name string) error {
	return agent.FieldErrorf(agent.CodeNotFound, "name", "there is no schedule %.140q", name)
}

// DeleteSchedule removes a schedule and its runs. The error is [agent.CodeNotFound] if the tenant does not have the schedule.
func (s *ScheduleStore) DeleteSchedule(ctx context.Context, tenant, name string) error {
	tag, err := s.pool.Exec(ctx, `DELETE FROM schedules WHERE tenant = $1 AND name = $2`, tenant, cleanText(name))
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

const listSchedules = `
SELECT ` + scheduleColumns + ` FROM schedules WHERE (tenant = $1 OR $1 = '*') AND (tenant, name) > ($2, $3)
ORDER BY tenant, name LIMIT $4::integer + 1`

// Schedules lists schedules by name. The tenant "*" stands for all tenants. Next is empty on the last page.
func (s *ScheduleStore) Schedules(ctx context.Context, tenant string, p agent.Page) (page agent.SchedulePage, err error) {
	var after schedulePlace
	if err := decodePageToken(p.Token, &after, func(p *schedulePlace) bool {
		return checkNames(nameField{value: p.Tenant}, nameField{value: p.Name}) == nil
	}); err != nil {
		return page, err
	}
	size := pageSize(p.Size)
	found, err := queryRows(ctx, s.pool, scanSchedule, listSchedules, tenant, after.Tenant, after.Name, size)
	if err == nil {
		found, page.Next, err = cutPage(found, size, func(last *agent.StoredSchedule) any { return schedulePlace{last.Tenant, last.Name} })
	}
	page.Schedules = make([]agent.Schedule, len(found))
	for i := range found {
		page.Schedules[i] = found[i].Schedule
	}
	return page, mapError("list schedules", err)
}
