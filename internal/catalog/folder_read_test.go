package catalog

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

func folderNames(s *folderState) []string {
	out := []string{}
	for _, f := range s.files {
		out = append(out, f.Name)
	}
	return out
}

func folderFaults(s *folderState) []string {
	out := []string{}
	for _, f := range s.faults {
		out = append(out, f.String())
	}
	return out
}

func TestReadFolder(t *testing.T) {
	outside := t.TempDir()
	writeFile(t, outside, "secret.yaml", "s")
	cases := map[string]struct {
		make   func(t *testing.T, dir string)
		files  []string
		faults []string // whole messages, or their beginnings up to a colon
	}{
		"empty": {make: func(*testing.T, string) {}},
		"sorted by path, in sub-folders": {
			make: func(t *testing.T, dir string) {
				for _, name := range []string{"b.yaml", "a/z.yml", "a/b/c.json", "a.yaml", "README.md", "yaml"} {
					writeFile(t, dir, name, name)
				}
			},
			files: []string{"a.yaml", "a/b/c.json", "a/z.yml", "b.yaml"},
		},
		"what editors and git leave": {
			make: func(t *testing.T, dir string) {
				for _, name := range []string{"a.yaml", ".a.yaml.swp", ".a.yaml", "a.yaml~", "#a.yaml#", "4913", ".git/config.yaml", "a.yaml.tmp", "b.yaml.bak"} {
					writeFile(t, dir, name, name)
				}
				require.NoError(t, os.Symlink("me@host.1234", filepath.Join(dir, ".#a.yaml")))
			},
			files: []string{"a.yaml"},
		},
		"a mounted ConfigMap": {
			make: func(t *testing.T, dir string) {
				writeFile(t, dir, "..1/a.yaml", "a")
				writeFile(t, dir, "..1/sub/b.yaml", "b")
				for link, to := range map[string]string{"..data": "..1", "a.yaml": "..data/a.yaml", "sub": "..data/sub"} {
					require.NoError(t, os.Symlink(to, filepath.Join(dir, link)))
				}
			},
			files: []string{"a.yaml", "sub/b.yaml"},
		},
		"links in circles, and to what is read anyway": {
			make: func(t *testing.T, dir string) {
				writeFile(t, dir, "z/a.yaml", "a")
				require.NoError(t, os.Symlink("..", filepath.Join(dir, "z", "up")))
				require.NoError(t, os.Symlink("z", filepath.Join(dir, "again")))
				require.NoError(t, os.Symlink(".", filepath.Join(dir, "self")))
			},
			files: []string{"z/a.yaml"},
		},
		"links out of the folder": {
			make: func(t *testing.T, dir string) {
				writeFile(t, dir, "a.yaml", "a")
				require.NoError(t, os.Symlink(filepath.Join(outside, "secret.yaml"), filepath.Join(dir, "b.yaml")))
				require.NoError(t, os.Symlink(outside, filepath.Join(dir, "c")))
				relative, err := filepath.Rel(dir, outside)
				require.NoError(t, err)
				require.NoError(t, os.Symlink(relative, filepath.Join(dir, "d")))
			},
			files: []string{"a.yaml"},
			faults: []string{
				"b.yaml: link cannot be followed: path escapes from parent", "c: link cannot be followed: path escapes from parent",
				"d: link cannot be followed: path escapes from parent",
			},
		},
		"links to nothing": {
			make: func(t *testing.T, dir string) {
				require.NoError(t, os.Symlink("gone.yaml", filepath.Join(dir, "a.yaml")))
				require.NoError(t, os.Symlink("gone", filepath.Join(dir, "b")))
			},
			faults: []string{"a.yaml: link cannot be followed: no such file or directory"},
		},
		"named pipe": {
			make: func(t *testing.T, dir string) {
				require.NoError(t, syscall.Mkfifo(filepath.Join(dir, "a.yaml"), 0o600))
			},
			faults: []string{"a.yaml: is no regular file"},
		},
		"folder with a manifest's name": {
			make:  func(t *testing.T, dir string) { writeFile(t, dir, "a.yaml/b.yaml", "b") },
			files: []string{"a.yaml/b.yaml"},
		},
		"oversize": {
			make: func(t *testing.T, dir string) {
				writeFile(t, dir, "a.yaml", strings.Repeat("x", 100))
				writeFile(t, dir, "b.yaml", strings.Repeat("x", 101))
			},
			files: []string{"a.yaml"}, faults: []string{"b.yaml: larger than 100 bytes"},
		},
		"oversize in all": {
			make: func(t *testing.T, dir string) {
				for _, name := range []string{"a.yaml", "b.yaml", "c.yaml", "d.yaml"} {
					writeFile(t, dir, name, strings.Repeat("x", 80))
				}
			},
			files: []string{"a.yaml", "b.yaml", "c.yaml"}, faults: []string{"folder: files larger than 250 bytes in all"},
		},
		"too many files": {
			make: func(t *testing.T, dir string) {
				for name := range strings.SplitSeq("abcdef", "") {
					writeFile(t, dir, name+".yaml", "")
				}
			},
			files: []string{"a.yaml", "b.yaml", "c.yaml", "d.yaml", "e.yaml"}, faults: []string{"folder: more than 5 files"},
		},
		"too many entries": {
			make: func(t *testing.T, dir string) {
				for name := range strings.SplitSeq("abcdefghijk", "") {
					writeFile(t, dir, name, "")
				}
			},
			faults: []string{"folder: more than 10 entries"},
		},
		"too deep": {
			make: func(t *testing.T, dir string) {
				writeFile(t, dir, "1/2/a.yaml", "")
				writeFile(t, dir, "1/2/3/a.yaml", "")
				writeFile(t, dir, "1/2/3/4/a.yaml", "")
			},
			files: []string{"1/2/3/a.yaml", "1/2/a.yaml"}, faults: []string{"1/2/3/4: more than 3 folders deep"},
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			c.make(t, dir)
			s := readFolder(dir, folderBounds{fileBytes: 100, totalBytes: 250, files: 5, entries: 10, depth: 3})
			require.Equal(t, append([]string{}, c.files...), folderNames(s))
			got := folderFaults(s)
			for i := range got {
				got[i] = strings.Replace(got[i], `folder "`+dir+`"`, "folder", 1)
			}
			require.Equal(t, append([]string{}, c.faults...), got)
		})
	}
}

func TestReadMissingFolder(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "gone")
	s := readFolder(dir, defaultFolderBounds())
	require.Equal(t, []string{`folder "` + dir + `": no such file or directory`}, folderFaults(s))
}

func TestFolderFaultsAreBounded(t *testing.T) {
	dir := t.TempDir()
	for i := range maxFaults + 5 {
		require.NoError(t, os.Symlink("gone", filepath.Join(dir, strings.Repeat("x", i+1)+".yaml")))
	}
	require.Len(t, readFolder(dir, defaultFolderBounds()).faults, maxFaults)
}

func TestFolderDigest(t *testing.T) {
	dir := t.TempDir()
	seen := map[folderDigest]string{}
	differs := func(what string) {
		t.Helper()
		d := readFolder(dir, defaultFolderBounds()).digest
		require.Equal(t, d, readFolder(dir, defaultFolderBounds()).digest)
		require.NotContains(t, seen, d, "%s is like %s", what, seen[d])
		seen[d] = what
	}
	differs("empty")
	writeFile(t, dir, "a.yaml", "")
	differs("an empty file")
	writeFile(t, dir, "a.yaml", "xy")
	differs("content")
	writeFile(t, dir, "a.yaml", "yx")
	differs("other content of the same length")
	require.NoError(t, os.Rename(filepath.Join(dir, "a.yaml"), filepath.Join(dir, "b.yaml")))
	differs("another name")
	writeFile(t, dir, "b.yaml", "y")
	writeFile(t, dir, "c.yaml", "x")
	differs("another cut")
	require.NoError(t, os.Symlink("gone", filepath.Join(dir, "d.yaml")))
	differs("a fault")
	require.NoError(t, os.RemoveAll(dir))
	differs("missing")
}
