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

// KeyStore stores API keys with the hashes of their secrets.
type KeyStore struct{ *database }

const keyColumns = `id, tenant, name, subject, role, flags, scopes, created_at, created_by, expires_at, revoked_at, last_used_at, replaced_by`

const createKey = `
INSERT INTO api_keys (` + keyColumns + `, hash)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14)`

const (
	readKey     = `SELECT ` + keyColumns + `, hash FROM api_keys WHERE id = $1`
	listKeys    = `SELECT ` + keyColumns + ` FROM api_keys WHERE tenant = $3 AND id > $1 ORDER BY id LIMIT $2`
	listAllKeys = `SELECT ` + keyColumns + ` FROM api_keys WHERE id > $1 ORDER BY id LIMIT $2`
)

const revokeKey = `
UPDATE api_keys SET revoked_at = coalesce(revoked_at, $3) WHERE id = $2 AND (tenant = $1 OR $1 = '*') RETURNING ` + keyColumns

// expireKey replaces a key only once and not after it was revoked. Of two concurrent requests, the second waits for the row. (least ignores NULL, so
// that a key without an expiry gets one.)
const expireKey = `
UPDATE api_keys SET expires_at = least(expires_at, $3), replaced_by = coalesce(nullif($4, ''), replaced_by)
WHERE id = $2 AND (tenant = $1 OR $1 = '*') AND ($4 = '' OR replaced_by IN ('', $4) AND revoked_at IS NULL) RETURNING ` + keyColumns

// touchKeys locks the rows in a fixed order, so that two processes that write the same keys do not deadlock.
const touchKeys = `
WITH used AS (
	SELECT k.id, u.at FROM api_keys k JOIN unnest($1::text[], $2::timestamptz[]) AS u (id, at) USING (id)
	WHERE k.last_used_at IS NULL OR k.last_used_at < u.at
	ORDER BY k.id FOR NO KEY UPDATE OF k
)
UPDATE api_keys k SET last_used_at = greatest(k.last_used_at, used.at) FROM used WHERE k.id = used.id`

// Bounds of a key.
const (
	maxKeyScopes = 256
	maxKeyFlags  = 16 << 10 // bytes as JSON
	maxKeyHash   = 256
)

// CreateKey stores a key with the hash of its secret. The error is [agent.CodeConflict] if the id exists.
func (s *KeyStore) CreateKey(ctx context.Context, k agent.APIKey, hash []byte) error {
	const op = "create key"
	if err := checkKey(&k, hash); err != nil {
		return err
	}
	var flags []byte
	if k.Flags != nil {
		var err error
		if flags, err = encode(k.Flags); err != nil {
			return err
		}
		if len(flags) > maxKeyFlags {
			return agent.Invalid("flags", "are longer than %d bytes", maxKeyFlags)
		}
	}
	_, err := s.pool.Exec(ctx, createKey, k.ID, k.Tenant, k.Name, k.Subject, k.Role, flags, append([]string{}, k.Scopes...), k.CreatedAt, k.CreatedBy,
		k.ExpiresAt, k.RevokedAt, k.LastUsedAt, k.ReplacedBy, hash)
	if isViolation(err, "api_keys_pkey") {
		return agent.FieldErrorf(agent.CodeConflict, "id", "key %q exists", k.ID)
	}
	return mapError(op, err)
}

func checkKey(k *agent.APIKey, hash []byte) error {
	if err := checkNames(
		nameField{"id", k.ID, true}, nameField{"tenant", k.Tenant, true}, nameField{"name", k.Name, false},
		nameField{"subject", k.Subject, false}, nameField{"role", k.Role, false}, nameField{"created_by", k.CreatedBy, false},
		nameField{"replaced_by", k.ReplacedBy, false},
	); err != nil {
		return err
	}
	if len(k.Scopes) > maxKeyScopes {
		return agent.Invalid("scopes", "are %d, want at most %d", len(k.Scopes), maxKeyScopes)
	}
	for i, scope := range k.Scopes {
		if err := checkText("scope", scope, maxNameBytes); err != nil {
			return inElement("scopes", i, err)
		}
	}
	if len(hash) == 0 || len(hash) > maxKeyHash {
		return agent.Invalid("hash", "has %d bytes, want 1 to %d", len(hash), maxKeyHash)
	}
	return nil
}

func unknownKey(op, id string) error {
	return agent.Errorf(agent.CodeNotFound, op, "key %q is not known", id)
}

// KeyByID returns a key, even if it is revoked or expired, and the hash of its secret. The error is [agent.CodeNotFound] if there is none.
func (s *KeyStore) KeyByID(ctx context.Context, id string) (agent.APIKey, []byte, error) {
	const op = "read key"
	type row struct {
		agent.APIKey
		Hash []byte
	}
	k, err := queryRow(ctx, s.pool, unknownKey(op, id), pgx.RowToStructByName[row], readKey, cleanText(id))
	return k.APIKey, k.Hash, mapError(op, err)
}

// ListKeys returns a page of a tenant's keys in the order of their ids: those after an id, at most limit (100 by default, 1,000 at most). The tenant
// [agent.AnyTenant] stands for all tenants.
func (s *KeyStore) ListKeys(ctx context.Context, tenant, after string, limit int) ([]agent.APIKey, error) {
	sql, args := listAllKeys, []any{cleanText(after), pageSize(limit)}
	if tenant != agent.AnyTenant {
		sql, args = listKeys, append(args, cleanText(tenant))
	}
	page, err := queryRows(ctx, s.pool, pgx.RowToStructByName[agent.APIKey], sql, args...)
	return page, mapError("list keys", err)
}

// RevokeKey revokes a key and returns it. A key that is already revoked keeps its time. The error is [agent.CodeNotFound] if the tenant does not have
// the key; [agent.AnyTenant] has all keys.
func (s *KeyStore) RevokeKey(ctx context.Context, tenant, id string, at time.Time) (agent.APIKey, error) {
	const op = "revoke key"
	k, err := queryRow(ctx, s.pool, unknownKey(op, id), pgx.RowToStructByName[agent.APIKey], revokeKey, cleanText(tenant), cleanText(id), at)
	return k, mapError(op, err)
}

// ExpireKey makes a key expire at a time, unless it expires earlier, and returns it. If replacedBy is not empty, it is the id of the key that replaces
// this one; then the error is [agent.CodeConflict] if this key was revoked or already has another replacement. The tenant has the same meaning as for
// [KeyStore.RevokeKey].
func (s *KeyStore) ExpireKey(ctx context.Context, tenant, id string, at time.Time, replacedBy string) (agent.APIKey, error) {
	const op = "expire key"
	unknown := unknownKey(op, id)
	k, err := queryRow(ctx, s.pool, unknown, pgx.RowToStructByName[agent.APIKey], expireKey, cleanText(tenant), cleanText(id), at,
		cleanText(replacedBy))
	if replacedBy == "" || !errors.Is(err, unknown) {
		return k, mapError(op, err)
	}
	old, _, err := s.KeyByID(ctx, id)
	switch {
	case agent.CodeOf(err) == agent.CodeNotFound || (err == nil && tenant != agent.AnyTenant && tenant != old.Tenant):
		return agent.APIKey{}, unknown
	case err != nil:
		return agent.APIKey{}, err
	case old.RevokedAt != nil:
		return agent.APIKey{}, agent.Errorf(agent.CodeConflict, op, "key %q was revoked", id)
	default:
		return agent.APIKey{}, agent.Errorf(agent.CodeConflict, op, "key %q was rotated before, into %q", id, old.ReplacedBy)
	}
}

// TouchKeys stores the times of the last use of keys, by their ids. It never sets an earlier time, and ignores unknown keys.
func (s *KeyStore) TouchKeys(ctx context.Context, used map[string]time.Time) error {
	if len(used) == 0 {
		return nil
	}
	ids := slices.Collect(maps.Keys(used))
	times := make([]time.Time, len(ids))
	for i, id := range ids {
		times[i], ids[i] = used[id], cleanText(id)
	}
	_, err := s.pool.Exec(ctx, touchKeys, ids, times)
	return mapError("touch keys", err)
}
