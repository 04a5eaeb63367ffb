package cli

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/google/uuid"
)

// saveFile writes a file atomically: it writes a temporary file in the same folder and renames it. It writes to a device or a pipe directly.
func saveFile(name string, write func(io.Writer) error) error {
	mode := fs.FileMode(0o666)
	switch info, err := os.Stat(name); {
	case err == nil && info.IsDir():
		return usageError{fmt.Errorf("%s is a folder", name)}
	case err == nil && !info.Mode().IsRegular():
		return writeTo(name, os.O_WRONLY, mode, write)
	case err == nil:
		mode = info.Mode().Perm()
		if name, err = filepath.EvalSymlinks(name); err != nil { // replaces the target of a symbolic link, not the link
			return usageError{err}
		}
	case !errors.Is(err, fs.ErrNotExist):
		return usageError{err}
	}
	temporary := filepath.Join(filepath.Dir(name), ".starter-"+uuid.NewString())
	if err := writeTo(temporary, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode, write); err != nil {
		return errors.Join(err, ignoreMissing(os.Remove(temporary)))
	}
	if err := os.Rename(temporary, name); err != nil {
		return errors.Join(usageError{err}, ignoreMissing(os.Remove(temporary)))
	}
	return nil
}

// ignoreMissing returns err, or nil if err says that a file does not exist.
func ignoreMissing(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

func writeTo(name string, flags int, mode fs.FileMode, write func(io.Writer) error) error {
	f, err := os.OpenFile(name, flags, mode)
	if err != nil {
		return usageError{err}
	}
	if err := write(f); err != nil {
		return errors.Join(err, f.Close())
	}
	if flags&os.O_CREATE != 0 {
		if err := f.Sync(); err != nil { // or the renamed file could be empty after a crash
			return errors.Join(err, f.Close())
		}
	}
	return f.Close()
}
