package referencestest_test

import (
	"testing"

	"github.com/turnstone-run/turnstone/internal/tool"
	"github.com/turnstone-run/turnstone/internal/tool/research/referencestest"
)

func TestMemory(t *testing.T) {
	referencestest.Exercise(t, func(*testing.T) tool.References { return &referencestest.Memory{} })
}
