package workflows_test

import (
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	sdkworker "go.temporal.io/sdk/worker"

	"github.com/turnstone-run/turnstone/workflows"
)

// corpus holds a folder of histories for each release, and "next" for those recorded since (docs/design/determinism.md).
const corpus = "testdata/replay"

// TestReplay runs today's code against the recorded histories of every release.
func TestReplay(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(corpus, "*", "*.json"))
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".json"), func(t *testing.T) {
			replayer := sdkworker.NewWorkflowReplayer()
			workflows.Register(replayer)
			require.NoError(t, replayer.ReplayWorkflowHistoryFromJSONFile(nil, file))
		})
	}
}

// TestReleasedHistoriesAreFrozen: the histories of a release are never recorded again, changed or removed.
func TestReleasedHistoriesAreFrozen(t *testing.T) {
	releases, err := filepath.Glob(filepath.Join(corpus, "v*"))
	require.NoError(t, err)
	require.Contains(t, releases, filepath.Join(corpus, "v0.1.0"))
	for _, release := range releases {
		files, err := filepath.Glob(filepath.Join(release, "*.json"))
		require.NoError(t, err)
		var sums strings.Builder // as sha256sum writes them
		for _, file := range files {
			content, err := os.ReadFile(file)
			require.NoError(t, err)
			fmt.Fprintf(&sums, "%x  %s\n", sha256.Sum256(content), filepath.Base(file))
		}
		released, err := os.ReadFile(filepath.Join(release, "SHA256SUMS"))
		require.NoError(t, err)
		require.Equal(t, string(released), sums.String())
	}
}
