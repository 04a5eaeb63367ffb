package pgdev

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

const (
	ephemeralPrefix = "turnstone-pg-"
	socketPrefix    = "turnstone-sock-"

	// maxSocketPath is the shortest limit of the supported systems (macOS: 104 bytes with the final zero).
	maxSocketPath = 103

	// memoryFolder is Linux's file system in memory, for throw-away servers if memoryRoom bytes are free. Each database is hundreds of files, which
	// are ten times slower on a disk. A server rarely takes more than 1 GiB (see max_wal_size).
	memoryFolder = "/dev/shm"
	memoryRoom   = 4 << 30

	sweepAge   = 2 * time.Minute // younger folders may be in the making
	sweepLimit = 20              // folders removed per start
)

// temporaryRoots returns the folders for temporary folders, best first. Root's server may be unable to enter the system's own.
func temporaryRoots() []string {
	return slices.Compact([]string{os.TempDir(), "/tmp", "/var/tmp"})
}

// throwAwayRoots returns the folders for throw-away servers, best first.
func throwAwayRoots(memoryRoom uint64) []string {
	if hasMemory(memoryFolder, memoryRoom) {
		return append([]string{memoryFolder}, temporaryRoots()...)
	}
	return temporaryRoots()
}

// makeEphemeral makes the home of a throw-away server, and removes homes of killed owners.
func makeEphemeral(acct account) (string, error) {
	var firstErr error
	for _, root := range throwAwayRoots(memoryRoom) {
		err := acct.canReach(root)
		if err == nil {
			sweep(root)
			var dir string
			if dir, err = os.MkdirTemp(root, ephemeralPrefix); err == nil {
				err = os.Chmod(dir, 0o711) // the server's user could not enter MkdirTemp's 0700
			}
			if err == nil {
				return dir, nil
			}
		}
		if firstErr == nil {
			firstErr = err
		}
	}
	return "", fmt.Errorf("temporary folder for PostgreSQL: %w", firstErr)
}

// sweep removes our throw-away homes that nobody has locked. It ignores errors.
func sweep(root string) {
	dirs, err := filepath.Glob(filepath.Join(root, ephemeralPrefix+"*"))
	if err != nil {
		return
	}
	for _, dir := range dirs[:min(len(dirs), sweepLimit)] {
		info, err := os.Lstat(dir)
		if err != nil || !info.IsDir() || time.Since(info.ModTime()) < sweepAge {
			continue
		}
		if stat, ok := info.Sys().(*syscall.Stat_t); !ok || int(stat.Uid) != os.Geteuid() {
			continue
		}
		lock, err := LockFolder(dir)
		if err != nil {
			continue
		}
		h := &serverFolder{dir: dir}
		if left, ok := h.postmaster(); !ok || !serves(left.pid, h.data()) {
			_ = os.RemoveAll(dir)
		}
		_ = lock.Release()
	}
}

// makeSocketFolder makes the folder of the socket, inside home if the path is short enough. Only the server's user and our group may enter. That
// protects the server, which trusts every connection.
func makeSocketFolder(h *serverFolder) (string, error) {
	dir := filepath.Join(h.dir, "socket")
	if !socketFits(dir) {
		var err error
		if dir, err = shortSocketFolder(h.acct); err != nil {
			return "", err
		}
	} else if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", fmt.Errorf("socket folder: %w", err)
	}
	if !h.acct.switched {
		return dir, os.Chmod(dir, 0o700)
	}
	if err := os.Chown(dir, int(h.acct.uid), os.Getegid()); err != nil {
		return "", fmt.Errorf("socket folder: %w", err)
	}
	if err := os.Chmod(dir, 0o770); err != nil {
		return "", fmt.Errorf("socket folder: %w", err)
	}
	return dir, nil
}

func shortSocketFolder(acct account) (string, error) {
	for _, root := range temporaryRoots() {
		if acct.canReach(root) != nil || !socketFits(filepath.Join(root, socketPrefix+"0000000000")) {
			continue
		}
		dir, err := os.MkdirTemp(root, socketPrefix)
		if err != nil {
			return "", fmt.Errorf("socket folder: %w", err)
		}
		return dir, nil
	}
	return "", errors.New("socket folder: no temporary folder with a short and plain enough path")
}

// socketFits reports whether the path of the socket in dir is short enough for the kernel, and has no separators of connection strings or of
// PostgreSQL's list of folders.
func socketFits(dir string) bool {
	return len(filepath.Join(dir, ".s.PGSQL."+port)) <= maxSocketPath && !strings.ContainsAny(dir, ` ,"'\`)
}
