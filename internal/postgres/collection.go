package postgres

import (
	"context"

	"github.com/jackc/pgx/v5/pgxpool"
)

// Collection is how far the collection of stored content has come, over all runs and processes.
type Collection struct {
	Due     bool       // false: releases may run that put content without noting it
	Last    StoredBlob // the last row of the ledger that was looked at; zero: begin
	Listing []byte     // where the look through the bucket goes on; nil: begin
}

const readCollection = `
SELECT clock_timestamp() >= not_before, tenant, digest, listing FROM blob_collection`

// Collect calls work with how far the collection has come while no other process does so, and says whether it could.
func (s *Store) Collect(ctx context.Context, work func(ctx context.Context, c Collection) error) (ran bool, err error) {
	const op = "begin collection"
	return s.alone(ctx, op, "turnstone collection of content", func(ctx context.Context, conn *pgxpool.Conn) error {
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

const (
	tryLock = `SELECT pg_try_advisory_lock(hashtextextended($1, 0))`
	unlock  = `SELECT pg_advisory_unlock(hashtextextended($1, 0))`
)

// alone calls work while no other process holds the lock of a name, and reports whether it did. The lock goes with the connection, so that
// a process that dies holds nobody up; that two work at once after all, should a connection be lost, must do no harm.
func (s *Store) alone(ctx context.Context, op, name string, work func(ctx context.Context, conn *pgxpool.Conn) error) (ran bool, err error) {
	conn, err := s.pool.Acquire(ctx)
	if err != nil {
		return false, mapError(op, err)
	}
	defer conn.Release()
	if err := conn.QueryRow(ctx, tryLock, name).Scan(&ran); err != nil || !ran {
		return false, mapError(op, err)
	}
	defer func() {
		ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), rollbackTimeout)
		defer cancel()
		if _, err := conn.Exec(ending, unlock, name); err != nil {
			_ = conn.Conn().Close(ending) // which unlocks as well
		}
	}()
	return true, work(ctx, conn)
}

const saveLooked = `
UPDATE blob_collection SET tenant = $1, digest = $2`

// Looked keeps how far the ledger was looked through; the zero row is for the next run to begin anew.
func (s *Store) Looked(ctx context.Context, last StoredBlob) error {
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

// Listed keeps how far the bucket was looked through, nil for the next run to begin anew.
func (s *Store) Listed(ctx context.Context, token []byte) error {
	_, err := s.pool.Exec(ctx, saveListed, token)
	return mapError("keep collection", err)
}

// What the cache remembers refers to its dataset for a grace beyond its time, so that whoever was told of it at the last moment can refer
// to it too.
const expireCached = `
DELETE FROM result_cache WHERE ctid = ANY (ARRAY(
	SELECT ctid FROM result_cache WHERE expires_at < clock_timestamp() - $1::interval ORDER BY expires_at LIMIT $2 FOR UPDATE SKIP LOCKED))`

// ExpireCached takes at most limit remembered results away that have been too old for [Config.BlobGrace], and says how many.
func (s *Store) ExpireCached(ctx context.Context, limit int) (int, error) {
	tag, err := s.pool.Exec(ctx, expireCached, s.cfg.BlobGrace, limit)
	return int(tag.RowsAffected()), mapError("expire cached results", err)
}
