package pgstream

import (
	"context"
	"errors"
	"io"
	"net"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/puddle/v2"

	"github.com/turnstone-run/turnstone/agent"
)

const (
	sqlReady  = `SELECT to_regclass('stream_peers') IS NOT NULL`
	sqlAppend = `SELECT outcome, last_index, cancelled FROM turnstone_append($1, $2, $3, $4, $5, $6)`
	sqlCancel = `SELECT turnstone_cancel($1)`
	sqlClose  = `SELECT last_index FROM turnstone_close($1, $2)`
	sqlEnd    = `SELECT turnstone_end($1, $2, $3, $4, $5)`

	// As turnstone_append judges, without its lock.
	sqlTouch = `
		SELECT CASE WHEN p.epoch IS DISTINCT FROM $3::bigint AND s.swept IS NOT TRUE THEN 'fenced'
		            WHEN s.closed_at IS NOT NULL THEN 'closed' ELSE 'ok' END,
		       coalesce(s.last_index, 0), coalesce(s.cancelled, false)
		FROM (VALUES ($1, $2)) AS asked (stream_id, producer)
		LEFT JOIN streams s USING (stream_id)
		LEFT JOIN stream_producers p USING (stream_id, producer)`

	sqlTail = `
		SELECT CASE WHEN s.first_index <= s.last_index THEN s.first_index ELSE 0 END,
		       coalesce(s.last_index, 0), s.closed_at IS NOT NULL, coalesce(s.cancelled, false)
		FROM (VALUES ($1)) AS asked (stream_id) LEFT JOIN streams s USING (stream_id)`

	// One snapshot of the stream's state and its next events: at most $3 of them, and no more once $4 bytes are exceeded. The
	// sizes are summed before the events themselves are fetched.
	sqlPage = `
		SELECT s.first_index, s.last_index, s.closed_at IS NOT NULL, coalesce(s.owner, ''), clock_timestamp(), e.event_index, e.tokens, e.event
		FROM streams s LEFT JOIN LATERAL (
			SELECT event_index, tokens, event
			FROM (
				SELECT event_index, tokens, event, sum(size) OVER (ORDER BY event_index) - size AS before
				FROM events WHERE stream_id = s.stream_id AND event_index > $2 ORDER BY event_index LIMIT $3
			) AS sized
			WHERE before < $4
		) AS e ON true
		WHERE s.stream_id = $1
		ORDER BY e.event_index`

	sqlNewest = `SELECT stream_id, last_index FROM streams WHERE stream_id = ANY($1)`
)

// fail gives an error of the database a code: [agent.CodeUnavailable] if a retry can help. If the caller's context has ended, it returns that error.
func fail(ctx context.Context, op string, err error) error {
	if interrupted := agent.Interrupted(ctx, op); interrupted != nil {
		return interrupted
	}
	if unavailable(err) {
		return &agent.Error{Code: agent.CodeUnavailable, Op: op, Err: err, Public: "the database does not answer"}
	}
	return agent.Errorf(agent.CodeInternal, op, "%w", err)
}

func unavailable(err error) bool {
	if pg, ok := errors.AsType[*pgconn.PgError](err); ok {
		switch {
		case strings.HasPrefix(pg.Code, "08"), // connection exceptions
			strings.HasPrefix(pg.Code, "53"),                           // insufficient resources: connections, disk, memory
			strings.HasPrefix(pg.Code, "57"),                           // shut down, starting up, statement timeout
			pg.Code == "40001", pg.Code == "40P01", pg.Code == "55P03": // serialization, deadlock, lock not available
			return true
		}
		return false
	}
	var connect *pgconn.ConnectError
	var network net.Error
	return errors.As(err, &connect) || errors.As(err, &network) || pgconn.SafeToRetry(err) || pgconn.Timeout(err) ||
		errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, net.ErrClosed) ||
		errors.Is(err, context.DeadlineExceeded) || errors.Is(err, puddle.ErrClosedPool)
}
