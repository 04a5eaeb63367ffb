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

// rollbackTimeout bounds the clean-up of a connection. A connection that needs longer is closed, which rolls back as well.
const rollbackTimeout = 2 * time.Second

// transact runs one transaction in two round trips: begin and everything that read queues, then everything that write queues and commit.
// write sees what the callbacks of read's queries have set. If it queues nothing, the transaction is rolled back with whatever read wrote.
// Errors are those of pgx, or write's own. After an error that wraps [agent.ErrOutcomeUnknown] the transaction may be committed; after any
// other it is not.
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

// markUncertain makes an error wrap [agent.ErrOutcomeUnknown] if the server may have carried out the commit: the connection was lost, or
// the server stopped, after the commit was sent.
func markUncertain(err error) error {
	if err == nil || pgconn.SafeToRetry(err) {
		return err
	}
	if pg, ok := errors.AsType[*pgconn.PgError](err); ok && !strings.HasPrefix(pg.Code, "57P") {
		return err // it refused a statement, and rolled back
	}
	return fmt.Errorf("%w: %w", agent.ErrOutcomeUnknown, err)
}

// snapshot runs everything that read queues in one round trip against one state of the database.
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

// release ends the transaction of a connection, if there is one, and gives the connection back to the pool.
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

// withLock calls work while no other process holds the lock of that name, and reports whether it did. The lock belongs to the connection: a
// process that dies releases it. If a connection is lost, two processes may work at the same time, which must do no harm.
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
