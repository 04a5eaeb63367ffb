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

// queryRows returns the rows of a query, each read by scan.
func queryRows[T any](ctx context.Context, q querier, scan pgx.RowToFunc[T], sql string, args ...any) ([]T, error) {
	rows, err := q.Query(ctx, sql, args...)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, scan)
}

// queryRow returns the only row of a query. If there is no row, the error is missing, or [pgx.ErrNoRows] if missing is nil.
func queryRow[T any](ctx context.Context, q querier, missing error, scan pgx.RowToFunc[T], sql string, args ...any) (T, error) {
	rows, err := q.Query(ctx, sql, args...)
	if err != nil {
		var none T
		return none, err
	}
	row, err := pgx.CollectExactlyOneRow(rows, scan)
	return row, ifNoRows(err, cmp.Or(missing, err))
}

// queueRows queues a query whose rows become *into.
func queueRows[T any](b *pgx.Batch, into *[]T, scan pgx.RowToFunc[T], sql string, args ...any) {
	b.Queue(sql, args...).Query(func(rows pgx.Rows) (err error) {
		*into, err = pgx.CollectRows(rows, scan)
		return err
	})
}

// queueRow queues a query whose only row becomes *into. The errors are those of [queryRow].
func queueRow[T any](b *pgx.Batch, into *T, missing error, scan pgx.RowToFunc[T], sql string, args ...any) {
	b.Queue(sql, args...).Query(func(rows pgx.Rows) (err error) {
		*into, err = pgx.CollectExactlyOneRow(rows, scan)
		return ifNoRows(err, cmp.Or(missing, err))
	})
}

// queueExists queues a query without columns. The error is missing if it finds no row.
func queueExists(b *pgx.Batch, missing error, sql string, args ...any) {
	b.Queue(sql, args...).QueryRow(scanOr(missing))
}

// scanInto returns a handler of a queued query that scans its only row.
func scanInto(into ...any) func(pgx.Row) error {
	return func(row pgx.Row) error { return row.Scan(into...) }
}

// scanOr is [scanInto] with another error if the query finds no row.
func scanOr(missing error, into ...any) func(pgx.Row) error {
	return func(row pgx.Row) error { return ifNoRows(row.Scan(into...), missing) }
}

// scanOptional is [scanInto] for a query that may find no row. Then it changes nothing.
func scanOptional(into ...any) func(pgx.Row) error { return scanOr(nil, into...) }

// scanFound is [scanOptional] that also sets whether the query found a row.
func scanFound(found *bool, into ...any) func(pgx.Row) error {
	return func(row pgx.Row) error {
		err := row.Scan(into...)
		*found = err == nil
		return optional(err)
	}
}

// ifNoRows returns instead if err says that a query found no row, else err.
func ifNoRows(err, instead error) error {
	if errors.Is(err, pgx.ErrNoRows) {
		return instead
	}
	return err
}

// optional returns nil if err says that a query found no row, else err.
func optional(err error) error { return ifNoRows(err, nil) }
