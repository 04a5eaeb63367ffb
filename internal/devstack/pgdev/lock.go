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

// ErrInUse says that another process uses a folder; the full text names it.
var ErrInUse = errors.New("data directory in use")

// Lock is a lock on a folder of state. It is held until Release, or until the process ends, however it ends.
type Lock struct{ file *os.File }

// LockFolder locks a folder, which must exist, or fails with [ErrInUse] at once. The lock is a file named "lock" in it, which holds the pid of
// the owner for people to read. The same process cannot lock a folder twice.
func LockFolder(dir string) (*Lock, error) {
	file, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return nil, fmt.Errorf("lock: %w", err)
	}
	// The kernel drops the lock with the last descriptor, and children do not inherit that.
	err = syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		pid := make([]byte, 20)
		n, _ := file.ReadAt(pid, 0) // only for the message
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

// Release unlocks the folder. The file stays: without it, two processes could lock different files. Closing the file alone would leave the lock
// to a child that was just forked and has yet to close its copy.
func (l *Lock) Release() error {
	return errors.Join(syscall.Flock(int(l.file.Fd()), syscall.LOCK_UN), l.file.Close())
}
