// Package dirlock lets one process at a time use a folder of state.
package dirlock

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// ErrInUse says that another owner has the folder; the full text names its process.
var ErrInUse = errors.New("data directory in use")

// Lock is held until Release, or until the process ends, however it ends.
type Lock struct{ file *os.File }

// Acquire takes the lock of the folder, which must exist, without waiting: a file named "lock" in it, which holds
// the owner's pid for people to read. A second Acquire in the same process is refused as well.
func Acquire(dir string) (*Lock, error) {
	file, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return nil, fmt.Errorf("lock: %w", err)
	}
	switch free, err := tryLock(file); {
	case err != nil:
		return nil, errors.Join(fmt.Errorf("lock: %w", err), file.Close())
	case !free:
		pid := make([]byte, 20)
		n, _ := file.ReadAt(pid, 0) // only for the message
		return nil, errors.Join(fmt.Errorf("%w: the process %s has it open; stop it or use another data directory",
			ErrInUse, strings.TrimSpace(string(pid[:n]))), file.Close())
	}
	err = file.Truncate(0)
	if err == nil {
		_, err = file.WriteAt([]byte(strconv.Itoa(os.Getpid())+"\n"), 0)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("lock: %w", err), file.Close())
	}
	return &Lock{file: file}, nil
}

// Release gives the folder free. The file stays: removing it would let two processes lock different files.
func (l *Lock) Release() error { return errors.Join(unlock(l.file), l.file.Close()) }
