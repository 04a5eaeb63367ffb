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
	exitFailed      = 1   // the turn failed, or the server did
	exitUsage       = 2   // wrong flags, arguments or files, or a request that the server refused
	exitUnreachable = 3   // no server answered, or it lets nobody in just now
	exitCancelled   = 4   // the turn was cancelled
	exitInterrupted = 130 // interrupted before the end
)

// errInterrupted ends a command on Ctrl-C; the turn, if any, was asked to stop before or goes on.
var errInterrupted = errors.New("interrupted")

// turnEnded reports a turn that ended other than completed; its own words have been printed.
type turnEnded struct{ status agent.TurnStatus }

func (e turnEnded) Error() string { return fmt.Sprintf("the turn is %s", e.status) }

// usageError is a fault of the command line that cobra does not find by itself.
type usageError struct{ error }

// outcome ends a command with an exit code that its help documents; what it means has been printed.
type outcome int

func (o outcome) Error() string { return fmt.Sprintf("exit code %d", int(o)) }

// exitError gives an error the exit code that a command's help documents for it.
type exitError struct {
	error

	code int
}

func (t exitError) Unwrap() error { return t.error }

// exitCode maps what a command returned to the process's exit code.
func exitCode(err error) int {
	var ended turnEnded
	var own outcome
	var given exitError
	switch {
	case err == nil:
		return exitCompleted
	case errors.As(err, &own):
		return int(own)
	case errors.As(err, &given):
		return given.code
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
