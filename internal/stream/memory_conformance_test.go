package stream_test

import (
	"testing"

	"github.com/turnstone-run/turnstone/internal/stream"
	"github.com/turnstone-run/turnstone/internal/stream/streamtest"
)

func TestMemoryLogConforms(t *testing.T) {
	streamtest.Exercise(t, func(*testing.T) streamtest.Log { return stream.NewMemoryLog() })
}
