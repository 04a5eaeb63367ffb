package pgdev

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"go.uber.org/zap"

	"github.com/turnstone-run/turnstone/internal/devstack/child"
)

const (
	superuser = "turnstone"
	database  = "postgres"
	port      = "5432" // of the socket's name only; no TCP port is opened
)

// Server is a private PostgreSQL server owned by this process. Its methods may be called from any goroutine.
type Server struct {
	cfg    Config
	inst   installation
	home   *serverFolder
	socket string // folder of the socket

	mu      sync.Mutex     // one change of state at a time
	proc    *child.Process // the last process started
	stopped bool
}

// Start makes the cluster if there is none, starts the server and waits until it accepts connections: 2–4 s the
// first time, under one second after that. ctx bounds the start only, not the server's life.
//
// Errors: ErrNoBinaries, ErrInUse, a data directory that cannot be used, or what PostgreSQL last printed.
func Start(ctx context.Context, cfg Config) (*Server, error) {
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	acct, err := serverAccount()
	if err != nil {
		return nil, err
	}
	dir := cfg.DataDir
	if cfg.Ephemeral {
		if dir, err = makeEphemeral(acct); err != nil {
			return nil, err
		}
	}
	h, err := openHome(dir, acct)
	if err != nil {
		return nil, err
	}
	s := &Server{cfg: cfg, home: h}
	if err := s.start(ctx); err != nil {
		_ = s.discard() // it logs its own error
		return nil, err
	}
	return s, nil
}

func (s *Server) start(ctx context.Context) error {
	major, err := s.home.major()
	if err != nil {
		return err
	}
	if s.inst, err = findInstallation(ctx, s.cfg.BinDir, major); err != nil {
		return err
	}
	if major == 0 {
		s.cfg.Progress("initialising PostgreSQL (first run)…")
		if err := s.home.create(ctx, s.inst, !s.cfg.Ephemeral, s.cfg.Logger); err != nil {
			return err
		}
	}
	if s.socket, err = makeSocketFolder(s.home); err != nil {
		return err
	}
	if err := s.home.evict(ctx, s.cfg.Logger); err != nil {
		return err
	}
	s.cfg.Progress("starting PostgreSQL…")
	return s.boot(ctx)
}

// DSN returns the connection URL of the superuser on the default database. Suspend, Resume and Restart do not change it.
func (s *Server) DSN() string { return s.DSNFor(database) }

// DSNFor returns the connection URL of another database of the server.
func (s *Server) DSNFor(name string) string {
	u := url.URL{
		Scheme: "postgres", User: url.User(superuser), Path: "/" + name,
		RawQuery: url.Values{"host": {s.socket}, "port": {port}, "sslmode": {"disable"}}.Encode(),
	}
	return u.String()
}

// Pid returns the process id of the server; 0 while it is suspended, stopped or crashed.
func (s *Server) Pid() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.proc == nil || !s.proc.Alive() {
		return 0
	}
	return s.proc.Pid()
}

// Exited returns a channel that is closed when the current server process ends, also by a crash. Resume starts the server again.
func (s *Server) Exited() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.proc.Exited()
}

// Suspend shuts the server down cleanly and keeps everything for Resume: an outage, as connections see it.
func (s *Server) Suspend(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopped {
		return ErrStopped
	}
	return s.proc.Shutdown(ctx, syscall.SIGINT)
}

// Resume starts a suspended or crashed server again, under the same DSN. On a running server it does nothing.
func (s *Server) Resume(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopped {
		return ErrStopped
	}
	if s.proc.Alive() {
		return nil
	}
	return s.boot(ctx)
}

// Restart is Suspend and Resume.
func (s *Server) Restart(ctx context.Context) error {
	if err := s.Suspend(ctx); err != nil {
		return err
	}
	return s.Resume(ctx)
}

// Stop shuts the server down and releases the data directory; an ephemeral server's folder is removed. When ctx
// ends first the server is made to stop at once, and recovers at its next start. Either way no process is left.
// Stopping again does nothing.
func (s *Server) Stop(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopped {
		return nil
	}
	s.stopped = true
	return errors.Join(s.proc.Shutdown(ctx, s.stopSignal()), s.discard())
}

// stopSignal returns the signal that ends the server: at once if it is ephemeral, else after a last checkpoint.
func (s *Server) stopSignal() syscall.Signal {
	if s.cfg.Ephemeral {
		return syscall.SIGQUIT
	}
	return syscall.SIGINT
}

// boot starts the process and waits until it is ready. Processes of a crashed predecessor may hold the shared
// memory for a moment longer; that is tried again.
func (s *Server) boot(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	retryUntil := time.Now().Add(orphanGrace)
	for {
		proc, err := child.Start(ctx, s.home.acct.command(s.stopSignal(), s.cfg.Logger, s.inst.program("postgres"), s.arguments()...))
		if err != nil {
			return err
		}
		if err = s.awaitReady(ctx, proc); err == nil {
			s.proc = proc
			return nil
		}
		leftover := strings.Contains(proc.Output(), "still in use")
		if !leftover || ctx.Err() != nil || time.Now().After(retryUntil) {
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(10 * pollInterval):
		}
	}
}

// awaitReady polls the status that the server writes into postmaster.pid, as pg_ctl does: no driver needed. On
// an error the process is gone.
func (s *Server) awaitReady(ctx context.Context, proc *child.Process) error {
	tick := time.NewTicker(pollInterval)
	defer tick.Stop()
	for {
		select {
		case <-proc.Exited():
			return fmt.Errorf("postgres ended while starting (%s): %s", proc.Exit(), proc.Output())
		case <-ctx.Done():
			proc.Kill()
			return fmt.Errorf("start postgres: %w: %s", ctx.Err(), proc.Output())
		case <-tick.C:
			if state, ok := s.home.postmaster(); ok && state.pid == proc.Pid() && state.ready {
				return nil
			}
		}
	}
}

func (s *Server) arguments() []string {
	settings := []string{
		"listen_addresses=",
		"port=" + port,
		"unix_socket_directories=" + s.socket,
		"unix_socket_permissions=0777", // the folder is the gate
		"max_connections=400",          // tests run dozens of processes beside each other
		"shared_buffers=64MB",
		"jit=off",                         // costs more than it saves on short queries
		"dynamic_shared_memory_type=mmap", // in the data directory: a killed server leaks nothing in /dev/shm
		"log_min_messages=log",            // no failed statements: these carry people's data
		"log_min_error_statement=panic",
		"log_error_verbosity=terse",
	}
	if s.cfg.Ephemeral {
		settings = append(settings, "fsync=off", "synchronous_commit=off", "full_page_writes=off",
			"wal_level=minimal", "max_wal_senders=0", "max_wal_size=512MB")
	}
	args := []string{"-D", s.home.data()}
	for _, setting := range settings {
		args = append(args, "-c", setting)
	}
	return args
}

// discard removes or releases everything but the process, which has ended or was never started.
func (s *Server) discard() error {
	var err error
	if s.socket != "" && !strings.HasPrefix(s.socket, s.home.dir+string(filepath.Separator)) {
		err = os.RemoveAll(s.socket)
	}
	if s.cfg.Ephemeral {
		err = errors.Join(err, os.RemoveAll(s.home.dir))
	}
	err = errors.Join(err, s.home.lock.Release())
	if err != nil {
		s.cfg.Logger.Warn("clean up after PostgreSQL", zap.Error(err))
	}
	return err
}
