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

// Limits of the catalog files that one command reads.
const (
	maxManifest      = 1 << 20  // bytes of a file
	maxManifestBytes = 64 << 20 // bytes of all files
	maxManifests     = 1000
	maxEntries       = 100_000 // files and folders in all folders
)

// manifestReader collects catalog files. It reads each file that a command line names, and in a folder those that end in .yaml, .yml or .json, in
// the order of their paths, without hidden files and folders.
type manifestReader struct {
	stdin     io.Reader
	files     []agent.ManifestFile
	readPaths map[string]bool
	bytes     int
	found     int // files, including those that were read before
	entries   int // files and folders in all folders
}

// readManifests returns the content of the files, folders and standard input ("-") that a command line names. Errors are of type [usageError].
func readManifests(ctx context.Context, stdin io.Reader, names []string) ([]agent.ManifestFile, error) {
	r := manifestReader{stdin: stdin, readPaths: map[string]bool{}}
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
		before := r.found
		if err := r.readFolder(ctx, name); err != nil {
			return err
		}
		if r.found == before {
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

// readFolder reads a folder and its subfolders. It follows a symbolic link to a place within the folder, as in a volume that Kubernetes mounts. A
// link to a place outside is an error: if it were skipped, --prune would delete the document.
func (r *manifestReader) readFolder(ctx context.Context, folder string) error {
	return walkFolder(ctx, folder, &r.entries, func(root *os.Root, name string, entry fs.DirEntry) error {
		if entry.IsDir() || !isManifest(name) {
			return nil
		}
		return r.readFile(ctx, root, name, filepath.Join(folder, name))
	})
}

// walkFolder calls visit for each file and folder in a folder and its subfolders, in the order of their names, without hidden ones. A name is relative
// to the folder. walkFolder counts them in entries, and returns an error after maxEntries.
func walkFolder(ctx context.Context, folder string, entries *int, visit func(root *os.Root, name string, entry fs.DirEntry) error) error {
	root, err := os.OpenRoot(folder)
	if err != nil {
		return err
	}
	defer root.Close() //nolint:errcheck // read-only
	return fs.WalkDir(root.FS(), ".", func(name string, entry fs.DirEntry, err error) error {
		if *entries++; *entries > maxEntries {
			return fmt.Errorf("%s: more than %d files and folders", folder, maxEntries)
		}
		switch hidden := name != "." && strings.HasPrefix(entry.Name(), "."); {
		case err != nil:
			return fmt.Errorf("%s: %w", filepath.Join(folder, name), withoutPath(err))
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case hidden && entry.IsDir():
			return fs.SkipDir
		case hidden:
			return nil
		}
		return visit(root, name, entry)
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

// readFile reads a file of a folder. Messages name it by path.
func (r *manifestReader) readFile(ctx context.Context, root *os.Root, name, path string) error {
	info, err := root.Stat(name)
	switch {
	case err != nil:
		return fmt.Errorf("%s: %w", path, withoutPath(err))
	case info.IsDir(): // a link to a folder in the same folder, whose files are read without the link
		return nil
	case !info.Mode().IsRegular():
		return fmt.Errorf("%s: is no regular file", path)
	}
	f, err := root.Open(name)
	if err != nil {
		return fmt.Errorf("%s: %w", path, withoutPath(err))
	}
	defer f.Close() //nolint:errcheck // read-only
	return r.add(ctx, path, f)
}

// withoutPath returns err without its path.
func withoutPath(err error) error {
	if p, ok := errors.AsType[*fs.PathError](err); ok {
		return p.Err
	}
	return err
}

// add reads one file, unless it has read the path before.
func (r *manifestReader) add(ctx context.Context, name string, content io.Reader) error {
	r.found++
	path := filepath.Clean(name)
	if r.readPaths[path] {
		return nil
	}
	r.readPaths[path] = true
	if len(r.files) == maxManifests {
		return fmt.Errorf("%s: more than %d files", name, maxManifests)
	}
	data, err := readAll(ctx, content, maxManifest+1)
	switch {
	case err != nil:
		return fmt.Errorf("%s: %w", name, withoutPath(err))
	case len(data) > maxManifest:
		return fmt.Errorf("%s: is larger than %d bytes", name, maxManifest)
	case r.bytes+len(data) > maxManifestBytes:
		return fmt.Errorf("%s: all files together are larger than %d bytes", name, maxManifestBytes)
	}
	r.bytes += len(data)
	r.files = append(r.files, agent.ManifestFile{Name: name, Data: data})
	return nil
}

// readAll reads up to maxBytes bytes, or until ctx ends, because a terminal or a pipe may never send anything.
func readAll(ctx context.Context, from io.Reader, maxBytes int64) ([]byte, error) {
	type result struct {
		data []byte
		err  error
	}
	done := make(chan result, 1)
	go func() {
		data, err := io.ReadAll(io.LimitReader(from, maxBytes))
		done <- result{data, err}
	}()
	select {
	case r := <-done:
		return r.data, r.err
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// readInput returns the content of a file, or of standard input for "-". More than maxManifest bytes are an error.
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
