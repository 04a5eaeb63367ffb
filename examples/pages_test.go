// Package examples_test holds the pages of docs/ to the examples that they quote.
package examples_test

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"
)

// quoted is code of a page with the file that it is taken from.
var quoted = regexp.MustCompile("(?s)<!-- ([a-z/_]+\\.go) -->\n```go\n(.*?)```\n")

func TestQuotes(t *testing.T) {
	page, err := os.ReadFile(filepath.Join("..", "docs", "extending.md"))
	require.NoError(t, err)
	quotes := quoted.FindAllStringSubmatch(string(page), -1)
	require.GreaterOrEqual(t, len(quotes), 8)
	files := map[string]bool{}
	for _, q := range quotes {
		source, err := os.ReadFile(filepath.Join("..", q[1]))
		require.NoError(t, err)
		require.Contains(t, string(source), q[2], "docs/extending.md quotes what is not in %s", q[1])
		files[filepath.Dir(q[1])] = true
	}
	require.Len(t, files, 5, "each recipe has an example")
}
