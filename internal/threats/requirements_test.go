package threats_test

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestRequirementsNameTests checks that docs/reference/requirements.md names tests that exist.
func TestRequirementsNameTests(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile(filepath.Join(root, "docs/reference/requirements.md"))
	require.NoError(t, err)
	named := regexp.MustCompile("`([\\w/-]+)\\.((?:Test|Fuzz)\\w+)`").FindAllStringSubmatch(string(page), -1)
	require.Greater(t, len(named), 200)
	for _, m := range named {
		require.Contains(t, testsOf(t, filepath.Join(root, m[1])), m[2], "a test of %s", m[1])
	}
}
