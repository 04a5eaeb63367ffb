package catalog

import (
	"cmp"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/dustin/go-humanize"

	"github.com/turnstone-run/turnstone/agent"
)

const (
	maxFaults = 100  // faults of one state, plus that of a reached bound
	batchSize = 1000 // entries of a folder that one call reads
)

// folderBounds limit a folder. A larger folder is not applied.
type folderBounds struct {
	fileBytes, totalBytes int
	files, entries        int // entries are files and folders of any name
	depth                 int // of nested folders
}

func defaultFolderBounds() folderBounds {
	return folderBounds{fileBytes: 1 << 20, totalBytes: 64 << 20, files: 10_000, entries: 100_000, depth: 32}
}

// folderDigest is the SHA-256 of a [folderState].
type folderDigest [sha256.Size]byte

// folderState is the content of a folder at one time.
type folderState struct {
	files        []agent.ManifestFile // sorted by name, which is relative to the folder and has slashes
	faults       agent.Faults         // of files and folders that cannot be read
	digest       folderDigest         // of files and faults
	readDuration time.Duration
}

// folderReader reads a folder through an [os.Root], which refuses paths that lead out of it.
type folderReader struct {
	root         *os.Root
	dir          string
	bounds       folderBounds
	state        *folderState
	visited      []fs.FileInfo
	links        []string // links to folders; they are read last, so that each folder is read once, under its own name
	entries      int
	bytes        int
	limitReached bool // a bound of the whole folder
}

// readFolder returns the state of a folder. Errors are faults of the state.
func readFolder(dir string, bounds folderBounds) *folderState {
	started := time.Now()
	r := &folderReader{dir: dir, bounds: bounds, state: &folderState{}}
	root, err := os.OpenRoot(dir)
	if err != nil {
		r.addFault("", "folder %q: %w", dir, withoutPath(err))
	} else {
		r.root = root
		r.readFolder(".", false)
		for len(r.links) > 0 {
			name := r.links[0]
			r.links = r.links[1:]
			r.readFolder(name, true)
		}
		if err := root.Close(); err != nil {
			r.addFault("", "folder %q: %w", dir, withoutPath(err))
		}
	}
	slices.SortFunc(r.state.files, func(a, b agent.ManifestFile) int { return cmp.Compare(a.Name, b.Name) })
	r.state.digest = r.state.computeDigest()
	r.state.readDuration = time.Since(started)
	return r.state
}

// readFolder reads a folder and its sub-folders. It skips a linked folder that was already read.
func (r *folderReader) readFolder(name string, isLinked bool) {
	if r.limitReached {
		return
	}
	if depth := strings.Count(name, "/") + 1; depth > r.bounds.depth {
		r.addFault(name, "more than %d folders deep", r.bounds.depth)
		return
	}
	info, entries, err := r.readEntries(name, isLinked)
	if err != nil {
		r.addFault(name, "cannot be read: %w", withoutPath(err))
		return
	}
	if info == nil {
		return
	}
	r.visited = append(r.visited, info)
	for _, e := range entries {
		file := path.Join(name, e.Name())
		switch {
		case r.limitReached:
			return
		case strings.HasPrefix(e.Name(), "."):
		case e.IsDir():
			r.readFolder(file, isLinked)
		case e.Type()&fs.ModeSymlink != 0:
			r.readLink(file)
		case isManifest(file):
			r.readFile(file)
		}
	}
}

// readEntries returns the sorted entries of a folder. info is nil if the folder was already read or a bound is reached.
func (r *folderReader) readEntries(name string, isLinked bool) (info fs.FileInfo, entries []fs.DirEntry, err error) {
	d, err := r.root.Open(name)
	if err != nil {
		return nil, nil, err
	}
	defer func() { err = errors.Join(err, d.Close()) }()
	if info, err = d.Stat(); err != nil {
		return nil, nil, err
	}
	if isLinked && slices.ContainsFunc(r.visited, func(dir fs.FileInfo) bool { return os.SameFile(dir, info) }) {
		return nil, nil, nil
	}
	for {
		batch, err := d.ReadDir(batchSize)
		entries = append(entries, batch...)
		r.entries += len(batch)
		if r.entries > r.bounds.entries {
			r.stopAtLimit("more than %s entries", humanize.Comma(int64(r.bounds.entries)))
			return nil, nil, nil
		}
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, nil, err
		}
	}
	slices.SortFunc(entries, func(a, b fs.DirEntry) int { return cmp.Compare(a.Name(), b.Name()) })
	return info, entries, nil
}

// readLink reads a linked file and postpones a linked folder. A broken link is a fault only if it has the name of a manifest. A link out of
// the folder is always a fault, because otherwise its documents would be missing unnoticed.
func (r *folderReader) readLink(name string) {
	info, err := r.root.Stat(name)
	switch {
	case errors.Is(err, fs.ErrNotExist) && !isManifest(name):
	case err != nil:
		r.addFault(name, "link cannot be followed: %w", withoutPath(err))
	case info.IsDir():
		r.links = append(r.links, name)
	case isManifest(name):
		r.readFile(name)
	}
}

func (r *folderReader) readFile(name string) {
	if len(r.state.files) == r.bounds.files {
		r.stopAtLimit("more than %s files", humanize.Comma(int64(r.bounds.files)))
		return
	}
	info, err := r.root.Stat(name) // before Open, which would wait for the writer of a named pipe
	switch {
	case err != nil:
		r.addFault(name, "cannot be read: %w", withoutPath(err))
		return
	case !info.Mode().IsRegular():
		r.addFault(name, "is no regular file")
		return
	}
	data, err := r.readContent(name)
	switch {
	case err != nil:
		r.addFault(name, "cannot be read: %w", withoutPath(err))
	case len(data) > r.bounds.fileBytes:
		r.addFault(name, "larger than %s bytes", humanize.Comma(int64(r.bounds.fileBytes)))
	case r.bytes+len(data) > r.bounds.totalBytes:
		r.stopAtLimit("files larger than %s bytes in all", humanize.Comma(int64(r.bounds.totalBytes)))
	default:
		r.bytes += len(data)
		r.state.files = append(r.state.files, agent.ManifestFile{Name: name, Data: data})
	}
}

// readContent returns the content of a file, at most one byte more than the bound.
func (r *folderReader) readContent(name string) (data []byte, err error) {
	f, err := r.root.Open(name)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	return io.ReadAll(io.LimitReader(f, int64(r.bounds.fileBytes)+1))
}

func (r *folderReader) addFault(name, format string, args ...any) {
	if len(r.state.faults) < maxFaults {
		r.state.faults = append(r.state.faults, agent.Fault{File: name, Message: fmt.Errorf(format, args...).Error()})
	}
}

// stopAtLimit stops reading at a bound of the whole folder. It adds its fault even to maxFaults others.
func (r *folderReader) stopAtLimit(format string, args ...any) {
	r.limitReached = true
	r.state.faults = append(r.state.faults, agent.Fault{Message: fmt.Sprintf("folder %q: "+format, append([]any{r.dir}, args...)...)})
}

// computeDigest returns the digest of names, contents and faults.
func (s *folderState) computeDigest() folderDigest {
	h := sha256.New()
	for _, f := range s.files {
		fmt.Fprintf(h, "%d:%s%d:", len(f.Name), f.Name, len(f.Data))
		h.Write(f.Data)
	}
	for _, f := range s.faults {
		fmt.Fprintf(h, "!%s\n", f.String())
	}
	return folderDigest(h.Sum(nil))
}

// isManifest reports whether a file name is that of a document. Names of backup and swap files (x.yaml~, #x.yaml#, .x.yaml.swp) are not.
func isManifest(name string) bool {
	switch path.Ext(name) {
	case ".yaml", ".yml", ".json":
		return true
	default:
		return false
	}
}

// withoutPath returns the cause of a file error, without operation and path, which the caller's message already has.
func withoutPath(err error) error {
	if e, ok := errors.AsType[*fs.PathError](err); ok {
		return e.Err
	}
	return err
}
