package manifest_test

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/catalog/manifest"
)

var update = flag.Bool("update", false, "write the files that the tests compare with, docs/schemas included")

// Each file of testdata/bad has all its faults in a file beside it, one a line.
func TestFaultsNameTheirPlace(t *testing.T) {
	files, err := filepath.Glob("testdata/bad/*.*")
	require.NoError(t, err)
	tested := 0
	for _, file := range files {
		if filepath.Ext(file) == ".want" {
			continue
		}
		tested++
		t.Run(filepath.Base(file), func(t *testing.T) {
			data, err := os.ReadFile(file)
			require.NoError(t, err)
			_, faults := manifest.Parse([]agent.ManifestFile{{Name: filepath.Base(file), Data: data}})
			got := strings.Join(strings.SplitAfter(faults.Error()+"\n", "\n"), "")
			require.NotContains(t, got, "hunter2", "a value is repeated")
			golden := file + ".want"
			if *update {
				require.NoError(t, os.WriteFile(golden, []byte(got), 0o644))
			}
			want, err := os.ReadFile(golden)
			require.NoError(t, err)
			require.Equal(t, string(want), got)
		})
	}
	require.GreaterOrEqual(t, tested, 10)
}
