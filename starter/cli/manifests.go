package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/turnstone-run/turnstone/agent"
)

// What is read of catalog files at most.
const (
	maxManifest      = 1 << 20 // bytes of a file
	maxManifestBytes = 64 << 20
	maxManifests     = 1000
	maxEntries       = 100_000 // of all folders
)

// manifestReader gathers catalog files. A file that is named is read whatever its name; of a folder those that end in .yaml, .yml
// or .json are, in the order of their paths, without hidden files and folders.
type manifestReader struct {
	stdin   io.Reader
	files   []agent.ManifestFile
	known   map[string]bool // paths that were read
	bytes   int
	met     int // files, also those that were known
	entries int
}

// readManifests reads the files, folders and ("-") standard input that a command line names. What is wrong with them is a
// [usageError].
func readManifests(ctx context.Context, stdin io.Reader, names []string) ([]agent.ManifestFile, error) {
	r := manifestReader{stdin: stdin, known: map[string]bool{}}
	for _, name := range names {
		if err := r.read(ctx, name); err != nil {
			if ctx.Err() != nil {
				return nil, context.Cause(ctx)
			}
			return nil, usageError{err}
		}
	}
	return r.files, nil
}

func (r *manifestReader) read(ctx context.Context, name string) error {
	if name == "-" {
		return r.add(ctx, "stdin", r.stdin)
	}
	info, err := os.Stat(name)
	switch {
	case err != nil:
		return err
	case info.IsDir():
		before := r.met
		if err := r.folder(ctx, name); err != nil {
			return err
		}
		if r.met == before {
			return fmt.Errorf("%s: no *.yaml, *.yml or *.json in this folder", name)
		}
		return nil
	}
	f, err := os.Open(name)
	if err != nil {
		return err
	}
	defer f.Close() //nolint:errcheck // read-only
	return r.add(ctx, name, f)
}

// folder reads a folder with its subfolders. A symbolic link is followed when it stays within the folder, as in a volume that
// Kubernetes mounts; one that leads out is an error, because with --prune a file left out would be a document deleted.
func (r *manifestReader) folder(ctx context.Context, name string) error {
	root, err := os.OpenRoot(name)
	if err != nil {
		return err
	}
	defer root.Close() //nolint:errcheck // read-only
	return fs.WalkDir(root.FS(), ".", func(path string, entry fs.DirEntry, err error) error {
		if r.entries++; r.entries > maxEntries {
			return fmt.Errorf("%s: more than %d files and folders", name, maxEntries)
		}
		switch hidden := path != "." && strings.HasPrefix(entry.Name(), "."); {
		case err != nil:
			return fmt.Errorf("%s: %w", filepath.Join(name, path), err)
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case hidden && entry.IsDir():
			return fs.SkipDir
		case hidden || entry.IsDir() || !isManifest(path):
			return nil
		}
		return r.inFolder(ctx, root, name, path)
	})
}

func isManifest(path string) bool {
	switch strings.ToLower(filepath.Ext(path)) {
	case ".yaml", ".yml", ".json":
		return true
	default:
		return false
	}
}

func (r *manifestReader) inFolder(ctx context.Context, root *os.Root, folder, path string) error {
	shown := filepath.Join(folder, path)
	info, err := root.Stat(path)
	switch {
	case err != nil:
		return fmt.Errorf("%s: %w", shown, reason(err))
	case info.IsDir(): // a link to a folder within: its files are met where they are
		return nil
	case !info.Mode().IsRegular():
		return fmt.Errorf("%s: is no regular file", shown)
	}
	f, err := root.Open(path)
	if err != nil {
		return fmt.Errorf("%s: %w", shown, reason(err))
	}
	defer f.Close() //nolint:errcheck // read-only
	return r.add(ctx, shown, f)
}

// reason is an error without the path that it repeats.
func reason(err error) error {
	if p, ok := errors.AsType[*fs.PathError](err); ok {
		return p.Err
	}
	return err
}

// add reads one file, unless it was read before under the same name.
func (r *manifestReader) add(ctx context.Context, name string, from io.Reader) error {
	r.met++
	path := filepath.Clean(name)
	if r.known[path] {
		return nil
	}
	r.known[path] = true
	if len(r.files) == maxManifests {
		return fmt.Errorf("%s: more than %d files", name, maxManifests)
	}
	data, err := readAll(ctx, from, maxManifest+1)
	switch {
	case err != nil:
		return fmt.Errorf("%s: %w", name, reason(err))
	case len(data) > maxManifest:
		return fmt.Errorf("%s: is larger than %d bytes", name, maxManifest)
	case r.bytes+len(data) > maxManifestBytes:
		return fmt.Errorf("%s: all files together are larger than %d bytes", name, maxManifestBytes)
	}
	r.bytes += len(data)
	r.files = append(r.files, agent.ManifestFile{Name: name, Data: data})
	return nil
}

// readAll reads at most most bytes, until ctx ends: a terminal or a pipe may never say anything.
func readAll(ctx context.Context, from io.Reader, most int64) ([]byte, error) {
	type read struct {
		data []byte
		err  error
	}
	done := make(chan read, 1)
	go func() {
		data, err := io.ReadAll(io.LimitReader(from, most))
		done <- read{data, err}
	}()
	select {
	case r := <-done:
		return r.data, r.err
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// readInput returns the content of a file, or of standard input for "-". It refuses more than maxManifest.
func (a *app) readInput(ctx context.Context, name string) ([]byte, error) {
	from := a.in
	if name != "-" {
		f, err := os.Open(name)
		if err != nil {
			return nil, err
		}
		defer f.Close() //nolint:errcheck // read-only
		from = f
	}
	data, err := readAll(ctx, from, maxManifest+1)
	if err == nil && len(data) > maxManifest {
		err = fmt.Errorf("%s is larger than %d bytes", name, maxManifest)
	}
	return data, err
}
