package pgdev

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// ErrInUse means that a process uses a folder.
var ErrInUse = errors.New("data directory in use")

// Lock is a lock on a folder. It ends with Release or with the process.
type Lock struct{ file *os.File }

// LockFolder locks a folder, which must exist. If it is locked, also by this process, LockFolder fails with [ErrInUse]. The lock is on the file "lock"
// in the folder, which contains the pid of the owner.
func LockFolder(dir string) (*Lock, error) {
	file, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return nil, fmt.Errorf("lock: %w", err)
	}
	// The kernel removes the lock when the last descriptor is closed. Child processes do not inherit it.
	err = syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		pid := make([]byte, 20)
		n, _ := file.ReadAt(pid, 0) // an error leaves the pid out of the message
		return nil, errors.Join(fmt.Errorf("%w: the process %s has it open; stop it or use another data directory",
			ErrInUse, strings.TrimSpace(string(pid[:n]))), file.Close())
	}
	if err == nil {
		err = file.Truncate(0)
	}
	if err == nil {
		_, err = file.WriteAt([]byte(strconv.Itoa(os.Getpid())+"\n"), 0)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("lock: %w", err), file.Close())
	}
	return &Lock{file: file}, nil
}

// Release unlocks the folder. It does not remove the file, or two processes could lock different files. It unlocks the file before it closes it,
// because a child process that was just forked still has a copy of the descriptor.
func (l *Lock) Release() error {
	return errors.Join(syscall.Flock(int(l.file.Fd()), syscall.LOCK_UN), l.file.Close())
}
