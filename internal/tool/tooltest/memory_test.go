package tooltest_test

import (
	"testing"

	"github.com/turnstone-run/turnstone/internal/tool"
	"github.com/turnstone-run/turnstone/internal/tool/tooltest"
)

func TestComposites(t *testing.T) {
	t.Parallel()
	tooltest.ExerciseComposites(t, func(*testing.T) tool.Composites { return &tooltest.CompositeStore{} })
}

func TestReferences(t *testing.T) {
	t.Parallel()
	tooltest.ExerciseReferences(t, func(*testing.T) tool.References { return &tooltest.ReferenceStore{} })
}
