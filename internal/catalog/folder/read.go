package folder

import (
	"cmp"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/dustin/go-humanize"

	"github.com/turnstone-run/turnstone/agent"
)

const (
	maxFaults = 100  // that are told
	batch     = 1000 // entries of a folder that are asked for at a time
)

// bounds are those of a folder; one that is beyond them is not applied.
type bounds struct {
	file, total    int // bytes of one file and of all
	files, entries int // entries: files and folders of any name
	depth          int // folders
}

func limits() bounds {
	return bounds{file: 1 << 20, total: 64 << 20, files: 10_000, entries: 100_000, depth: 32}
}

// digest is the sha-256 of a snapshot.
type digest [sha256.Size]byte

// snapshot is the folder as it was read.
type snapshot struct {
	files  []agent.ManifestFile // sorted by name, relative to the folder and with slashes
	dirs   []directory          // that were read
	faults agent.Faults         // why this is not all of it
	digest digest               // of the files and the faults
}

type directory struct {
	path string // absolute
	info fs.FileInfo
}

// reader reads a folder through an [os.Root], which refuses every path that leads out of it.
type reader struct {
	root    *os.Root
	base    string
	bounds  bounds
	snap    *snapshot
	links   []string // to folders: read after the real ones, so that each folder is read once and under its own name
	entries int
	bytes   int
	full    bool // a bound of the whole was met
}

// read reads the folder. What it could not read is a fault of the snapshot.
func read(base string, within bounds) *snapshot {
	r := &reader{base: base, bounds: within, snap: &snapshot{}}
	root, err := os.OpenRoot(base)
	if err != nil {
		r.fault("", "folder %q: %w", base, reason(err))
	} else {
		r.root = root
		r.folder(".", false)
		for len(r.links) > 0 {
			name := r.links[0]
			r.links = r.links[1:]
			r.folder(name, true)
		}
		if err := root.Close(); err != nil {
			r.fault("", "folder %q: %w", base, reason(err))
		}
	}
	slices.SortFunc(r.snap.files, func(a, b agent.ManifestFile) int { return cmp.Compare(a.Name, b.Name) })
	r.snap.digest = r.snap.sum()
	return r.snap
}

// folder reads a folder and what is below it. Of one that was reached through a link it is not certain that it was not read before.
func (r *reader) folder(name string, linked bool) {
	if r.full {
		return
	}
	if depth := strings.Count(name, "/") + 1; depth > r.bounds.depth {
		r.fault(name, "more than %d folders deep", r.bounds.depth)
		return
	}
	info, found, err := r.list(name, linked)
	if err != nil {
		r.fault(name, "cannot be read: %w", reason(err))
		return
	}
	if info == nil {
		return
	}
	r.snap.dirs = append(r.snap.dirs, directory{path: filepath.Join(r.base, filepath.FromSlash(name)), info: info})
	for _, e := range found {
		full := path.Join(name, e.Name())
		switch {
		case r.full:
			return
		case strings.HasPrefix(e.Name(), "."):
		case e.IsDir():
			r.folder(full, linked)
		case e.Type()&fs.ModeSymlink != 0:
			r.link(full)
		case manifest(full):
			r.file(full)
		}
	}
}

// list returns the entries of a folder in order. info is nil for one that was read before.
func (r *reader) list(name string, linked bool) (info fs.FileInfo, found []fs.DirEntry, err error) {
	d, err := r.root.Open(name)
	if err != nil {
		return nil, nil, err
	}
	defer func() { err = errors.Join(err, d.Close()) }()
	if info, err = d.Stat(); err != nil {
		return nil, nil, err
	}
	if linked && slices.ContainsFunc(r.snap.dirs, func(known directory) bool { return os.SameFile(known.info, info) }) {
		return nil, nil, nil
	}
	for {
		some, err := d.ReadDir(batch)
		found = append(found, some...)
		if r.entries += len(some); r.entries > r.bounds.entries {
			r.stop("more than %s entries", humanize.Comma(int64(r.bounds.entries)))
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

// link takes a file behind a link at once and leaves a folder for later. A link that leads nowhere matters only when it has a
// manifest's name; one that leads out of the folder always does, for nobody would see that what is behind it is missing.
func (r *reader) link(name string) {
	info, err := r.root.Stat(name)
	switch {
	case errors.Is(err, fs.ErrNotExist) && !manifest(name):
	case err != nil:
		r.fault(name, "link cannot be followed: %w", reason(err))
	case info.IsDir():
		r.links = append(r.links, name)
	case manifest(name):
		r.file(name)
	}
}

func (r *reader) file(name string) {
	if len(r.snap.files) == r.bounds.files {
		r.stop("more than %s files", humanize.Comma(int64(r.bounds.files)))
		return
	}
	info, err := r.root.Stat(name) // before it is opened: that would wait for the writer of a named pipe
	switch {
	case err != nil:
		r.fault(name, "cannot be read: %w", reason(err))
		return
	case !info.Mode().IsRegular():
		r.fault(name, "is no regular file")
		return
	}
	data, err := r.content(name)
	switch {
	case err != nil:
		r.fault(name, "cannot be read: %w", reason(err))
	case len(data) > r.bounds.file:
		r.fault(name, "larger than %s bytes", humanize.Comma(int64(r.bounds.file)))
	case r.bytes+len(data) > r.bounds.total:
		r.stop("files larger than %s bytes in all", humanize.Comma(int64(r.bounds.total)))
	default:
		r.bytes += len(data)
		r.snap.files = append(r.snap.files, agent.ManifestFile{Name: name, Data: data})
	}
}

// content returns the bytes of a file, at most one more than are allowed.
func (r *reader) content(name string) (data []byte, err error) {
	f, err := r.root.Open(name)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	return io.ReadAll(io.LimitReader(f, int64(r.bounds.file)+1))
}

func (r *reader) fault(name, format string, args ...any) {
	if len(r.snap.faults) < maxFaults {
		r.snap.faults = append(r.snap.faults, agent.Fault{File: name, Message: fmt.Errorf(format, args...).Error()})
	}
}

// stop ends the reading: a bound of the whole folder was met. This fault is told whatever the others.
func (r *reader) stop(format string, args ...any) {
	r.full = true
	r.snap.faults = append(r.snap.faults, agent.Fault{Message: fmt.Sprintf("folder %q: "+format, append([]any{r.base}, args...)...)})
}

// sum tells states of the folder apart: names, bytes and faults.
func (s *snapshot) sum() digest {
	h := sha256.New()
	for _, f := range s.files {
		fmt.Fprintf(h, "%d:%s%d:", len(f.Name), f.Name, len(f.Data))
		h.Write(f.Data)
	}
	for _, f := range s.faults {
		fmt.Fprintf(h, "!%s\n", f.String())
	}
	return digest(h.Sum(nil))
}

// manifest says whether a file of that name holds documents. Backups and swap files of editors (x.yaml~, #x.yaml#, .x.yaml.swp) do not.
func manifest(name string) bool {
	switch path.Ext(name) {
	case ".yaml", ".yml", ".json":
		return true
	default:
		return false
	}
}

// reason is an error without the operation and the path: those who tell it have said the path already.
func reason(err error) error {
	if e, ok := errors.AsType[*fs.PathError](err); ok {
		return e.Err
	}
	return err
}
