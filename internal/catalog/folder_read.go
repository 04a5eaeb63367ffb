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
	maxFaults = 100  // reported for one state
	batchSize = 1000 // entries of a folder that are read at a time
)

// folderBounds limit a folder; a larger one is not applied.
type folderBounds struct {
	file, total    int // bytes of one file and of all
	files, entries int // entries: files and folders of any name
	depth          int // folders
}

func defaultFolderBounds() folderBounds {
	return folderBounds{file: 1 << 20, total: 64 << 20, files: 10_000, entries: 100_000, depth: 32}
}

// folderDigest is the sha-256 of a snapshot.
type folderDigest [sha256.Size]byte

// folderState is the state of a folder.
type folderState struct {
	files  []agent.ManifestFile // sorted by name, relative to the folder and with slashes
	faults agent.Faults         // what could not be read
	digest folderDigest         // of the files and the faults
	took   time.Duration        // to read
}

// folderReader reads a folder through an [os.Root], which refuses every path that leads out of it.
type folderReader struct {
	root    *os.Root
	base    string
	bounds  folderBounds
	snap    *folderState
	dirs    []fs.FileInfo // the folders that were read
	links   []string      // links to folders, which are read last, so that each folder is read once and under its own name
	entries int
	bytes   int
	full    bool // a bound of the whole folder was reached
}

// readFolder returns the state of a folder. What cannot be read is a fault in it.
func readFolder(base string, within folderBounds) *folderState {
	began := time.Now()
	r := &folderReader{base: base, bounds: within, snap: &folderState{}}
	root, err := os.OpenRoot(base)
	if err != nil {
		r.addFault("", "folder %q: %w", base, withoutPath(err))
	} else {
		r.root = root
		r.readFolder(".", false)
		for len(r.links) > 0 {
			name := r.links[0]
			r.links = r.links[1:]
			r.readFolder(name, true)
		}
		if err := root.Close(); err != nil {
			r.addFault("", "folder %q: %w", base, withoutPath(err))
		}
	}
	slices.SortFunc(r.snap.files, func(a, b agent.ManifestFile) int { return cmp.Compare(a.Name, b.Name) })
	r.snap.digest = r.snap.computeDigest()
	r.snap.took = time.Since(began)
	return r.snap
}

// readFolder reads a folder and what is below it. A folder that was reached through a link may have been read before.
func (r *folderReader) readFolder(name string, linked bool) {
	if r.full {
		return
	}
	if depth := strings.Count(name, "/") + 1; depth > r.bounds.depth {
		r.addFault(name, "more than %d folders deep", r.bounds.depth)
		return
	}
	info, found, err := r.readEntries(name, linked)
	if err != nil {
		r.addFault(name, "cannot be read: %w", withoutPath(err))
		return
	}
	if info == nil {
		return
	}
	r.dirs = append(r.dirs, info)
	for _, e := range found {
		full := path.Join(name, e.Name())
		switch {
		case r.full:
			return
		case strings.HasPrefix(e.Name(), "."):
		case e.IsDir():
			r.readFolder(full, linked)
		case e.Type()&fs.ModeSymlink != 0:
			r.readLink(full)
		case isManifest(full):
			r.readFile(full)
		}
	}
}

// readEntries returns the sorted entries of a folder. info is nil if the folder was read before or a bound was reached.
func (r *folderReader) readEntries(name string, linked bool) (info fs.FileInfo, found []fs.DirEntry, err error) {
	d, err := r.root.Open(name)
	if err != nil {
		return nil, nil, err
	}
	defer func() { err = errors.Join(err, d.Close()) }()
	if info, err = d.Stat(); err != nil {
		return nil, nil, err
	}
	if linked && slices.ContainsFunc(r.dirs, func(known fs.FileInfo) bool { return os.SameFile(known, info) }) {
		return nil, nil, nil
	}
	for {
		some, err := d.ReadDir(batchSize)
		found = append(found, some...)
		if r.entries += len(some); r.entries > r.bounds.entries {
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
	slices.SortFunc(found, func(a, b fs.DirEntry) int { return cmp.Compare(a.Name(), b.Name()) })
	return info, found, nil
}

// readLink reads a file behind a link and postpones a folder. A link that leads nowhere is a fault only if it has the name of a manifest;
// one that leads out of the folder always is, because nobody would notice that its documents are missing.
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
	if len(r.snap.files) == r.bounds.files {
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
	case len(data) > r.bounds.file:
		r.addFault(name, "larger than %s bytes", humanize.Comma(int64(r.bounds.file)))
	case r.bytes+len(data) > r.bounds.total:
		r.stopAtLimit("files larger than %s bytes in all", humanize.Comma(int64(r.bounds.total)))
	default:
		r.bytes += len(data)
		r.snap.files = append(r.snap.files, agent.ManifestFile{Name: name, Data: data})
	}
}

// readContent returns the bytes of a file, at most one more than allowed.
func (r *folderReader) readContent(name string) (data []byte, err error) {
	f, err := r.root.Open(name)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	return io.ReadAll(io.LimitReader(f, int64(r.bounds.file)+1))
}

func (r *folderReader) addFault(name, format string, args ...any) {
	if len(r.snap.faults) < maxFaults {
		r.snap.faults = append(r.snap.faults, agent.Fault{File: name, Message: fmt.Errorf(format, args...).Error()})
	}
}

// stopAtLimit ends the reading at a bound of the whole folder. Its fault is reported however many others there are.
func (r *folderReader) stopAtLimit(format string, args ...any) {
	r.full = true
	r.snap.faults = append(r.snap.faults, agent.Fault{Message: fmt.Sprintf("folder %q: "+format, append([]any{r.base}, args...)...)})
}

// computeDigest returns a digest of names, contents and faults.
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

// isManifest reports whether a file of that name holds documents. Backups and swap files of editors (x.yaml~, #x.yaml#, .x.yaml.swp) do not.
func isManifest(name string) bool {
	switch path.Ext(name) {
	case ".yaml", ".yml", ".json":
		return true
	default:
		return false
	}
}

// withoutPath returns the cause of a file error, without operation and path: the message has the path already.
func withoutPath(err error) error {
	if e, ok := errors.AsType[*fs.PathError](err); ok {
		return e.Err
	}
	return err
}
