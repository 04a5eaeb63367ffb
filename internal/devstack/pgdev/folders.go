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

	// maxSocketPath is the largest length of a socket's path on all supported systems (macOS: 104 bytes with the final zero).
	maxSocketPath = 103

	// memoryFolder is a file system in memory on Linux. Ephemeral servers use it if minMemory bytes are free: a database has hundreds of files, which
	// are ten times slower on a disk. A server rarely needs more than 1 GiB (see max_wal_size).
	memoryFolder = "/dev/shm"
	minMemory    = 4 << 30

	sweepAge   = 2 * time.Minute // age of folders to remove; a start may still be creating younger ones
	sweepLimit = 20              // folders removed per start
)

// temporaryRoots returns the parents of temporary folders, in order of preference. If this process is root, the server may have no access to
// [os.TempDir].
func temporaryRoots() []string {
	return slices.Compact([]string{os.TempDir(), "/tmp", "/var/tmp"})
}

// ephemeralRoots returns the parents of the folders of ephemeral servers, in order of preference.
func ephemeralRoots(minFree uint64) []string {
	if hasMemory(memoryFolder, minFree) {
		return append([]string{memoryFolder}, temporaryRoots()...)
	}
	return temporaryRoots()
}

// createEphemeral creates the folder of an ephemeral server, and removes folders of killed owners.
func createEphemeral(acct account) (string, error) {
	var firstErr error
	for _, root := range ephemeralRoots(minMemory) {
		err := acct.canReach(root)
		if err == nil {
			removeAbandoned(root)
			var dir string
			if dir, err = os.MkdirTemp(root, ephemeralPrefix); err == nil {
				err = os.Chmod(dir, 0o711) // MkdirTemp gives the server's user no access
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

// removeAbandoned removes the folders of this user's ephemeral servers whose owner has ended. It ignores errors.
func removeAbandoned(root string) {
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
		if former, ok := h.postmaster(); !ok || !serves(former.pid, h.data()) {
			_ = os.RemoveAll(dir)
		}
		_ = lock.Release()
	}
}

// createSocketFolder creates the folder of the socket, in the server's folder if the path is short enough. Only the server's user and the group of
// this process have access, because the server trusts every connection.
func createSocketFolder(h *serverFolder) (string, error) {
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

// socketFits reports whether the path of a socket in dir is short enough for the kernel, and has no characters that are separators in connection
// strings or in PostgreSQL's settings.
func socketFits(dir string) bool {
	return len(filepath.Join(dir, ".s.PGSQL."+port)) <= maxSocketPath && !strings.ContainsAny(dir, ` ,"'\`)
}
