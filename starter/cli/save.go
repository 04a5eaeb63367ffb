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

// saveFile writes a file whole or not at all: it writes a temporary file in the same folder and renames it. A device or a pipe is written to directly.
func saveFile(name string, write func(io.Writer) error) error {
	mode := fs.FileMode(0o666)
	switch info, err := os.Stat(name); {
	case err == nil && info.IsDir():
		return usageError{fmt.Errorf("%s is a folder", name)}
	case err == nil && !info.Mode().IsRegular():
		return writeTo(name, os.O_WRONLY, mode, write)
	case err == nil:
		mode = info.Mode().Perm()
		if name, err = filepath.EvalSymlinks(name); err != nil { // a symbolic link is kept
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

// ignoreMissing returns nil if the file to remove did not exist.
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
		if err := f.Sync(); err != nil { // after a crash the renamed file must have its content
			return errors.Join(err, f.Close())
		}
	}
	return f.Close()
}
