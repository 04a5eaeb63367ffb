package pgdev

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"go.uber.org/zap"

	"github.com/turnstone-run/turnstone/internal/devstack/child"
)

// serverFolder is the folder of one server and the lock on it.
type serverFolder struct {
	dir  string
	acct account
	lock *Lock
}

func (h *serverFolder) data() string { return filepath.Join(h.dir, "data") }

// openHome makes the folder when missing and takes its lock.
func openHome(dir string, acct account) (*serverFolder, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, fmt.Errorf("data directory %q: %w", dir, err)
	}
	if err := acct.canReach(dir); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("data directory: %w", err)
	}
	// Links resolved, so that the path equals the working directory the kernel reports for a server.
	if dir, err = filepath.EvalSymlinks(dir); err != nil {
		return nil, fmt.Errorf("data directory: %w", err)
	}
	// Again, for a umask that made folders which the server's user cannot enter.
	if err := acct.canReach(dir); err != nil {
		return nil, err
	}
	lock, err := LockFolder(dir)
	if err != nil {
		return nil, fmt.Errorf("data directory %q: %w", dir, err)
	}
	return &serverFolder{dir: dir, acct: acct, lock: lock}, nil
}

// major returns the release that wrote the cluster; 0 if there is none yet.
func (h *serverFolder) major() (int, error) {
	raw, err := os.ReadFile(filepath.Join(h.data(), "PG_VERSION"))
	if errors.Is(err, os.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("cluster version: %w", err)
	}
	major, err := strconv.Atoi(strings.TrimSpace(string(raw)))
	if err != nil {
		return 0, fmt.Errorf("cluster version in %q: %w", h.data(), err)
	}
	return major, nil
}

// create makes the cluster beside its final place and then moves it there, so that an interrupted first run leaves no incomplete cluster.
func (h *serverFolder) create(ctx context.Context, inst installation, durable bool, log *zap.Logger) error {
	ctx, cancel := context.WithTimeout(ctx, initTimeout)
	defer cancel()

	if entries, err := os.ReadDir(h.data()); err == nil && len(entries) > 0 {
		return fmt.Errorf("%q exists but is not a PostgreSQL cluster; move it away", h.data())
	}
	fresh := h.data() + ".new"
	if err := os.RemoveAll(fresh); err != nil {
		return fmt.Errorf("remove half-made cluster: %w", err)
	}
	if err := os.Mkdir(fresh, 0o700); err != nil {
		return fmt.Errorf("make cluster folder: %w", err)
	}
	if err := h.acct.takeOwnership(fresh); err != nil {
		return fmt.Errorf("make cluster folder: %w", err)
	}
	// Trust is safe: only the socket's folder leads to the server, and only its owner may enter that.
	args := []string{
		"--pgdata=" + fresh, "--username=" + superuser, "--auth-local=trust", "--auth-host=reject",
		"--encoding=UTF8", "--no-locale", "--no-instructions",
	}
	if !durable {
		args = append(args, "--no-sync")
	}
	if err := child.Run(ctx, h.acct.command(syscall.SIGKILL, log, inst.program("initdb"), args...)); err != nil {
		return fmt.Errorf("initialise cluster: %w", err)
	}
	if err := os.Rename(fresh, h.data()); err != nil {
		return fmt.Errorf("put cluster in place: %w", err)
	}
	return nil
}

// postmaster is the content of postmaster.pid.
type postmaster struct {
	pid   int
	ready bool
}

// postmaster reads postmaster.pid; false if it cannot be read.
func (h *serverFolder) postmaster() (postmaster, bool) {
	raw, err := os.ReadFile(filepath.Join(h.data(), "postmaster.pid"))
	if err != nil {
		return postmaster{}, false
	}
	// Lines: pid, data directory, start time, port, socket folder, listen address, shared memory, status.
	lines := strings.Split(string(raw), "\n")
	pid, err := strconv.Atoi(strings.TrimSpace(lines[0]))
	if err != nil || pid <= 1 {
		return postmaster{}, false
	}
	status := ""
	if len(lines) > 7 {
		status = strings.TrimSpace(lines[7])
	}
	return postmaster{pid: pid, ready: status == "ready" || status == "standby"}, true // a standby answers readers
}

// evict stops the server of a former owner, which is dead because we hold the lock, and waits for its end. It removes a pid file that names no
// server of ours: the number may belong to another process by now, and would keep our server from starting.
func (h *serverFolder) evict(ctx context.Context, log *zap.Logger) error {
	ctx, cancel := context.WithTimeout(ctx, orphanGrace)
	defer cancel()
	asked := false
	for {
		former, ok := h.postmaster()
		if !ok {
			return nil
		}
		if !serves(former.pid, h.data()) {
			if err := os.Remove(filepath.Join(h.data(), "postmaster.pid")); err != nil && !errors.Is(err, os.ErrNotExist) {
				return fmt.Errorf("remove stale pid file: %w", err)
			}
			return nil
		}
		if !asked {
			asked = true
			log.Info("stopping the PostgreSQL server that a former run left", zap.Int("pid", former.pid))
			if err := syscall.Kill(former.pid, syscall.SIGINT); err != nil && !errors.Is(err, syscall.ESRCH) {
				return fmt.Errorf("%w: stop the PostgreSQL server %d on %q: %w", ErrInUse, former.pid, h.data(), err)
			}
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%w: the PostgreSQL server %d still runs on %q", ErrInUse, former.pid, h.data())
		case <-time.After(pollInterval):
		}
	}
}
