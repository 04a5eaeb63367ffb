package compositetest_test

import (
	"testing"

	"github.com/turnstone-run/turnstone/internal/tool"
	"github.com/turnstone-run/turnstone/internal/tool/pipeline/compositetest"
)

func TestMemory(t *testing.T) {
	t.Parallel()
	compositetest.Exercise(t, func(*testing.T) tool.Composites { return &compositetest.Memory{} })
}
