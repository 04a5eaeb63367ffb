package catalog

import (
	"os"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/agent"
)

// asNobody runs f on a thread without root privileges, because file modes do not restrict root.
func asNobody(t *testing.T, f func()) {
	t.Helper()
	if os.Geteuid() != 0 {
		f()
		return
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	const nobody = 65534
	_, _, errno := syscall.RawSyscall(syscall.SYS_SETFSUID, nobody, 0, 0)
	require.Zero(t, errno)
	defer syscall.RawSyscall(syscall.SYS_SETFSUID, 0, 0, 0)
	f()
}

func TestFolderPermissionDenied(t *testing.T) {
	dir, c := t.TempDir(), newFakeCatalog(t)
	for p := dir; p != filepath.Dir(os.TempDir()) && p != "/"; p = filepath.Dir(p) {
		if p != os.TempDir() {
			require.NoError(t, os.Chmod(p, 0o755))
		}
	}
	f := c.open(dir)
	writeFile(t, dir, "a.yaml", "1")
	require.NoError(t, os.Chmod(filepath.Join(dir, "a.yaml"), 0o444))
	writeFile(t, dir, "b.yaml", "2")
	writeFile(t, dir, "c/d.yaml", "3")
	require.NoError(t, os.Chmod(filepath.Join(dir, "b.yaml"), 0))
	require.NoError(t, os.Chmod(filepath.Join(dir, "c"), 0))
	t.Cleanup(func() { require.NoError(t, os.Chmod(filepath.Join(dir, "c"), 0o700)) })
	asNobody(t, func() {
		require.ErrorContains(t, f.Load(t.Context()), "b.yaml: cannot be read: permission denied")
	})
	require.Equal(t, []agent.Fault{
		{File: "b.yaml", Message: "cannot be read: permission denied"}, {File: "c", Message: "cannot be read: permission denied"},
	}, f.Status().Faults)
	require.Zero(t, c.applied.Load())

	runFolder(t, f)
	require.NoError(t, os.Chmod(filepath.Join(dir, "b.yaml"), 0o644))
	require.NoError(t, os.Chmod(filepath.Join(dir, "c"), 0o755))
	c.reach(map[string]string{"a.yaml": "1", "b.yaml": "2", "c/d.yaml": "3"})
	awaitFolder(t, f, true)
}
