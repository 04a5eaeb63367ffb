//go:build !unix

package pgdev

import (
	"context"
	"errors"
)

// errUnsupported tells what to do on a system without Unix sockets and users.
var errUnsupported = errors.New("a private PostgreSQL server needs Linux or macOS; point to a database of your own")

// Server is never made on this system.
type Server struct{}

// Start always fails on this system.
func Start(context.Context, Config) (*Server, error) { return nil, errUnsupported }

// CheckDir always fails on this system.
func CheckDir(string) error { return errUnsupported }

// DSN is empty on this system.
func (*Server) DSN() string { return "" }

// DSNFor is empty on this system.
func (*Server) DSNFor(string) string { return "" }

// Pid is 0 on this system.
func (*Server) Pid() int { return 0 }

// Exited never closes on this system.
func (*Server) Exited() <-chan struct{} { return nil }

// Suspend always fails on this system.
func (*Server) Suspend(context.Context) error { return errUnsupported }

// Resume always fails on this system.
func (*Server) Resume(context.Context) error { return errUnsupported }

// Restart always fails on this system.
func (*Server) Restart(context.Context) error { return errUnsupported }

// Stop does nothing on this system.
func (*Server) Stop(context.Context) error { return nil }
