package postgres

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/erasure"
)

const erasureColumns = `erasure_id, tenant, status, dry_run, subject, salt, requested_by, reason, created_at, finished_at, error, digest`

func scanErasure(row pgx.CollectableRow) (e erasure.Erasure, err error) {
	err = row.Scan(&e.ID, &e.Tenant, &e.Status, &e.DryRun, &e.Subject, &e.Salt, &e.RequestedBy, &e.Reason, &e.CreatedAt, &e.FinishedAt, &e.Error,
		&e.Digest)
	inUTC(&e.CreatedAt, e.FinishedAt)
	return e, err
}

func unknownErasure(id string) error {
	return agent.FieldErrorf(agent.CodeNotFound, "erasure_id", "there is no erasure %.140q", id)
}

const insertErasure = `
INSERT INTO erasures (erasure_id, tenant, user_id, salt, subject, requested_by, reason, dry_run, status)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, 'requested')
ON CONFLICT (tenant, user_id, dry_run) WHERE user_id IS NOT NULL DO NOTHING`

const readActiveErasure = `
SELECT ` + erasureColumns + ` FROM erasures WHERE tenant = $1 AND user_id = $2 AND dry_run = $3`

// CreateErasure records what is asked for; by is who asks. Of a user whose erasure is under way it is that one which is returned. One round
// trip.
func (s *Store) CreateErasure(ctx context.Context, r erasure.Request, by string) (erasure.Erasure, error) {
	const op = "create erasure"
	if err := r.Validate(); err != nil {
		return erasure.Erasure{}, err
	}
	if err := cmp.Or(checkNames(named{"tenant", r.Tenant, true}), checkText("user_id", r.UserID, erasure.MaxUserID)); err != nil {
		return erasure.Erasure{}, err
	}
	salt := make([]byte, erasure.SaltBytes)
	_, _ = rand.Read(salt) // never fails
	subject := erasure.Subject(salt, r.Tenant, r.UserID)
	if erasure.Names(by, r.UserID) {
		by = erasure.Pseudonym(subject) // who asks is who is erased
	}
	var (
		b pgx.Batch
		e erasure.Erasure
	)
	b.Queue(insertErasure, uuid.NewString(), r.Tenant, r.UserID, hex.EncodeToString(salt), subject, plain(by), plain(r.Reason), r.DryRun)
	b.Queue(readActiveErasure, r.Tenant, r.UserID, r.DryRun).Query(func(rows pgx.Rows) (err error) {
		e, err = pgx.CollectExactlyOneRow(rows, scanErasure)
		return err
	})
	if err := s.pool.SendBatch(ctx, &b).Close(); err != nil {
		return erasure.Erasure{}, mapError(op, err)
	}
	return e, nil
}

// Who changes a report later also adds no record that the runtime itself wrote first.
const readErasure = `
SELECT report, coalesce((
	SELECT a.detail->>'digest' FROM audit_log a
	WHERE a.tenant = e.tenant AND a.action = 'erasures.write' AND a.resource = 'erasure/' || e.erasure_id AND a.method = '' AND a.detail ? 'digest'
	ORDER BY a.id LIMIT 1), ''), ` + erasureColumns + `
FROM erasures e WHERE tenant = $1 AND erasure_id = $2`

// Erasure returns one with its report, and with the digest that the audit trail has of it. [agent.CodeNotFound] when the tenant has none of
// that id. One query.
func (s *Store) Erasure(ctx context.Context, tenant, id string) (erasure.Erasure, error) {
	const op = "read erasure"
	rows, err := s.pool.Query(ctx, readErasure, tenant, plain(id))
	if err != nil {
		return erasure.Erasure{}, mapError(op, err)
	}
	e, err := pgx.CollectExactlyOneRow(rows, func(row pgx.CollectableRow) (e erasure.Erasure, err error) {
		var report []byte
		err = row.Scan(&report, &e.AuditDigest, &e.ID, &e.Tenant, &e.Status, &e.DryRun, &e.Subject, &e.Salt, &e.RequestedBy, &e.Reason, &e.CreatedAt,
			&e.FinishedAt, &e.Error, &e.Digest)
		inUTC(&e.CreatedAt, e.FinishedAt)
		if err == nil && report != nil {
			err = json.Unmarshal(report, &e.Report)
		}
		return e, err
	})
	if errors.Is(err, pgx.ErrNoRows) {
		return erasure.Erasure{}, unknownErasure(id)
	}
	return e, mapError(op, err)
}

const listErasures = `
SELECT ` + erasureColumns + ` FROM erasures WHERE tenant = $1 AND (created_at, erasure_id) < ($2, $3)
ORDER BY created_at DESC, erasure_id DESC LIMIT $4::integer + 1`

// Erasures lists a tenant's, newest first, without their reports. Next is empty on the last page. One query.
func (s *Store) Erasures(ctx context.Context, tenant string, p agent.Page) (erasure.Page, error) {
	const op = "list erasures"
	from := runPlace{StartedAt: maxTokenTime}
	if err := readPageToken(p.Token, &from, (*runPlace).valid); err != nil {
		return erasure.Page{}, err
	}
	limit := pageSize(p.Size)
	rows, err := s.pool.Query(ctx, listErasures, tenant, time.UnixMicro(from.StartedAt), from.RunID, limit)
	if err != nil {
		return erasure.Page{}, mapError(op, err)
	}
	page := erasure.Page{Erasures: []erasure.Erasure{}}
	found, err := pgx.CollectRows(rows, scanErasure)
	page.Erasures = append(page.Erasures, found[:min(len(found), limit)]...)
	if err == nil && len(found) > limit {
		last := &page.Erasures[limit-1]
		page.Next, err = pageToken(runPlace{last.CreatedAt.UnixMicro(), last.ID})
	}
	return page, mapError(op, err)
}

const failErasure = `
UPDATE erasures SET status = 'failed', error = $3, user_id = NULL, finished_at = clock_timestamp()
WHERE tenant = $1 AND erasure_id = $2 AND user_id IS NOT NULL`

// FailErasure ends an erasure that broke off and forgets the user's id; what went before is gone. One that has ended stays as it is.
func (s *Store) FailErasure(ctx context.Context, tenant, id, why string) error {
	err := pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) error {
		var user *string
		err := tx.QueryRow(ctx, `SELECT user_id FROM erasures WHERE tenant = $1 AND erasure_id = $2 FOR UPDATE`, tenant, plain(id)).Scan(&user)
		switch {
		case errors.Is(err, pgx.ErrNoRows):
			return unknownErasure(id)
		case err != nil || user == nil:
			return err
		}
		if _, err := tx.Exec(ctx, failErasure, tenant, id, strings.ReplaceAll(plain(why), *user, "…")); err != nil {
			return err
		}
		_, err = tx.Exec(ctx, `DELETE FROM erasure_marks WHERE erasure_id = $1`, id)
		return err
	})
	return mapError("fail erasure", err)
}
