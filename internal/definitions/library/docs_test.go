package library_test

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/internal/definitions/library"
)

// The example of docs/guides/workflows.md is a valid definition.
func TestDocumentedDefinition(t *testing.T) {
	page, err := os.ReadFile("../../../docs/guides/workflows.md")
	require.NoError(t, err)
	_, rest, found := strings.Cut(string(page), "```json\n")
	require.True(t, found)
	example, _, found := strings.Cut(rest, "```")
	require.True(t, found)
	_, faults := library.Parse(json.RawMessage(example))
	require.Empty(t, faults)
}
