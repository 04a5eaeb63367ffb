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

// serverFolder is the locked folder of a server.
type serverFolder struct {
	dir  string
	acct account
	lock *Lock
}

func (h *serverFolder) data() string { return filepath.Join(h.dir, "data") }

// openFolder creates a folder, if it does not exist, and locks it.
func openFolder(dir string, acct account) (*serverFolder, error) {
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
	// Without links, because serves compares the path with the working directory that the kernel reports.
	if dir, err = filepath.EvalSymlinks(dir); err != nil {
		return nil, fmt.Errorf("data directory: %w", err)
	}
	// Again, because the umask may have denied access to the new folders.
	if err := acct.canReach(dir); err != nil {
		return nil, err
	}
	lock, err := LockFolder(dir)
	if err != nil {
		return nil, fmt.Errorf("data directory %q: %w", dir, err)
	}
	return &serverFolder{dir: dir, acct: acct, lock: lock}, nil
}

// major returns the major version of PostgreSQL that created the cluster, or 0 if there is no cluster.
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

// create creates the cluster in another folder and then renames it, so that an interrupted first start leaves no incomplete cluster.
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
	// Trust is safe, because only the owner has access to the folder of the socket.
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

// postmaster has the process id and the status in postmaster.pid.
type postmaster struct {
	pid   int
	ready bool
}

// postmaster returns the content of postmaster.pid, or false if there is no valid file.
func (h *serverFolder) postmaster() (postmaster, bool) {
	raw, err := os.ReadFile(filepath.Join(h.data(), "postmaster.pid"))
	if err != nil {
		return postmaster{}, false
	}
	// The lines are pid, data directory, start time, port, socket folder, listen address, shared memory and status.
	lines := strings.Split(string(raw), "\n")
	pid, err := strconv.Atoi(strings.TrimSpace(lines[0]))
	if err != nil || pid <= 1 {
		return postmaster{}, false
	}
	status := ""
	if len(lines) > 7 {
		status = strings.TrimSpace(lines[7])
	}
	return postmaster{pid: pid, ready: status == "ready" || status == "standby"}, true // a standby accepts read-only connections
}

// stopFormer stops a server that still runs in the folder, although its owner has ended: otherwise this process would not have the lock. It removes a
// pid file of a server that has ended, because it keeps a new server from starting if another process has the pid.
func (h *serverFolder) stopFormer(ctx context.Context, log *zap.Logger) error {
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
