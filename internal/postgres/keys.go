package postgres

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/turnstone-run/turnstone/agent"
)

const columnsOfKey = `id, tenant, name, subject, role, flags, scopes, created_at, created_by, expires_at, revoked_at, last_used_at, replaced_by`

const createKey = `
INSERT INTO api_keys (` + columnsOfKey + `, hash)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14)`

const readKey = `
SELECT ` + columnsOfKey + `, hash FROM api_keys WHERE id = $1`

const (
	listKeys    = `SELECT ` + columnsOfKey + ` FROM api_keys WHERE tenant = $3 AND id > $1 ORDER BY id LIMIT $2`
	listAllKeys = `SELECT ` + columnsOfKey + ` FROM api_keys WHERE id > $1 ORDER BY id LIMIT $2`
)

const revokeKey = `
UPDATE api_keys SET revoked_at = coalesce(revoked_at, $3) WHERE id = $2 AND (tenant = $1 OR $1 = '*') RETURNING ` + columnsOfKey

// least ignores NULL: a key that never expires does so from now on. A key is replaced once, and never when it was revoked: of two that are to
// take its place at the same moment the second waits for the row and finds the first.
const expireKey = `
UPDATE api_keys SET expires_at = least(expires_at, $3), replaced_by = coalesce(nullif($4, ''), replaced_by)
WHERE id = $2 AND (tenant = $1 OR $1 = '*') AND ($4 = '' OR replaced_by IN ('', $4) AND revoked_at IS NULL) RETURNING ` + columnsOfKey

// The rows are locked in one order, so that two processes that write down the uses of the same keys do not wait for each other. Only what
// moves ahead is written.
const touchKeys = `
WITH used AS (
	SELECT k.id, u.at FROM api_keys k JOIN unnest($1::text[], $2::timestamptz[]) AS u (id, at) USING (id)
	WHERE k.last_used_at IS NULL OR k.last_used_at < u.at
	ORDER BY k.id FOR NO KEY UPDATE OF k
)
UPDATE api_keys k SET last_used_at = greatest(k.last_used_at, used.at) FROM used WHERE k.id = used.id`

// Bounds of a key besides those of its names.
const (
	maxKeyScopes = 256
	maxKeyFlags  = 16 << 10 // bytes as JSON
	maxKeyHash   = 256
)

// CreateKey stores a key with the hash of its secret. An id that exists is [agent.CodeConflict].
func (s *Store) CreateKey(ctx context.Context, k agent.APIKey, hash []byte) error {
	const op = "create key"
	if err := checkKey(&k, hash); err != nil {
		return err
	}
	flags, err := encodeKeyFlags(k.Flags)
	if err != nil {
		return err
	}
	_, err = s.pool.Exec(ctx, createKey, k.ID, k.Tenant, k.Name, k.Subject, k.Role, flags, append([]string{}, k.Scopes...), k.CreatedAt, k.CreatedBy,
		k.ExpiresAt, k.RevokedAt, k.LastUsedAt, k.ReplacedBy, hash)
	if violates(err, "api_keys_pkey") {
		return &agent.Error{Code: agent.CodeConflict, Op: op, Field: "id", Err: agent.Errorf(agent.CodeConflict, "", "key %q exists", k.ID)}
	}
	return mapError(op, err)
}

func checkKey(k *agent.APIKey, hash []byte) error {
	if err := checkNames(
		named{"id", k.ID, true}, named{"tenant", k.Tenant, true}, named{"name", k.Name, false}, named{"subject", k.Subject, false},
		named{"role", k.Role, false}, named{"created_by", k.CreatedBy, false}, named{"replaced_by", k.ReplacedBy, false},
	); err != nil {
		return err
	}
	if len(k.Scopes) > maxKeyScopes {
		return agent.Invalid("scopes", "are %d, want at most %d", len(k.Scopes), maxKeyScopes)
	}
	for i, scope := range k.Scopes {
		if err := checkText("scope", scope, maxNameBytes); err != nil {
			return within("scopes", i, err)
		}
	}
	if len(hash) == 0 || len(hash) > maxKeyHash {
		return agent.Invalid("hash", "has %d bytes, want 1 to %d", len(hash), maxKeyHash)
	}
	return nil
}

func encodeKeyFlags(flags map[string]any) ([]byte, error) {
	if flags == nil {
		return nil, nil
	}
	text, err := encode(flags)
	if err != nil {
		return nil, err
	}
	if len(text) > maxKeyFlags {
		return nil, agent.Invalid("flags", "are longer than %d bytes", maxKeyFlags)
	}
	return text, nil
}

// KeyByID returns a key, revoked and expired ones too, and the hash of its secret; [agent.CodeNotFound] when there is none.
func (s *Store) KeyByID(ctx context.Context, id string) (k agent.APIKey, hash []byte, err error) {
	const op = "read key"
	rows, err := s.pool.Query(ctx, readKey, plain(id))
	if err != nil {
		return agent.APIKey{}, nil, mapError(op, err)
	}
	k, err = pgx.CollectExactlyOneRow(rows, func(row pgx.CollectableRow) (agent.APIKey, error) {
		return scanKey(withColumn{row, &hash})
	})
	return knownKey(op, id, k, hash, err)
}

func knownKey(op, id string, k agent.APIKey, hash []byte, err error) (agent.APIKey, []byte, error) {
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return agent.APIKey{}, nil, agent.Errorf(agent.CodeNotFound, op, "key %q is not known", id)
	case err != nil:
		return agent.APIKey{}, nil, mapError(op, err)
	default:
		return k, hash, nil
	}
}

// ListKeys returns a page of a tenant's keys by id, those behind the id after, at most limit (100 by default, 1,000 at most); of every
// tenant for [agent.AnyTenant].
func (s *Store) ListKeys(ctx context.Context, tenant, after string, limit int) ([]agent.APIKey, error) {
	const op = "list keys"
	sql, args := listAllKeys, []any{plain(after), pageSize(limit)}
	if tenant != agent.AnyTenant {
		sql, args = listKeys, append(args, plain(tenant))
	}
	rows, err := s.pool.Query(ctx, sql, args...)
	if err != nil {
		return nil, mapError(op, err)
	}
	page, err := pgx.CollectRows(rows, scanKey)
	return page, mapError(op, err)
}

// RevokeKey ends a key at a time and returns it; one that was revoked before stays so since then. A key of another tenant is
// [agent.CodeNotFound]; [agent.AnyTenant] has all.
func (s *Store) RevokeKey(ctx context.Context, tenant, id string, at time.Time) (agent.APIKey, error) {
	return s.changeKey(ctx, "revoke key", revokeKey, tenant, id, at)
}

// ExpireKey lets a key expire at a time, or at the time that it has if that is earlier, notes the key that takes its place, unless that is
// empty, and returns it; under the rules of [Store.RevokeKey]. Of several that are to take its place the first does: the others are
// [agent.CodeConflict], as is one for a key that was revoked.
func (s *Store) ExpireKey(ctx context.Context, tenant, id string, at time.Time, replacedBy string) (agent.APIKey, error) {
	const op = "expire key"
	k, err := s.changeKey(ctx, op, expireKey, tenant, id, at, plain(replacedBy))
	if replacedBy == "" || agent.CodeOf(err) != agent.CodeNotFound {
		return k, err
	}
	old, _, rerr := s.KeyByID(ctx, id)
	switch {
	case agent.CodeOf(rerr) == agent.CodeNotFound || (rerr == nil && tenant != agent.AnyTenant && tenant != old.Tenant):
		return agent.APIKey{}, err
	case rerr != nil:
		return agent.APIKey{}, rerr
	case old.RevokedAt != nil:
		return agent.APIKey{}, agent.Errorf(agent.CodeConflict, op, "key %q was revoked", id)
	default:
		return agent.APIKey{}, agent.Errorf(agent.CodeConflict, op, "key %q was rotated before, into %q", id, old.ReplacedBy)
	}
}

func (s *Store) changeKey(ctx context.Context, op, sql, tenant, id string, args ...any) (agent.APIKey, error) {
	rows, err := s.pool.Query(ctx, sql, append([]any{plain(tenant), plain(id)}, args...)...)
	if err != nil {
		return agent.APIKey{}, mapError(op, err)
	}
	k, err := pgx.CollectExactlyOneRow(rows, scanKey)
	k, _, err = knownKey(op, id, k, nil, err)
	return k, err
}

// TouchKeys writes down when keys, by their ids, were used last. Times only move ahead; keys that are not known are left out.
func (s *Store) TouchKeys(ctx context.Context, used map[string]time.Time) error {
	if len(used) == 0 {
		return nil
	}
	ids := slices.Collect(maps.Keys(used))
	times := make([]time.Time, len(ids))
	for i, id := range ids {
		times[i], ids[i] = used[id], plain(id)
	}
	_, err := s.pool.Exec(ctx, touchKeys, ids, times)
	return mapError("touch keys", err)
}

func scanKey(row pgx.CollectableRow) (k agent.APIKey, err error) {
	err = row.Scan(&k.ID, &k.Tenant, &k.Name, &k.Subject, &k.Role, &k.Flags, &k.Scopes, &k.CreatedAt, &k.CreatedBy, &k.ExpiresAt, &k.RevokedAt,
		&k.LastUsedAt, &k.ReplacedBy)
	inUTC(&k.CreatedAt, k.ExpiresAt, k.RevokedAt, k.LastUsedAt)
	return k, err
}
