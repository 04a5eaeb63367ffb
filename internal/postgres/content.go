package postgres

import (
	"context"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/turnstone-run/turnstone/agent"
)

// ContentStore keeps the ledger of stored content, who refers to it, and the progress of its collection.
type ContentStore struct{ *database }

const refScheme = "cas://sha256:"

// StoredBlob is content of the blob store in the ledger.
type StoredBlob struct {
	Tenant string
	Ref    string // cas://sha256:<hex>
	Bytes  int64  // uncompressed; for adopted content the size of its object
}

// digestOf returns the digest of a reference, as the tables blobs and blob_refs have it.
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

// Putting records that somebody is about to store content, whether or not it is stored: it stays for [Config.BlobGrace] from now without a
// reference to it. Call it before the bucket is asked.
func (s *ContentStore) Putting(ctx context.Context, tenant, ref string, size int64) error {
	digest, err := digestOf(ref)
	if err != nil {
		return err
	}
	_, err = s.pool.Exec(ctx, putBlob, tenant, digest, size)
	return mapError("note content", err)
}

// Content without a row was stored before there were rows, or has been released before: it can be removed at once.
const releaseBlob = `
WITH held AS (
	SELECT FROM blob_refs WHERE tenant = $1 AND digest = $2 LIMIT 1
), gone AS (
	DELETE FROM blobs WHERE tenant = $1 AND digest = $2 AND put_at < clock_timestamp() - $3::interval AND NOT EXISTS (SELECT FROM held)
	RETURNING tenant
)
SELECT EXISTS (SELECT FROM gone) OR NOT EXISTS (SELECT FROM held) AND NOT EXISTS (SELECT FROM blobs WHERE tenant = $1 AND digest = $2)`

// Release removes content from the ledger, in one statement, if nobody refers to it and nobody has stored it within [Config.BlobGrace]. If
// released is true, the content may be removed. The clock is the database's.
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

// Adopt adds content that was found in the bucket to the ledger, as if it were stored now, and returns how much was new.
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

const readUnheld = `
SELECT b.tenant, b.digest, b.bytes,
	b.put_at < clock_timestamp() - $4::interval AND NOT EXISTS (SELECT FROM blob_refs r WHERE r.tenant = b.tenant AND r.digest = b.digest)
FROM (
	SELECT tenant, digest, bytes, put_at FROM blobs WHERE (tenant, digest) > ($1, $2) ORDER BY tenant, digest LIMIT $3
) b ORDER BY b.tenant, b.digest`

// Unheld reads the next rows of the ledger after last, in the order of tenant and reference, at most limit. It returns those whose content
// may be released, how many rows it read (0 at the end), and the last of them.
func (s *ContentStore) Unheld(
	ctx context.Context, last StoredBlob, limit int,
) (unheld []StoredBlob, looked int, next StoredBlob, err error) {
	const op = "look for content to collect"
	rows, err := s.pool.Query(ctx, readUnheld, last.Tenant, strings.TrimPrefix(last.Ref, refScheme), limit, s.cfg.BlobGrace)
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
		looked, next = looked+1, b
		if isFree {
			unheld = append(unheld, b)
		}
		return nil
	})
	return unheld, looked, next, mapError(op, err)
}

// Collection is the progress of the collection of stored content, over all runs and processes.
type Collection struct {
	Due     bool       // false: older releases may run, which store content without the ledger
	Last    StoredBlob // the last row of the ledger that was read; zero: begin
	Listing []byte     // where the listing of the bucket continues; nil: begin
}

const readCollection = `
SELECT clock_timestamp() >= not_before, tenant, digest, listing FROM blob_collection`

// Collect calls work with the progress of the collection, unless another process does so, and reports whether it did.
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

const saveLooked = `
UPDATE blob_collection SET tenant = $1, digest = $2`

// Looked stores the last row of the ledger that was read. After the zero row the next run begins again.
func (s *ContentStore) Looked(ctx context.Context, last StoredBlob) error {
	digest := ""
	if last != (StoredBlob{}) {
		var err error
		if digest, err = digestOf(last.Ref); err != nil {
			return err
		}
	}
	_, err := s.pool.Exec(ctx, saveLooked, last.Tenant, digest)
	return mapError("keep collection", err)
}

const saveListed = `
UPDATE blob_collection SET listing = $1`

// Listed stores where the listing of the bucket continues. After nil the next run begins again.
func (s *ContentStore) Listed(ctx context.Context, token []byte) error {
	_, err := s.pool.Exec(ctx, saveListed, token)
	return mapError("keep collection", err)
}

// A cached result keeps its dataset for a grace period beyond its time, so that a call that got it at the last moment can still refer to
// the dataset.
const expireCached = `
DELETE FROM result_cache WHERE ctid = ANY (ARRAY(
	SELECT ctid FROM result_cache WHERE expires_at < clock_timestamp() - $1::interval ORDER BY expires_at LIMIT $2 FOR UPDATE SKIP LOCKED))`

// ExpireCached removes at most limit cached results whose time has been over for [Config.BlobGrace], and returns how many.
func (s *ContentStore) ExpireCached(ctx context.Context, limit int) (int, error) {
	tag, err := s.pool.Exec(ctx, expireCached, s.cfg.BlobGrace, limit)
	return int(tag.RowsAffected()), mapError("expire cached results", err)
}
