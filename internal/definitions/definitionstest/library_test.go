package definitionstest_test

import (
	"testing"

	"github.com/turnstone-run/turnstone/internal/definitions/definitionstest"
	"github.com/turnstone-run/turnstone/internal/definitions/library"
)

func TestLibraryStore(t *testing.T) {
	definitionstest.ExerciseLibraryStore(t, func(*testing.T) library.Store { return new(definitionstest.LibraryStore) })
}
