package inbox_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/internal/inbox"
	"github.com/turnstone-run/turnstone/internal/llm/doctor"
)

// The order that docs/design/wiring.md has, as the code that serves turns has it.
func TestLayers(t *testing.T) {
	t.Parallel()
	layers, err := inbox.Layers(t.Context())
	require.NoError(t, err)
	require.Equal(t, []string{doctor.LayerRequests, doctor.LayerMiddleware, doctor.LayerObservability, doctor.LayerTools}, layers)
}
