// Package examples_test compares the pages of docs/ with the examples that they quote.
package examples_test

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"
)

// quoted matches a quote of code in a page with the name of its file.
var quoted = regexp.MustCompile("(?s)<!-- ([a-z0-9/_]+\\.go) -->\n```go\n(.*?)```\n")

func TestQuotes(t *testing.T) {
	for name, want := range map[string]struct{ quotes, folders int }{
		"guides/extending.md": {9, 6}, "guides/processes.md": {4, 1}, "start/tutorial.md": {1, 1},
	} {
		page, err := os.ReadFile(filepath.Join("..", "docs", name))
		require.NoError(t, err)
		quotes := quoted.FindAllStringSubmatch(string(page), -1)
		require.GreaterOrEqual(t, len(quotes), want.quotes)
		folders := map[string]bool{}
		for _, q := range quotes {
			source, err := os.ReadFile(filepath.Join("..", q[1]))
			require.NoError(t, err)
			require.Contains(t, string(source), q[2], "docs/%s quotes code that is not in %s", name, q[1])
			folders[filepath.Dir(q[1])] = true
		}
		require.GreaterOrEqual(t, len(folders), want.folders, "each recipe of docs/%s has an example", name)
	}
}
