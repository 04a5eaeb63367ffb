package librarytest_test

import (
	"testing"

	"github.com/turnstone-run/turnstone/internal/flow/library"
	"github.com/turnstone-run/turnstone/internal/flow/library/librarytest"
)

func TestMemory(t *testing.T) {
	librarytest.Exercise(t, func(*testing.T) library.Store { return new(librarytest.Memory) })
}
