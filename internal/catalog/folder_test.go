package catalog

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/turnstone-run/turnstone/agent"
)

func TestNewFolderRefuses(t *testing.T) {
	dir := t.TempDir()
	writeFile(t, dir, "file", "")
	apply := newFakeCatalog(t).apply
	cases := map[string]struct {
		cfg     FolderConfig
		message string
	}{
		"no folder":       {FolderConfig{Apply: apply}, "no folder is given"},
		"missing folder":  {FolderConfig{Dir: filepath.Join(dir, "gone"), Apply: apply}, `gone": no such file or directory`},
		"a file":          {FolderConfig{Dir: filepath.Join(dir, "file"), Apply: apply}, `file": not a directory`},
		"nobody to apply": {FolderConfig{Dir: dir}, "Apply is nil"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			_, err := NewFolder(c.cfg)
			require.ErrorContains(t, err, "open catalog folder: ")
			require.ErrorContains(t, err, c.message)
			require.Equal(t, agent.CodeInvalid, agent.CodeOf(err))
		})
	}
}

func TestLoadFolder(t *testing.T) {
	dir, c := t.TempDir(), newFakeCatalog(t)
	f := c.open(dir)
	require.Equal(t, agent.SourceStatus{Name: "folder", Detail: dir + ": not read yet", Faults: []agent.Fault{}}, f.Status())

	writeFile(t, dir, "a.yaml", "1")
	writeFile(t, dir, "b/c.json", "2")
	require.NoError(t, f.Load(t.Context()))
	require.Equal(t, map[string]string{"a.yaml": "1", "b/c.json": "2"}, c.next())
	s := f.Status()
	require.WithinDuration(t, time.Now(), s.At, time.Minute)
	s.At = time.Time{}
	require.Equal(t, agent.SourceStatus{Name: "folder", OK: true, Detail: dir + ": 2 files", Faults: []agent.Fault{}}, s)

	require.NoError(t, f.Load(t.Context()))
	require.Equal(t, int32(1), c.applied.Load(), "nothing changed")

	require.NoError(t, os.RemoveAll(filepath.Join(dir, "b")))
	require.NoError(t, f.Load(t.Context()))
	require.Equal(t, map[string]string{"a.yaml": "1"}, c.next())
	require.Equal(t, dir+": 1 file", f.Status().Detail)
}

func TestLoadFaultyFolder(t *testing.T) {
	dir, c := t.TempDir(), newFakeCatalog(t)
	f := c.open(dir)
	writeFile(t, dir, "a.yaml", "broken")
	err := f.Load(t.Context())
	require.EqualError(t, err, `load catalog folder "`+dir+`": a.yaml:1: is broken`)
	require.Equal(t, agent.CodeInvalid, agent.CodeOf(err))
	s := f.Status()
	require.False(t, s.OK)
	require.Equal(t, []agent.Fault{{File: "a.yaml", Line: 1, Message: "is broken"}}, s.Faults)
	require.Equal(t, dir+": 1 file; not applied, nor was any earlier state since the process began", s.Detail)
	s.Faults[0].Message = "changed by who asked"
	require.Equal(t, "is broken", f.Status().Faults[0].Message)

	require.Error(t, f.Load(t.Context()), "Load retries a failed state")
	require.Equal(t, int32(2), c.applied.Load())

	writeFile(t, dir, "a.yaml", "good")
	require.NoError(t, f.Load(t.Context()))
	require.True(t, f.Status().OK)
	require.Empty(t, f.Status().Faults)

	writeFile(t, dir, "b.yaml", "broken")
	require.Error(t, f.Load(t.Context()))
	require.Regexp(t, `: 2 files; serving the last good state: 1 file, revision 3, applied 20[0-9T:-]+Z$`, f.Status().Detail)
	require.NoError(t, os.Remove(filepath.Join(dir, "b.yaml")))
	require.NoError(t, f.Load(t.Context()))
	require.True(t, f.Status().OK)
	require.Equal(t, int32(4), c.applied.Load(), "the previous state is still applied and is not applied again")
}

// An interrupted Apply may have succeeded, so the folder must not assume that the catalog still holds the previous state.
func TestLoadFolderAfterUncertainFailure(t *testing.T) {
	dir, c := t.TempDir(), newFakeCatalog(t)
	f := c.open(dir)
	writeFile(t, dir, "a.yaml", "1")
	require.NoError(t, f.Load(t.Context()))
	writeFile(t, dir, "a.yaml", "2")
	c.refuse = func(map[string]string) error { return agent.Errorf(agent.CodeUnavailable, "commit", "connection lost") }
	require.Equal(t, agent.CodeUnavailable, agent.CodeOf(f.Load(t.Context())))
	require.Equal(t, []agent.Fault{{Message: `load catalog folder "` + dir + `": commit: connection lost`}}, f.Status().Faults)
	c.refuse = func(map[string]string) error { return nil }
	writeFile(t, dir, "a.yaml", "1")
	require.NoError(t, f.Load(t.Context()))
	require.Equal(t, int32(3), c.applied.Load())
}

func TestLoadFolderAppliesOnlyCompleteReads(t *testing.T) {
	dir, c := t.TempDir(), newFakeCatalog(t)
	f := c.open(dir)
	writeFile(t, dir, "a.yaml", "1")
	writeFile(t, dir, "big.yaml", strings.Repeat("x", 1<<20+1))
	err := f.Load(t.Context())
	require.ErrorContains(t, err, "big.yaml: larger than 1,048,576 bytes")
	require.Equal(t, agent.CodeInvalid, agent.CodeOf(err))
	require.Equal(t, []agent.Fault{{File: "big.yaml", Message: "larger than 1,048,576 bytes"}}, f.Status().Faults)
	writeFile(t, dir, "big.yaml", strings.Repeat("x", 1<<20))
	require.NoError(t, f.Load(t.Context()))
	require.NoError(t, os.RemoveAll(dir))
	require.ErrorContains(t, f.Load(t.Context()), "no such file or directory")
	require.Contains(t, f.Status().Detail, ": 0 files; serving the last good state: 2 files, revision 1")
	require.Equal(t, int32(1), c.applied.Load(), "a missing folder removes no documents")
}

func TestLoadFolderEndsWithContext(t *testing.T) {
	dir, c := t.TempDir(), newFakeCatalog(t)
	f := c.open(dir)
	ctx, cancel := context.WithCancel(t.Context())
	c.refuse = func(map[string]string) error {
		cancel()
		return context.Canceled
	}
	require.ErrorIs(t, f.Load(ctx), context.Canceled)
	require.Contains(t, f.Status().Detail, "not read yet", "nobody is to blame")
	f.reading <- struct{}{} // another goroutine is reading the folder
	require.Equal(t, agent.CodeCancelled, agent.CodeOf(f.Load(ctx)))
	<-f.reading
	c.refuse = func(map[string]string) error { return nil }
	require.NoError(t, f.Load(t.Context()))
}

func TestFolderFailuresAreLoggedOnce(t *testing.T) {
	dir, c := t.TempDir(), newFakeCatalog(t)
	core, logs := observer.New(zapcore.WarnLevel)
	f := c.open(dir, func(cfg *FolderConfig) { cfg.Logger = zap.New(core) })
	load := func(ok bool, logged int) {
		t.Helper()
		require.Equal(t, ok, f.Load(t.Context()) == nil)
		require.Equal(t, logged, logs.Len())
	}
	writeFile(t, dir, "a.yaml", "broken")
	load(false, 1)
	require.Equal(t, []any{"a.yaml:1: is broken"}, logs.All()[0].ContextMap()["faults"])
	load(false, 1)
	writeFile(t, dir, "b.yaml", "another state that fails alike")
	load(false, 1)
	require.NoError(t, os.Remove(filepath.Join(dir, "a.yaml")))
	writeFile(t, dir, "b.yaml", "broken")
	load(false, 2)
	writeFile(t, dir, "b.yaml", "good")
	load(true, 2)
	writeFile(t, dir, "b.yaml", "broken")
	load(false, 3)
}

func TestFolderTemporaryFailures(t *testing.T) {
	for code, want := range map[agent.Code]bool{
		agent.CodeUnavailable: true, agent.CodeRateLimited: true, agent.CodeConflict: true,
		agent.CodeInvalid: false, agent.CodeInternal: false, agent.CodeDenied: false, agent.CodeNotFound: false,
	} {
		require.Equal(t, want, isTemporary(agent.Errorf(code, "", "x")), code)
	}
	require.True(t, isTemporary(errors.Join(errors.New("commit"), context.DeadlineExceeded)))
	require.False(t, isTemporary(nil))
}
