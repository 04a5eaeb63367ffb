package librarytest_test

import (
	"testing"

	"github.com/turnstone-run/turnstone/internal/definitions/library"
	"github.com/turnstone-run/turnstone/internal/definitions/library/librarytest"
)

func TestMemory(t *testing.T) {
	librarytest.Exercise(t, func(*testing.T) library.Store { return new(librarytest.Memory) })
}
