package postgres

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"strings"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/erasure"
)

// ErasureStore stores erasures, and erases the data of users.
type ErasureStore struct{ *database }

const erasureColumns = `erasure_id AS id, tenant, status, dry_run, subject, salt, requested_by, reason, created_at, finished_at, error, digest`

func unknownErasure(id string) error {
	return agent.FieldErrorf(agent.CodeNotFound, "erasure_id", "there is no erasure %.140q", id)
}

const insertErasure = `
INSERT INTO erasures (erasure_id, tenant, user_id, salt, subject, requested_by, reason, dry_run, status)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, 'requested')
ON CONFLICT (tenant, user_id, dry_run) WHERE user_id IS NOT NULL DO NOTHING`

const readActiveErasure = `
SELECT ` + erasureColumns + ` FROM erasures WHERE tenant = $1 AND user_id = $2 AND dry_run = $3`

// CreateErasure records a request of the caller by. If the user has an erasure that has not ended, it returns that one.
func (s *ErasureStore) CreateErasure(ctx context.Context, r erasure.Request, by string) (erasure.Erasure, error) {
	const op = "create erasure"
	if err := r.Validate(); err != nil {
		return erasure.Erasure{}, err
	}
	if err := cmp.Or(checkNames(nameField{"tenant", r.Tenant, true}), checkText("user_id", r.UserID, erasure.MaxUserID)); err != nil {
		return erasure.Erasure{}, err
	}
	salt := make([]byte, erasure.SaltBytes)
	_, _ = rand.Read(salt) // never fails
	subject := erasure.Subject(salt, r.Tenant, r.UserID)
	if erasure.Names(by, r.UserID) {
		by = erasure.Pseudonym(subject) // the user asks for their own erasure
	}
	var (
		b pgx.Batch
		e erasure.Erasure
	)
	b.Queue(insertErasure, uuid.NewString(), r.Tenant, r.UserID, hex.EncodeToString(salt), subject, cleanText(by), cleanText(r.Reason), r.DryRun)
	queueRow(&b, &e, nil, pgx.RowToStructByNameLax[erasure.Erasure], readActiveErasure, r.Tenant, r.UserID, r.DryRun)
	if err := s.send(ctx, &b); err != nil {
		return erasure.Erasure{}, mapError(op, err)
	}
	return e, nil
}

// readErasure takes the digest from the first record that the runtime has written (with an empty method), so that a later record cannot replace it.
const readErasure = `
SELECT report, coalesce((
	SELECT a.detail->>'digest' FROM audit_log a
	WHERE a.tenant = e.tenant AND a.action = 'erasures.write' AND a.resource = 'erasure/' || e.erasure_id AND a.method = '' AND a.detail ? 'digest'
	ORDER BY a.id LIMIT 1), '') AS audit_digest, ` + erasureColumns + `
FROM erasures e WHERE tenant = $1 AND erasure_id = $2`

// Erasure returns an erasure with its report, and the digest of the report in the audit trail. The error is [agent.CodeNotFound] if the tenant
// does not have it.
func (s *ErasureStore) Erasure(ctx context.Context, tenant, id string) (erasure.Erasure, error) {
	e, err := queryRow(ctx, s.pool, unknownErasure(id), pgx.RowToStructByName[erasure.Erasure], readErasure, tenant, cleanText(id))
	return e, mapError("read erasure", err)
}

const listErasures = `
SELECT ` + erasureColumns + ` FROM erasures WHERE tenant = $1 AND (created_at, erasure_id) < ($2, $3)
ORDER BY created_at DESC, erasure_id DESC LIMIT $4::integer + 1`

// Erasures lists the erasures of a tenant, newest first, without their reports. Next is empty on the last page.
func (s *ErasureStore) Erasures(ctx context.Context, tenant string, p agent.Page) (page erasure.Page, err error) {
	at, id, err := decodeTimePlace(p.Token)
	if err != nil {
		return page, err
	}
	size := pageSize(p.Size)
	found, err := queryRows(ctx, s.pool, pgx.RowToStructByNameLax[erasure.Erasure], listErasures, tenant, at, id, size)
	if err == nil {
		found, page.Next, err = cutPage(found, size, func(last *erasure.Erasure) any { return timePlace{last.CreatedAt.UnixMicro(), last.ID} })
	}
	page.Erasures = append([]erasure.Erasure{}, found...)
	return page, mapError("list erasures", err)
}

const failErasure = `
UPDATE erasures SET status = 'failed', error = $3, user_id = NULL, finished_at = clock_timestamp()
WHERE tenant = $1 AND erasure_id = $2 AND user_id IS NOT NULL`

// FailErasure ends an erasure as failed, and deletes the user's id. It does not restore what was erased. It does nothing if the erasure has ended.
func (s *ErasureStore) FailErasure(ctx context.Context, tenant, id, reason string) error {
	err := pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) error {
		var user *string
		err := tx.QueryRow(ctx, `SELECT user_id FROM erasures WHERE tenant = $1 AND erasure_id = $2 FOR UPDATE`, tenant, cleanText(id)).Scan(&user)
		switch {
		case errors.Is(err, pgx.ErrNoRows):
			return unknownErasure(id)
		case err != nil || user == nil:
			return err
		}
		if _, err := tx.Exec(ctx, failErasure, tenant, id, strings.ReplaceAll(cleanText(reason), *user, "…")); err != nil {
			return err
		}
		_, err = tx.Exec(ctx, `DELETE FROM erasure_marks WHERE erasure_id = $1`, id)
		return err
	})
	return mapError("fail erasure", err)
}
