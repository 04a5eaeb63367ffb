package postgres

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/turnstone-run/turnstone/agent"
)

// Bounds of what is remembered.
const (
	maxCachedBytes = 1 << 20
	maxCachedKey   = 256
	maxCached      = 10_000 // of a tenant
	maxCachedTime  = 30 * 24 * time.Hour
)

// A remembered result whose content has no row was never safe to name.
const recallResult = `
SELECT c.body FROM result_cache c JOIN blobs b ON b.tenant = c.tenant AND b.digest = c.digest
WHERE c.tenant = $1 AND c.key = $2 AND c.expires_at > clock_timestamp()`

// RecallResult returns the JSON that was remembered under a key, ok false when none was, its time is over, or the content that it names is
// gone. The content stays for at least [Config.BlobGrace] from now on. One query.
func (s *Store) RecallResult(ctx context.Context, tenant, key string) (body json.RawMessage, ok bool, err error) {
	err = s.pool.QueryRow(ctx, recallResult, tenant, plain(key)).Scan((*[]byte)(&body))
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, false, nil
	}
	return body, err == nil, mapError("recall result", err)
}

const rememberResult = `
INSERT INTO result_cache (tenant, key, body, digest, remembered_at, expires_at)
VALUES ($1, $2, $3, $4, clock_timestamp(), clock_timestamp() + $5::interval)
ON CONFLICT (tenant, key) DO UPDATE
SET body = excluded.body, digest = excluded.digest, remembered_at = excluded.remembered_at, expires_at = excluded.expires_at`

// Two, so that the bound is reached again after it was passed.
const evictResults = `
DELETE FROM result_cache WHERE tenant = $1 AND key = ANY (ARRAY(
	SELECT key FROM result_cache WHERE tenant = $1 ORDER BY remembered_at DESC OFFSET $2 LIMIT 2))`

// RememberResult keeps up to 1 MiB of JSON under a key for a time, at most 30 days, in place of what was kept there, and holds the content
// that ref names for as long. Of a tenant the 10,000 newest are kept. One round trip. [agent.CodeInvalid] with the field for a key, a
// reference or a time that cannot be, [agent.CodeOverflow] for more JSON.
func (s *Store) RememberResult(ctx context.Context, tenant, key string, body json.RawMessage, ref string, ttl time.Duration) error {
	const op = "remember result"
	if err := checkText("key", key, maxCachedKey); err != nil {
		return err
	}
	digest, err := digestOf(ref)
	switch {
	case err != nil:
		return err
	case key == "":
		return agent.Invalid("key", "is empty")
	case ttl <= 0:
		return agent.Invalid("ttl", "want a time above 0, got %s", ttl)
	case len(body) > maxCachedBytes:
		return agent.Errorf(agent.CodeOverflow, op, "%d bytes, at most %d", len(body), maxCachedBytes)
	}
	text, err := encode(body)
	if err != nil {
		return mapError(op, err)
	}
	var b pgx.Batch
	b.Queue(rememberResult, tenant, key, text, digest, min(ttl, maxCachedTime))
	b.Queue(evictResults, tenant, maxCached)
	return mapError(op, s.pool.SendBatch(ctx, &b).Close())
}
