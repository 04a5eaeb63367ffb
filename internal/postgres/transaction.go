package postgres

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/turnstone-run/turnstone/agent"
)

// rollbackTimeout bounds a rollback or unlock. If it takes longer, the connection is closed, which has the same effect.
const rollbackTimeout = 2 * time.Second

// transact runs one transaction in two round trips: first begin and everything that read queues, then everything that write queues and
// commit. When write is called, the callbacks of read's queries have run. If write queues nothing, the transaction is rolled back, with
// everything that read has written. After an error that wraps [agent.ErrOutcomeUnknown] the transaction may have been committed; any other
// error means that it was not.
func (db *database) transact(ctx context.Context, read func(*pgx.Batch), write func(*pgx.Batch) error) error {
	conn, err := db.pool.Acquire(ctx)
	if err != nil {
		return err
	}
	defer release(ctx, conn)

	var first, second pgx.Batch
	first.BeginTx(pgx.TxOptions{IsoLevel: pgx.ReadCommitted})
	read(&first)
	if err := conn.SendBatch(ctx, &first).Close(); err != nil {
		return err
	}
	if err := write(&second); err != nil || second.Len() == 0 {
		return err
	}
	second.Queue("commit")
	return markUncertain(conn.SendBatch(ctx, &second).Close())
}

// markUncertain returns err wrapped in [agent.ErrOutcomeUnknown] if the connection was lost or the server stopped after the commit was sent,
// so that the transaction may have been committed.
func markUncertain(err error) error {
	if err == nil || pgconn.SafeToRetry(err) {
		return err
	}
	if pg, ok := errors.AsType[*pgconn.PgError](err); ok && !strings.HasPrefix(pg.Code, "57P") {
		return err // it refused a statement, and rolled back
	}
	return fmt.Errorf("%w: %w", agent.ErrOutcomeUnknown, err)
}

// snapshot runs the queries that read queues in one round trip. They all see the same state of the database.
func (db *database) snapshot(ctx context.Context, read func(*pgx.Batch)) error {
	conn, err := db.pool.Acquire(ctx)
	if err != nil {
		return err
	}
	defer release(ctx, conn)

	var b pgx.Batch
	b.BeginTx(pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly})
	read(&b)
	b.Queue("commit")
	return conn.SendBatch(ctx, &b).Close()
}

// release rolls back the transaction of a connection, if there is one, and returns the connection to the pool.
func release(ctx context.Context, conn *pgxpool.Conn) {
	defer conn.Release()
	if pg := conn.Conn().PgConn(); pg.IsClosed() || pg.TxStatus() == 'I' {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), rollbackTimeout)
	defer cancel()
	_, _ = conn.Exec(ctx, "rollback") // on failure Release closes the connection
}

// send runs a batch in one round trip.
func (db *database) send(ctx context.Context, b *pgx.Batch) error {
	return db.pool.SendBatch(ctx, b).Close()
}

const (
	tryLock = `SELECT pg_try_advisory_lock(hashtextextended($1, 0))`
	unlock  = `SELECT pg_advisory_unlock(hashtextextended($1, 0))`
)

// withLock takes an advisory lock and calls work, and reports whether it did; if another process holds the lock, it does nothing. The lock
// belongs to the connection, so it is released if the process dies. If the connection is lost, two processes may work at the same time, so
// that must be harmless.
func (db *database) withLock(
	ctx context.Context, op, lock string, work func(ctx context.Context, conn *pgxpool.Conn) error,
) (ran bool, err error) {
	conn, err := db.pool.Acquire(ctx)
	if err != nil {
		return false, mapError(op, err)
	}
	defer conn.Release()
	if err := conn.QueryRow(ctx, tryLock, lock).Scan(&ran); err != nil || !ran {
		return false, mapError(op, err)
	}
	defer func() {
		ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), rollbackTimeout)
		defer cancel()
		if _, err := conn.Exec(ending, unlock, lock); err != nil {
			_ = conn.Conn().Close(ending) // which unlocks as well
		}
	}()
	return true, work(ctx, conn)
}
