package cmdline

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestFormatArgs(t *testing.T) {
	t.Parallel()
	require.Equal(t, `{"a":12345678901234567890,"expr":"price < 500"}`, formatArgs(json.RawMessage(`{"expr":"price \u003c 500", "a":12345678901234567890}`))) //nolint:testifylint // how it is written is what is shown
	require.Equal(t, `not json`, formatArgs(json.RawMessage(`not json`)))
	long, err := json.Marshal(map[string]any{"list": strings.Split(strings.Repeat("word ", 200), " "), "last": "the end"})
	require.NoError(t, err)
	text := formatArgs(long)
	require.Contains(t, text, "the end")
	require.Contains(t, text, "\n    \"last\"")
	huge, err := json.Marshal(strings.Repeat("x", 2*maxArgs))
	require.NoError(t, err)
	require.Contains(t, formatArgs(huge), "… and 16002 more characters")
}
