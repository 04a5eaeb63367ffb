package pglisten_test

import (
	"testing"

	"github.com/turnstone-run/turnstone/internal/devstack/pgdev/pgtest"
)

func TestMain(m *testing.M) { pgtest.Main(m) }
