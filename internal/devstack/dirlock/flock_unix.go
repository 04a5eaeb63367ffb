//go:build unix

package dirlock

import (
	"errors"
	"os"
	"syscall"
)

// tryLock uses flock: the kernel drops it with the last descriptor, and children do not inherit that.
func tryLock(file *os.File) (free bool, err error) {
	err = syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return false, nil
	}
	return err == nil, err
}

// unlock drops the lock at once: closing the file would leave it to a child that was just forked and has yet to close its copy.
func unlock(file *os.File) error { return syscall.Flock(int(file.Fd()), syscall.LOCK_UN) }
