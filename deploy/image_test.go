package deploy_test

import (
	"os/exec"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestImage runs the tests of tools/image. go test ./... does not run them, because it is a module of its own.
func TestImage(t *testing.T) {
	out, err := exec.CommandContext(t.Context(), "go", "test", "-C", "../tools/image", "-vet=off", ".").CombinedOutput()
	require.NoError(t, err, "%s", out)
}
