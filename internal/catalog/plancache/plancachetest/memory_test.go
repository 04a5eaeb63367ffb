package plancachetest_test

import (
	"testing"

	"github.com/turnstone-run/turnstone/internal/catalog/plancache"
	"github.com/turnstone-run/turnstone/internal/catalog/plancache/plancachetest"
)

func TestMemory(t *testing.T) {
	plancachetest.Exercise(t, func(*testing.T) plancache.Shared { return &plancachetest.Memory{} })
}
