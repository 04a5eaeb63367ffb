package cli

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// writeFile writes a file, creates its folders, and returns its path.
func writeFile(t *testing.T, text string, path ...string) string {
	t.Helper()
	name := filepath.Join(path...)
	require.NoError(t, os.MkdirAll(filepath.Dir(name), 0o700))
	require.NoError(t, os.WriteFile(name, []byte(text), 0o600))
	return name
}

func TestReadManifests(t *testing.T) {
	dir := t.TempDir()
	writeFile(t, "b", dir, "b.yaml")
	writeFile(t, "a", dir, "a", "deep", "a.YML")
	writeFile(t, "c", dir, "c.json")
	writeFile(t, "text", dir, "readme.md")
	writeFile(t, "hidden", dir, ".hidden.yaml")
	writeFile(t, "hidden", dir, ".git", "x.yaml")
	// As in a volume of Kubernetes: a link to a hidden folder in the same folder.
	writeFile(t, "mounted", dir, "..2026", "k.yaml")
	require.NoError(t, os.Symlink("..2026", filepath.Join(dir, "..data")))
	require.NoError(t, os.Symlink("..data/k.yaml", filepath.Join(dir, "k.yaml")))
	require.NoError(t, os.Symlink("a", filepath.Join(dir, "link.yaml")))
	other := writeFile(t, "named", t.TempDir(), "no-extension")

	files, err := readManifests(t.Context(), strings.NewReader("piped"), []string{dir, "-", other, filepath.Join(dir, "b.yaml"), dir + "/."})
	require.NoError(t, err)
	var got []string
	for _, f := range files {
		name, err := filepath.Rel(dir, f.Name)
		if f.Name == "stdin" || f.Name == other || err != nil {
			name = filepath.Base(f.Name)
		}
		got = append(got, name+": "+string(f.Data))
	}
	require.Equal(t, []string{
		"a/deep/a.YML: a", "b.yaml: b", "c.json: c", "k.yaml: mounted", "stdin: piped", "no-extension: named",
	}, got)
}

func TestReadManifestsRefuses(t *testing.T) {
	dir := t.TempDir()
	outside := writeFile(t, "x", t.TempDir(), "outside.yaml")
	writeFile(t, strings.Repeat("#", maxManifest), dir, "fits", "a.yaml")
	writeFile(t, strings.Repeat("#", maxManifest+1), dir, "large", "a.yaml")
	writeFile(t, "", dir, "empty", "readme.md")
	for i := range maxManifests + 1 {
		writeFile(t, "", dir, "many", fmt.Sprintf("%d.yaml", i))
	}
	for i := range maxManifestBytes/maxManifest + 1 {
		writeFile(t, strings.Repeat("#", maxManifest), dir, "sum", fmt.Sprintf("%d.yaml", i))
	}
	for _, folder := range []string{"out", "gone", "pipe"} {
		require.NoError(t, os.Mkdir(filepath.Join(dir, folder), 0o700))
	}
	require.NoError(t, os.Symlink(outside, filepath.Join(dir, "out", "a.yaml")))
	require.NoError(t, os.Symlink("nowhere", filepath.Join(dir, "gone", "a.yaml")))
	require.NoError(t, syscall.Mkfifo(filepath.Join(dir, "pipe", "a.yaml"), 0o600))
	cases := map[string]string{
		"fits": "", "large": "a.yaml: is larger than 1048576 bytes", "many": "more than 1000 files", "sum": "all files together are larger",
		"out": "out/a.yaml: path escapes", "gone": "gone/a.yaml: no such file", "pipe": "is no regular file", "empty": "no *.yaml",
		"missing": "no such file",
	}
	for name, want := range cases {
		t.Run(name, func(t *testing.T) {
			_, err := readManifests(t.Context(), noInput(), []string{filepath.Join(dir, name)})
			if want == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorContains(t, err, want)
			require.Equal(t, exitUsage, exitCode(err))
		})
	}
}

func TestReadManifestsCanBeBrokenOff(t *testing.T) {
	in, typing := io.Pipe()
	defer typing.Close()
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errInterrupted)
	_, err := readManifests(ctx, in, []string{"-"})
	require.ErrorIs(t, err, errInterrupted)
	_, err = readManifests(ctx, in, []string{t.TempDir()})
	require.ErrorIs(t, err, errInterrupted)
}
