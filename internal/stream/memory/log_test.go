package memory_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/internal/stream/memory"
	"github.com/turnstone-run/turnstone/internal/stream/streamtest"
)

func TestConformance(t *testing.T) {
	streamtest.Exercise(t, func(t *testing.T) streamtest.Log {
		log, err := memory.New(memory.Config{})
		require.NoError(t, err)
		return log
	})
}
