//go:build unix

package dirlock_test

import (
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/internal/devstack/dirlock"
)

func TestOneOwnerAtATime(t *testing.T) {
	dir := t.TempDir()
	first, err := dirlock.Acquire(dir)
	require.NoError(t, err)

	_, err = dirlock.Acquire(dir)
	require.ErrorIs(t, err, dirlock.ErrInUse)
	require.ErrorContains(t, err, strconv.Itoa(os.Getpid()))

	require.NoError(t, first.Release())
	second, err := dirlock.Acquire(dir)
	require.NoError(t, err)
	require.NoError(t, second.Release())
}

func TestMissingFolder(t *testing.T) {
	_, err := dirlock.Acquire(filepath.Join(t.TempDir(), "missing"))
	require.ErrorIs(t, err, os.ErrNotExist)
}
