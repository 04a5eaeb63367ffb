package main

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestPage holds docs/processes.md to the files that it quotes.
func TestPage(t *testing.T) {
	root := filepath.Join("..", "..")
	page, err := os.ReadFile(filepath.Join(root, "docs", "processes.md"))
	require.NoError(t, err)
	quotes := regexp.MustCompile("(?s)<!-- ([a-z/_]+\\.go) -->\n```go\n(.*?)```\n").FindAllStringSubmatch(string(page), -1)
	require.Len(t, quotes, 4)
	for _, q := range quotes {
		source, err := os.ReadFile(filepath.Join(root, q[1]))
		require.NoError(t, err)
		require.Contains(t, string(source), q[2], "docs/processes.md quotes what is not in %s", q[1])
	}
}
