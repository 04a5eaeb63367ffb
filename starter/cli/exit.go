package cli

import (
	"errors"
	"fmt"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/client"
)

// The exit codes, as "starter help" documents them.
const (
	exitCompleted   = 0
	exitFailed      = 1   // the turn failed, or the server had an internal error
	exitUsage       = 2   // wrong flags, arguments or files, or a request that the server refused
	exitUnreachable = 3   // no server answered, or it is unavailable, or it limits the rate
	exitCancelled   = 4   // the turn was cancelled
	exitInterrupted = 130 // interrupted before the end
)

// errInterrupted is the error of a command that Ctrl-C ended.
var errInterrupted = errors.New("interrupted")

// turnEnded is the error of a turn that failed or was cancelled. The command has printed its events, so the error itself is not printed.
type turnEnded struct{ status agent.TurnStatus }

func (e turnEnded) Error() string { return fmt.Sprintf("the turn is %s", e.status) }

// usageError is an error in the flags, arguments or files of a command line.
type usageError struct{ error }

// exitStatus is the error of a command that has printed its result and ends with an exit code other than 0. It is not printed.
type exitStatus int

func (s exitStatus) Error() string { return fmt.Sprintf("exit code %d", int(s)) }

// exitError is an error that ends a command with the exit code code.
type exitError struct {
	error

	code int
}

func (e exitError) Unwrap() error { return e.error }

// exitCode returns the exit code for the error of a command.
func exitCode(err error) int {
	var ended turnEnded
	var status exitStatus
	var coded exitError
	switch {
	case err == nil:
		return exitCompleted
	case errors.As(err, &status):
		return int(status)
	case errors.As(err, &coded):
		return coded.code
	case errors.Is(err, errInterrupted):
		return exitInterrupted
	case errors.Is(err, client.ErrUnreachable):
		return exitUnreachable
	case errors.As(err, &ended) && ended.status == agent.TurnCancelled:
		return exitCancelled
	case errors.As(err, &ended):
		return exitFailed
	case errors.As(err, new(usageError)):
		return exitUsage
	}
	switch agent.CodeOf(err) {
	case agent.CodeInvalid, agent.CodeNotFound, agent.CodeUnauthenticated, agent.CodeDenied, agent.CodeConflict, agent.CodeOverflow:
		return exitUsage
	case agent.CodeUnavailable, agent.CodeRateLimited:
		return exitUnreachable
	default:
		return exitFailed
	}
}
