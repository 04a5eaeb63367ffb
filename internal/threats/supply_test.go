package threats_test

import (
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestEveryFuzzTargetRuns: `task fuzz` runs what .ci/run targets lists, and that is every target of the repository.
func TestEveryFuzzTargetRuns(t *testing.T) {
	t.Parallel()
	var want []string
	require.NoError(t, filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.IsDir() {
			return err
		}
		folder, err := filepath.Rel(root, path)
		for name := range testsOf(t, path) {
			if strings.HasPrefix(name, "Fuzz") {
				want = append(want, "./"+filepath.ToSlash(folder)+":"+name)
			}
		}
		return err
	}))
	ci := exec.CommandContext(t.Context(), "bash", ".ci/run", "targets")
	ci.Dir = root
	listed, err := ci.Output()
	require.NoError(t, err)
	require.ElementsMatch(t, want, strings.Fields(string(listed)))
	taskfile, err := os.ReadFile(filepath.Join(root, "Taskfile.yml"))
	require.NoError(t, err)
	require.Regexp(t, `(?s)  fuzz:\n.*?cmds: \[\.ci/run fuzz\]`, string(taskfile))
}

// TestSupplyChain: what builds the product is pinned, and looked up in the list of known vulnerabilities whenever CI runs.
func TestSupplyChain(t *testing.T) {
	t.Parallel()
	read := func(path string) string {
		data, err := os.ReadFile(filepath.Join(root, path))
		require.NoError(t, err)
		return string(data)
	}
	ci := read(".ci/run")
	require.Regexp(t, `\[ \$# -gt 0 \] \|\| stages=\([a-z ]*\bvuln\b`, ci, "the default stages have the scan")
	require.Contains(t, ci, `-db "file://$PWD/tools/vuln/proof"`, "the scanner shows that it finds something")
	require.Contains(t, ci, "govulncheck ./worker ./starter")

	modules, err := filepath.Glob(filepath.Join(root, "tools/*/go.mod"))
	require.NoError(t, err)
	require.GreaterOrEqual(t, len(modules), 5)
	modules = append(modules, filepath.Join(root, "go.mod"))
	goVersion := regexp.MustCompile(`(?m)^go (\d+\.\d+\.\d+)$`)
	for _, path := range modules {
		data, err := os.ReadFile(path)
		require.NoError(t, err)
		require.Regexp(t, goVersion, string(data), "%s names the patch release of Go", path)
		require.NotRegexp(t, `(?m)^\s*replace\b`, string(data), "%s builds what it names", path)
		require.FileExists(t, strings.TrimSuffix(path, ".mod")+".sum", "checksums of %s", path)
	}
	require.Regexp(t, `(?s)CGO_ENABLED=0.*go build -trimpath`, read("Dockerfile"), "no C, and no paths of who built it")
}
