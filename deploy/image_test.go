package deploy_test

import (
	"os/exec"
	"testing"

	"github.com/stretchr/testify/require"
)

// The tool that makes the image is a module of its own, which go test ./... does not enter.
func TestImage(t *testing.T) {
	out, err := exec.CommandContext(t.Context(), "go", "test", "-C", "../tools/image", "-vet=off", ".").CombinedOutput()
	require.NoError(t, err, "%s", out)
}
