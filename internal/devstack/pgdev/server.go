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
	port      = "5432" // part of the socket's name; the server has no TCP port
)

// Server is a running or suspended PostgreSQL server. Its methods may be called by any goroutine.
type Server struct {
	cfg    Config
	inst   installation
	folder *serverFolder
	socket string // folder of the socket

	mu      sync.Mutex     // serializes changes of state
	proc    *child.Process // the last process started
	stopped bool
}

// Start creates the cluster if there is none, starts the server and waits until it accepts connections. That takes 2–4 s the first time, and less than
// one second later. ctx bounds the start only.
//
// Errors are ErrNoBinaries, ErrInUse, those of a data directory that cannot be used, or the output of PostgreSQL.
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
		if dir, err = createEphemeral(acct); err != nil {
			return nil, err
		}
	}
	folder, err := openFolder(dir, acct)
	if err != nil {
		return nil, err
	}
	s := &Server{cfg: cfg, folder: folder}
	if err := s.start(ctx); err != nil {
		_ = s.cleanUp() // logs its error
		return nil, err
	}
	return s, nil
}

func (s *Server) start(ctx context.Context) error {
	major, err := s.folder.major()
	if err != nil {
		return err
	}
	if s.inst, err = findInstallation(ctx, s.cfg.BinDir, major); err != nil {
		return err
	}
	if major == 0 {
		s.cfg.Progress("initialising PostgreSQL (first run)…")
		if err := s.folder.create(ctx, s.inst, !s.cfg.Ephemeral, s.cfg.Logger); err != nil {
			return err
		}
	}
	if s.socket, err = createSocketFolder(s.folder); err != nil {
		return err
	}
	if err := s.folder.stopFormer(ctx, s.cfg.Logger); err != nil {
		return err
	}
	s.cfg.Progress("starting PostgreSQL…")
	return s.startProcess(ctx)
}

// DSN returns the connection URL for the superuser and the default database. Suspend, Resume and Restart do not change it.
func (s *Server) DSN() string { return s.DSNFor(database) }

// DSNFor returns the connection URL for the superuser and another database.
func (s *Server) DSNFor(name string) string {
	u := url.URL{
		Scheme: "postgres", User: url.User(superuser), Path: "/" + name,
		RawQuery: url.Values{"host": {s.socket}, "port": {port}, "sslmode": {"disable"}}.Encode(),
	}
	return u.String()
}

// Pid returns the process id of the server, or 0 if it does not run.
func (s *Server) Pid() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.proc == nil || !s.proc.Alive() {
		return 0
	}
	return s.proc.Pid()
}

// Exited returns a channel that is closed when the current server process ends.
func (s *Server) Exited() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.proc.Exited()
}

// Suspend shuts the server down cleanly until Resume. Its clients lose their connections.
func (s *Server) Suspend(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopped {
		return ErrStopped
	}
	return s.proc.Shutdown(ctx, syscall.SIGINT)
}

// Resume starts a suspended or crashed server again, with the same DSN. If the server runs, it does nothing.
func (s *Server) Resume(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopped {
		return ErrStopped
	}
	if s.proc.Alive() {
		return nil
	}
	return s.startProcess(ctx)
}

// Restart is Suspend followed by Resume.
func (s *Server) Restart(ctx context.Context) error {
	if err := s.Suspend(ctx); err != nil {
		return err
	}
	return s.Resume(ctx)
}

// Stop shuts the server down and unlocks its folder, or removes the folder of an ephemeral server. When ctx ends first, it makes the server stop at
// once, which then recovers at its next start. Stopping again does nothing.
func (s *Server) Stop(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopped {
		return nil
	}
	s.stopped = true
	return errors.Join(s.proc.Shutdown(ctx, s.stopSignal()), s.cleanUp())
}

// stopSignal returns the signal that stops an ephemeral server at once, and any other after a checkpoint.
func (s *Server) stopSignal() syscall.Signal {
	if s.cfg.Ephemeral {
		return syscall.SIGQUIT
	}
	return syscall.SIGINT
}

// startProcess starts the server process and waits until it is ready. It retries while processes of a crashed server still use the shared memory.
func (s *Server) startProcess(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	retryUntil := time.Now().Add(orphanGrace)
	for {
		proc, err := child.Start(ctx, s.folder.acct.command(s.stopSignal(), s.cfg.Logger, s.inst.program("postgres"), s.arguments()...))
		if err != nil {
			return err
		}
		if err = s.awaitReady(ctx, proc); err == nil {
			s.proc = proc
			return nil
		}
		memoryInUse := strings.Contains(proc.Output(), "still in use")
		if !memoryInUse || ctx.Err() != nil || time.Now().After(retryUntil) {
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(10 * pollInterval):
		}
	}
}

// awaitReady waits until the status in postmaster.pid is ready, as pg_ctl does. After an error the process has ended.
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
			if p, ok := s.folder.postmaster(); ok && p.pid == proc.Pid() && p.ready {
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
		"unix_socket_permissions=0777", // the folder of the socket limits access
		"max_connections=400",          // because tests run dozens of processes at the same time
		"shared_buffers=64MB",
		"jit=off",                         // costs more than it saves on short queries
		"dynamic_shared_memory_type=mmap", // in the data directory, so that a killed server leaves nothing in /dev/shm
		"log_min_messages=log",            // not failed statements, which contain data of users
		"log_min_error_statement=panic",
		"log_error_verbosity=terse",
	}
	if s.cfg.Ephemeral {
		settings = append(settings, "fsync=off", "synchronous_commit=off", "full_page_writes=off",
			"wal_level=minimal", "max_wal_senders=0", "max_wal_size=512MB")
	}
	args := []string{"-D", s.folder.data()}
	for _, setting := range settings {
		args = append(args, "-c", setting)
	}
	return args
}

// cleanUp removes or unlocks the folders of a server that does not run.
func (s *Server) cleanUp() error {
	var err error
	if s.socket != "" && !strings.HasPrefix(s.socket, s.folder.dir+string(filepath.Separator)) {
		err = os.RemoveAll(s.socket)
	}
	if s.cfg.Ephemeral {
		err = errors.Join(err, os.RemoveAll(s.folder.dir))
	}
	err = errors.Join(err, s.folder.lock.Release())
	if err != nil {
		s.cfg.Logger.Warn("clean up after PostgreSQL", zap.Error(err))
	}
	return err
}
