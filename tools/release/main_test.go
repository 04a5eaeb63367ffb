package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestBuildIsTheSameTwice builds a small program twice, and reads its bill of materials.
func TestBuildIsTheSameTwice(t *testing.T) {
	t.Chdir("../..")
	folder := t.TempDir()
	one, two := filepath.Join(folder, "release_one"), filepath.Join(folder, "release_two")
	for _, file := range []string{one, two} {
		require.NoError(t, build(file, "./tools/release", runtime.GOOS, runtime.GOARCH))
		require.NoError(t, writeSBOM(file, file+".cdx.json"))
	}
	first, err := fileSHA256(one)
	require.NoError(t, err)
	second, err := fileSHA256(two)
	require.NoError(t, err)
	require.Equal(t, first, second)

	text, err := os.ReadFile(one + ".cdx.json")
	require.NoError(t, err)
	again, err := os.ReadFile(two + ".cdx.json")
	require.NoError(t, err)
	require.Equal(t, string(text), string(again))
	var list bom
	require.NoError(t, json.Unmarshal(text, &list))
	require.Equal(t, "CycloneDX", list.Format)
	require.Equal(t, "release", list.Metadata.Component.Name)
	require.Equal(t, []hash{{"SHA-256", first}}, list.Metadata.Component.Hashes)
	require.Equal(t, "std", list.Components[0].Name)

	require.NoError(t, writeSums(folder))
	sums, err := os.ReadFile(filepath.Join(folder, "SHA256SUMS"))
	require.NoError(t, err)
	require.Contains(t, string(sums), first+"  release_one\n")
}
