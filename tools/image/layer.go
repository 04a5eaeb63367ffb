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

// user is whom the image runs as: nonroot, as in the distroless images.
const user = 65532

// file is a file of a layer: with a text, or the content of a source. A path that ends in a slash is a folder.
type file struct {
	path   string
	source string
	text   []byte
	mode   int64
	owner  int
}

// layerOf returns a layer of files, with the folders above them. Nothing in it is of today: so the same files give the same digest.
func layerOf(files []file) (v1.Layer, error) {
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	made := map[string]bool{}
	for _, f := range files {
		if err := addFolders(w, made, f.path); err != nil {
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

// addFolders adds the folders above a path that are not there yet.
func addFolders(w *tar.Writer, made map[string]bool, name string) error {
	parts := strings.Split(strings.Trim(name, "/"), "/")
	for i := 1; i < len(parts); i++ {
		folder := path.Join(parts[:i]...) + "/"
		if made[folder] {
			continue
		}
		made[folder] = true
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
	defer out.Close() //nolint:errcheck // closed below; again after a failure alone
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
