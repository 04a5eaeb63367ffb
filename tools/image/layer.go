package main

import (
	"archive/tar"
	"bytes"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// user is the user id of nonroot in distroless images, which the image runs as.
const user = 65532

// file is a file of a layer. Its content is text or that of the file source. A path with a slash at the end is a folder.
type file struct {
	path   string
	source string
	text   []byte
	mode   int64
	owner  int
}

// newLayer returns a layer with files and their parent folders. It has no times, so the same files always have the same digest.
func newLayer(files []file) (v1.Layer, error) {
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	added := map[string]bool{}
	for _, f := range files {
		if err := addFolders(w, added, f.path); err != nil {
			return nil, err
		}
		if err := addFile(w, f); err != nil {
			return nil, err
		}
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	open := func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(out.Bytes())), nil }
	return tarball.LayerFromOpener(open, tarball.WithMediaType(types.OCILayer))
}

// addFolders adds the parent folders of a path that have not been added.
func addFolders(w *tar.Writer, added map[string]bool, name string) error {
	parts := strings.Split(strings.Trim(name, "/"), "/")
	for i := 1; i < len(parts); i++ {
		folder := path.Join(parts[:i]...) + "/"
		if added[folder] {
			continue
		}
		added[folder] = true
		if err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: folder, Mode: 0o755}); err != nil {
			return err
		}
	}
	return nil
}

func addFile(w *tar.Writer, f file) error {
	if strings.HasSuffix(f.path, "/") {
		return w.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: f.path, Mode: f.mode, Uid: f.owner, Gid: f.owner})
	}
	text := f.text
	if f.source != "" {
		var err error
		if text, err = os.ReadFile(f.source); err != nil {
			return err
		}
	}
	if err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: f.path, Mode: f.mode, Size: int64(len(text))}); err != nil {
		return err
	}
	_, err := w.Write(text)
	return err
}

// writeTar writes the files of an OCI layout to a tar file, in the order of their names.
func writeTar(folder, to string) error {
	var files []file
	err := filepath.WalkDir(folder, func(p string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		name, err := filepath.Rel(folder, p)
		files = append(files, file{path: filepath.ToSlash(name), source: p, mode: 0o644})
		return err
	})
	if err != nil {
		return err
	}
	out, err := os.Create(to)
	if err != nil {
		return err
	}
	defer out.Close() //nolint:errcheck // without an error before, it is closed below
	w := tar.NewWriter(out)
	for _, f := range files {
		if err := addFile(w, f); err != nil {
			return err
		}
	}
	if err := w.Close(); err != nil {
		return err
	}
	return out.Close()
}
