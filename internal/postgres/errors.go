package postgres

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"syscall"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/puddle/v2"

	"github.com/turnstone-run/turnstone/agent"
)

// mapError returns an error of pgx as an [agent.Error]. If a retry may help, as after a lost connection, its code is [agent.CodeUnavailable].
// An error that is already an [agent.Error] is returned unchanged.
func mapError(op string, err error) error {
	if err == nil {
		return nil
	}
	if _, ok := errors.AsType[*agent.Error](err); ok {
		return err
	}
	if errors.Is(err, agent.ErrFenced) {
		return fmt.Errorf("%s: %w", op, err)
	}
	e := &agent.Error{Code: codeOf(err), Op: op, Err: err}
	if e.Code == agent.CodeUnavailable { // the text of the cause contains hosts, sockets or users
		e.Public = "the database does not answer"
	}
	return e
}

// isViolation reports whether err is the violation of a constraint.
func isViolation(err error, constraint string) bool {
	var pg *pgconn.PgError
	return errors.As(err, &pg) && pg.ConstraintName == constraint
}

func codeOf(err error) agent.Code {
	var pg *pgconn.PgError
	switch {
	case errors.As(err, &pg):
		return codeOfState(pg.Code)
	case errors.Is(err, pgx.ErrNoRows):
		return agent.CodeNotFound
	case errors.Is(err, context.Canceled):
		return agent.CodeCancelled
	case isConnectionLost(err):
		return agent.CodeUnavailable
	default:
		return agent.CodeInternal
	}
}

// codeOfState returns the code for a SQLSTATE (PostgreSQL manual, appendix A).
func codeOfState(state string) agent.Code {
	switch state {
	case "23505": // unique_violation
		return agent.CodeConflict
	case "23503": // foreign_key_violation
		return agent.CodeNotFound
	case "25P03", // idle_in_transaction_session_timeout
		"25006",                   // read_only_sql_transaction: a standby, just after a fail-over
		"40001", "40P01", "55P03", // serialization_failure, deadlock_detected, lock_not_available
		"57014",                            // query_canceled: the statement timeout
		"57P01", "57P02", "57P03", "57P05": // shutdown, crash, starting up, idle session
		return agent.CodeUnavailable
	}
	if len(state) != 5 {
		return agent.CodeInternal
	}
	switch state[:2] {
	case "08", "53", "58": // connection, resources, system
		return agent.CodeUnavailable
	case "22": // data that a column cannot hold
		return agent.CodeInvalid
	case "54": // program limits
		return agent.CodeOverflow
	default:
		return agent.CodeInternal
	}
}

func isConnectionLost(err error) bool {
	var (
		netErr     net.Error
		connectErr *pgconn.ConnectError
	)
	switch {
	case errors.As(err, &connectErr), errors.As(err, &netErr), pgconn.SafeToRetry(err), pgconn.Timeout(err):
		return true
	}
	return slices.ContainsFunc([]error{
		io.EOF, io.ErrUnexpectedEOF, net.ErrClosed, context.DeadlineExceeded, puddle.ErrClosedPool,
		syscall.ECONNRESET, syscall.ECONNREFUSED, syscall.EPIPE,
	}, func(cause error) bool { return errors.Is(err, cause) })
}
