package strictjson_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/strictjson"
)

// A body may be a few megabytes of brackets. Neither decoder recurses as deep as a caller likes: the stack of a goroutine is the process's to lose.
func TestDeepDocumentsAreRefused(t *testing.T) {
	t.Parallel()
	const deep = 1 << 20
	for name, document := range map[string]string{
		"arrays":      strings.Repeat("[", deep) + strings.Repeat("]", deep),
		"never ended": strings.Repeat("[", deep),
		"objects":     strings.Repeat(`{"a":`, deep) + "1" + strings.Repeat("}", deep),
		"in a field":  `{"raw":` + strings.Repeat("[", deep) + strings.Repeat("]", deep) + `}`,
	} {
		for _, into := range []any{new(any), new(map[string]any), &struct {
			Raw json.RawMessage `json:"raw"`
		}{}} {
			err := strictjson.Decode([]byte(document), into)
			require.Equal(t, agent.CodeInvalid, agent.CodeOf(err), "%s into %T", name, into)
			require.Less(t, len(err.Error()), 64<<10, "%s: what is refused is not repeated at length", name)
		}
	}
}
