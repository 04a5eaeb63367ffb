package postgres

import (
	"cmp"
	"context"
	"errors"

	"github.com/jackc/pgx/v5"
)

// querier is a pool, a connection or a transaction.
type querier interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
}

// execAll executes statements one after the other, all with the same arguments, up to the first that fails.
func execAll(ctx context.Context, tx pgx.Tx, statements []string, args ...any) error {
	for _, sql := range statements {
		if _, err := tx.Exec(ctx, sql, args...); err != nil {
			return err
		}
	}
	return nil
}

// queryRows returns the rows of a query, each read by scan.
func queryRows[T any](ctx context.Context, q querier, scan pgx.RowToFunc[T], sql string, args ...any) ([]T, error) {
	rows, err := q.Query(ctx, sql, args...)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, scan)
}

// queryRow returns the only row of a query. If there is none, the error is missing, or [pgx.ErrNoRows] if missing is nil.
func queryRow[T any](ctx context.Context, q querier, missing error, scan pgx.RowToFunc[T], sql string, args ...any) (T, error) {
	rows, err := q.Query(ctx, sql, args...)
	if err != nil {
		var zero T
		return zero, err
	}
	row, err := pgx.CollectExactlyOneRow(rows, scan)
	return row, ifNoRows(err, cmp.Or(missing, err))
}

// queueRows queues a query and stores its rows in *into.
func queueRows[T any](b *pgx.Batch, into *[]T, scan pgx.RowToFunc[T], sql string, args ...any) {
	b.Queue(sql, args...).Query(func(rows pgx.Rows) (err error) {
		*into, err = pgx.CollectRows(rows, scan)
		return err
	})
}

// queueRow queues a query and stores its only row in *into. The errors are those of [queryRow].
func queueRow[T any](b *pgx.Batch, into *T, missing error, scan pgx.RowToFunc[T], sql string, args ...any) {
	b.Queue(sql, args...).Query(func(rows pgx.Rows) (err error) {
		*into, err = pgx.CollectExactlyOneRow(rows, scan)
		return ifNoRows(err, cmp.Or(missing, err))
	})
}

// queueExists queues a query without columns. If the query finds no row, the error is missing.
func queueExists(b *pgx.Batch, missing error, sql string, args ...any) {
	b.Queue(sql, args...).QueryRow(scanOr(missing))
}

// scanInto returns a handler of a queued query that scans its only row.
func scanInto(into ...any) func(pgx.Row) error {
	return func(row pgx.Row) error { return row.Scan(into...) }
}

// scanOr is [scanInto], except that the error is missing if the query finds no row.
func scanOr(missing error, into ...any) func(pgx.Row) error {
	return func(row pgx.Row) error { return ifNoRows(row.Scan(into...), missing) }
}

// scanOptional is [scanInto], except that it changes nothing if the query finds no row.
func scanOptional(into ...any) func(pgx.Row) error { return scanOr(nil, into...) }

// scanFound is [scanOptional] that also sets *found to whether the query finds a row.
func scanFound(found *bool, into ...any) func(pgx.Row) error {
	return func(row pgx.Row) error {
		err := row.Scan(into...)
		*found = err == nil
		return ignoreNoRows(err)
	}
}

// ifNoRows returns missing if err is [pgx.ErrNoRows], and err otherwise.
func ifNoRows(err, missing error) error {
	if errors.Is(err, pgx.ErrNoRows) {
		return missing
	}
	return err
}

// ignoreNoRows returns nil if err is [pgx.ErrNoRows], and err otherwise.
func ignoreNoRows(err error) error { return ifNoRows(err, nil) }
