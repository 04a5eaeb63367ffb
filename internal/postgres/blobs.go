package postgres

import (
	"context"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/turnstone-run/turnstone/agent"
)

const refScheme = "cas://sha256:"

// StoredBlob is content of the blob store as the ledger knows it.
type StoredBlob struct {
	Tenant string
	Ref    string // cas://sha256:<hex>
	Bytes  int64  // uncompressed; of adopted content those of its object
}

// digestOf is the form in which blobs and blob_refs have a reference.
func digestOf(ref string) (string, error) {
	digest, ok := strings.CutPrefix(ref, refScheme)
	if !ok || len(digest) != 64 || strings.Trim(digest, "0123456789abcdef") != "" {
		return "", agent.Invalid("ref", "%.100q is no reference to stored content", ref)
	}
	return digest, nil
}

const putBlob = `
INSERT INTO blobs AS b (tenant, digest, bytes, put_at) VALUES ($1, $2, $3, clock_timestamp())
ON CONFLICT (tenant, digest) DO UPDATE SET put_at = greatest(b.put_at, excluded.put_at), bytes = excluded.bytes`

// Putting notes that content is about to be put, whether or not it is there: for [Config.BlobGrace] from now it stays without anybody
// referring to it. It must have returned before the bucket is asked.
func (s *Store) Putting(ctx context.Context, tenant, ref string, size int64) error {
	digest, err := digestOf(ref)
	if err != nil {
		return err
	}
	_, err = s.pool.Exec(ctx, putBlob, tenant, digest, size)
	return mapError("note content", err)
}

// Content that has no row was never put since there are rows, or has been released before: then there is nothing to wait for.
const releaseBlob = `
WITH held AS (
	SELECT FROM blob_refs WHERE tenant = $1 AND digest = $2 LIMIT 1
), gone AS (
	DELETE FROM blobs WHERE tenant = $1 AND digest = $2 AND put_at < clock_timestamp() - $3::interval AND NOT EXISTS (SELECT FROM held)
	RETURNING tenant
)
SELECT EXISTS (SELECT FROM gone) OR NOT EXISTS (SELECT FROM held) AND NOT EXISTS (SELECT FROM blobs WHERE tenant = $1 AND digest = $2)`

// Release takes content off the ledger, in one statement, if nobody refers to it and nobody has put it within [Config.BlobGrace]; whether
// it did is whether the content may be removed. The clock is the database's.
func (s *Store) Release(ctx context.Context, tenant, ref string) (released bool, err error) {
	digest, err := digestOf(ref)
	if err != nil {
		return false, err
	}
	err = s.pool.QueryRow(ctx, releaseBlob, tenant, digest, s.cfg.BlobGrace).Scan(&released)
	return released, mapError("release content", err)
}

const adoptBlobs = `
INSERT INTO blobs (tenant, digest, bytes, put_at)
SELECT f.tenant, f.digest, f.bytes, clock_timestamp() FROM unnest($1::text[], $2::text[], $3::bigint[]) AS f (tenant, digest, bytes)
ON CONFLICT DO NOTHING`

// Adopt notes content that was found in the bucket, as if it were put now, unless it is known. It returns how much was not.
func (s *Store) Adopt(ctx context.Context, found []StoredBlob) (adopted int, err error) {
	if len(found) == 0 {
		return 0, nil
	}
	n := len(found)
	tenants, digests, sizes := make([]string, n), make([]string, n), make([]int64, n)
	for i := range found {
		if digests[i], err = digestOf(found[i].Ref); err != nil {
			return 0, err
		}
		tenants[i], sizes[i] = found[i].Tenant, found[i].Bytes
	}
	tag, err := s.pool.Exec(ctx, adoptBlobs, tenants, digests, sizes)
	return int(tag.RowsAffected()), mapError("adopt content", err)
}

const readUnheld = `
SELECT b.tenant, b.digest, b.bytes,
	b.put_at < clock_timestamp() - $4::interval AND NOT EXISTS (SELECT FROM blob_refs r WHERE r.tenant = b.tenant AND r.digest = b.digest)
FROM (
	SELECT tenant, digest, bytes, put_at FROM blobs WHERE (tenant, digest) > ($1, $2) ORDER BY tenant, digest LIMIT $3
) b ORDER BY b.tenant, b.digest`

// Unheld looks at the next rows of the ledger behind last, in the order of tenant and reference, at most limit. It returns those whose
// content may be released, how many it looked at, and the last of them; 0 is the end.
func (s *Store) Unheld(ctx context.Context, last StoredBlob, limit int) (unheld []StoredBlob, looked int, next StoredBlob, err error) {
	const op = "look for content to collect"
	rows, err := s.pool.Query(ctx, readUnheld, last.Tenant, strings.TrimPrefix(last.Ref, refScheme), limit, s.cfg.BlobGrace)
	if err != nil {
		return nil, 0, last, mapError(op, err)
	}
	var (
		b    StoredBlob
		free bool
	)
	next = last
	_, err = pgx.ForEachRow(rows, []any{&b.Tenant, &b.Ref, &b.Bytes, &free}, func() error {
		b.Ref = refScheme + b.Ref
		looked, next = looked+1, b
		if free {
			unheld = append(unheld, b)
		}
		return nil
	})
	return unheld, looked, next, mapError(op, err)
}
