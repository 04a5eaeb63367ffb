package pgdev

import (
	"math"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// The server of a dead owner may still run when the next server starts.
func TestServerOfADeadOwnerIsStopped(t *testing.T) {
	t.Parallel()
	dir, err := os.MkdirTemp("", "pgdev-test-")
	require.NoError(t, err)
	require.NoError(t, os.Chmod(dir, 0o755))
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(dir)) })

	former, err := Start(t.Context(), Config{DataDir: dir})
	require.NoError(t, err)
	require.NoError(t, former.folder.lock.Release()) // as if its owner were dead

	next, err := Start(t.Context(), Config{DataDir: dir})
	require.NoError(t, err)
	select {
	case <-former.Exited():
	case <-time.After(30 * time.Second):
		require.FailNow(t, "the former server still runs")
	}
	require.NotZero(t, next.Pid())
	require.NoError(t, next.Stop(t.Context()))
}

func TestThrowAwayServerIsInMemory(t *testing.T) {
	t.Parallel()
	require.Equal(t, runtime.GOOS == "linux", hasMemory(memoryFolder, 1))
	require.False(t, hasMemory("/proc", 0), "a file system of another kind")
	require.False(t, hasMemory("/no/such/folder", 0))
	require.Equal(t, temporaryRoots(), ephemeralRoots(math.MaxUint64), "too little memory")

	server, err := Start(t.Context(), Config{Ephemeral: true})
	require.NoError(t, err)
	root, err := filepath.EvalSymlinks(ephemeralRoots(minMemory)[0])
	require.NoError(t, err)
	require.Equal(t, root, filepath.Dir(server.folder.dir))
	require.NoError(t, server.Stop(t.Context()))
	require.NoDirExists(t, server.folder.dir)
}

func TestFolderHasOneOwner(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	first, err := LockFolder(dir)
	require.NoError(t, err)

	_, err = LockFolder(dir)
	require.ErrorIs(t, err, ErrInUse)
	require.ErrorContains(t, err, strconv.Itoa(os.Getpid()))

	require.NoError(t, first.Release())
	second, err := LockFolder(dir)
	require.NoError(t, err)
	require.NoError(t, second.Release())

	_, err = LockFolder(filepath.Join(dir, "missing"))
	require.ErrorIs(t, err, os.ErrNotExist)
}
