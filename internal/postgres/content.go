package postgres

import (
	"context"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/turnstone-run/turnstone/agent"
)

// ContentStore stores the ledger of the content in the blob store, the references to it, and the progress of its collection.
type ContentStore struct{ *database }

const refScheme = "cas://sha256:"

// StoredBlob is a row of the ledger.
type StoredBlob struct {
	Tenant string
	Ref    string // cas://sha256:<hex>
	Bytes  int64  // the uncompressed size, or for adopted content the size of its object
}

// digestOf returns the digest in a reference, in the form of the tables blobs and blob_refs.
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

// RecordPut records that content is about to be stored, whether or not it is stored already. The content then stays for at least
// [Config.BlobGrace], even without a reference to it. RecordPut must be called before the bucket is accessed.
func (s *ContentStore) RecordPut(ctx context.Context, tenant, ref string, size int64) error {
	digest, err := digestOf(ref)
	if err != nil {
		return err
	}
	_, err = s.pool.Exec(ctx, putBlob, tenant, digest, size)
	return mapError("note content", err)
}

// releaseBlob also releases content that has no row, because it was stored before there was a ledger, or was released before.
const releaseBlob = `
WITH held AS (
	SELECT FROM blob_refs WHERE tenant = $1 AND digest = $2 LIMIT 1
), gone AS (
	DELETE FROM blobs WHERE tenant = $1 AND digest = $2 AND put_at < clock_timestamp() - $3::interval AND NOT EXISTS (SELECT FROM held)
	RETURNING tenant
)
SELECT EXISTS (SELECT FROM gone) OR NOT EXISTS (SELECT FROM held) AND NOT EXISTS (SELECT FROM blobs WHERE tenant = $1 AND digest = $2)`

// Release removes content from the ledger if nothing refers to it and it was not stored within [Config.BlobGrace], by the clock of the
// database. If released is true, the caller may delete the content.
func (s *ContentStore) Release(ctx context.Context, tenant, ref string) (released bool, err error) {
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

// Adopt adds content that was found in the bucket to the ledger, as if it had just been stored, and returns the number of new rows.
func (s *ContentStore) Adopt(ctx context.Context, found []StoredBlob) (adopted int, err error) {
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

const readUnreferenced = `
SELECT b.tenant, b.digest, b.bytes,
	b.put_at < clock_timestamp() - $4::interval AND NOT EXISTS (SELECT FROM blob_refs r WHERE r.tenant = b.tenant AND r.digest = b.digest)
FROM (
	SELECT tenant, digest, bytes, put_at FROM blobs WHERE (tenant, digest) > ($1, $2) ORDER BY tenant, digest LIMIT $3
) b ORDER BY b.tenant, b.digest`

// Unreferenced reads the next rows of the ledger after last, in the order of tenant and reference, at most limit. It returns those whose
// content may be released, the number of rows that it has read, which is 0 at the end of the ledger, and the last of these rows.
func (s *ContentStore) Unreferenced(
	ctx context.Context, last StoredBlob, limit int,
) (unreferenced []StoredBlob, read int, next StoredBlob, err error) {
	const op = "look for content to collect"
	rows, err := s.pool.Query(ctx, readUnreferenced, last.Tenant, strings.TrimPrefix(last.Ref, refScheme), limit, s.cfg.BlobGrace)
	if err != nil {
		return nil, 0, last, mapError(op, err)
	}
	var (
		b      StoredBlob
		isFree bool
	)
	next = last
	_, err = pgx.ForEachRow(rows, []any{&b.Tenant, &b.Ref, &b.Bytes, &isFree}, func() error {
		b.Ref = refScheme + b.Ref
		read, next = read+1, b
		if isFree {
			unreferenced = append(unreferenced, b)
		}
		return nil
	})
	return unreferenced, read, next, mapError(op, err)
}

// Collection is the progress of the collection of stored content, which all processes share.
type Collection struct {
	Due     bool       // false while older releases may be running, which store content without the ledger
	Last    StoredBlob // the last row of the ledger that was read; zero to begin at the first
	Listing []byte     // where the listing of the bucket continues; nil to begin at the first object
}

const readCollection = `
SELECT clock_timestamp() >= not_before, tenant, digest, listing FROM blob_collection`

// Collect calls work with the progress of the collection, unless another process is doing so, and reports whether it did.
func (s *ContentStore) Collect(ctx context.Context, work func(ctx context.Context, c Collection) error) (ran bool, err error) {
	const op = "begin collection"
	return s.withLock(ctx, op, "turnstone collection of content", func(ctx context.Context, conn *pgxpool.Conn) error {
		var c Collection
		if err := conn.QueryRow(ctx, readCollection).Scan(&c.Due, &c.Last.Tenant, &c.Last.Ref, &c.Listing); err != nil {
			return mapError(op, err)
		}
		if c.Last.Ref != "" {
			c.Last.Ref = refScheme + c.Last.Ref
		}
		return work(ctx, c)
	})
}

const saveLedgerPosition = `
UPDATE blob_collection SET tenant = $1, digest = $2`

// SaveLedgerPosition stores the last row of the ledger that was read. After the zero value the next run begins at the first row.
func (s *ContentStore) SaveLedgerPosition(ctx context.Context, last StoredBlob) error {
	digest := ""
	if last != (StoredBlob{}) {
		var err error
		if digest, err = digestOf(last.Ref); err != nil {
			return err
		}
	}
	_, err := s.pool.Exec(ctx, saveLedgerPosition, last.Tenant, digest)
	return mapError("keep collection", err)
}

const saveListing = `
UPDATE blob_collection SET listing = $1`

// SaveListing stores where the listing of the bucket continues. After nil the next run begins at the first object.
func (s *ContentStore) SaveListing(ctx context.Context, token []byte) error {
	_, err := s.pool.Exec(ctx, saveListing, token)
	return mapError("keep collection", err)
}

// expireCached keeps a cached result for a grace period after it expires, so that a call that has just used it can still refer to its dataset.
const expireCached = `
DELETE FROM result_cache WHERE ctid = ANY (ARRAY(
	SELECT ctid FROM result_cache WHERE expires_at < clock_timestamp() - $1::interval ORDER BY expires_at LIMIT $2 FOR UPDATE SKIP LOCKED))`

// ExpireCached removes at most limit cached results that expired [Config.BlobGrace] ago, and returns their number.
func (s *ContentStore) ExpireCached(ctx context.Context, limit int) (int, error) {
	tag, err := s.pool.Exec(ctx, expireCached, s.cfg.BlobGrace, limit)
	return int(tag.RowsAffected()), mapError("expire cached results", err)
}
