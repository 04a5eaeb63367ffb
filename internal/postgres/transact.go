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

// rollbackTimeout bounds the clean-up of a connection; one that takes longer is closed, which rolls back as well.
const rollbackTimeout = 2 * time.Second

// transact runs one transaction in two round trips: begin and everything that read queues, then everything that write queues and
// commit. write sees what the callbacks of read's queries have set. When it queues nothing there is nothing to commit: the
// transaction is rolled back, with whatever read wrote. Errors are those of pgx, or write's own. One that wraps [agent.ErrOutcomeUnknown]
// leaves open whether it was committed; after any other it was not.
func transact(ctx context.Context, pool *pgxpool.Pool, read func(*pgx.Batch), write func(*pgx.Batch) error) error {
	conn, err := pool.Acquire(ctx)
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
	return uncertain(conn.SendBatch(ctx, &second).Close())
}

// uncertain marks an error of a commit that the server may have carried out: the connection was lost, or the server stopped, after it was sent.
func uncertain(err error) error {
	if err == nil || pgconn.SafeToRetry(err) {
		return err
	}
	if pg, ok := errors.AsType[*pgconn.PgError](err); ok && !strings.HasPrefix(pg.Code, "57P") {
		return err // it refused a statement, and rolled back
	}
	return fmt.Errorf("%w: %w", agent.ErrOutcomeUnknown, err)
}

// snapshot runs everything that read queues in one round trip against one state of the database.
func snapshot(ctx context.Context, pool *pgxpool.Pool, read func(*pgx.Batch)) error {
	conn, err := pool.Acquire(ctx)
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

// release gives a connection back, out of its transaction. The pool closes one that is still in it.
func release(ctx context.Context, conn *pgxpool.Conn) {
	defer conn.Release()
	if pg := conn.Conn().PgConn(); pg.IsClosed() || pg.TxStatus() == 'I' {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), rollbackTimeout)
	defer cancel()
	_, _ = conn.Exec(ctx, "rollback") // on failure Release closes the connection
}
