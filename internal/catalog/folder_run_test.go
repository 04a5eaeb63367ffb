package catalog

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/agent"
)

// Each step changes the folder and waits until Apply is called with the new state.
func TestFolderRunFollows(t *testing.T) {
	type state = map[string]string
	type step struct {
		do   func(t *testing.T, dir string)
		want state
	}
	put := func(name, text string) func(*testing.T, string) {
		return func(t *testing.T, dir string) { writeFile(t, dir, name, text) }
	}
	move := func(from, to string) func(*testing.T, string) {
		return func(t *testing.T, dir string) {
			require.NoError(t, os.Rename(filepath.Join(dir, from), filepath.Join(dir, to)))
		}
	}
	remove := func(name string) func(*testing.T, string) {
		return func(t *testing.T, dir string) { require.NoError(t, os.RemoveAll(filepath.Join(dir, name))) }
	}
	cases := map[string][]step{
		"files": {
			{put("a.yaml", "1"), state{"a.yaml": "1"}},
			{put("a.yaml", "2"), state{"a.yaml": "2"}},
			{move("a.yaml", "b.json"), state{"b.json": "2"}},
			{remove("b.json"), state{}},
		},
		"an editor that writes beside and renames": {
			{put("a.yaml", "1"), state{"a.yaml": "1"}},
			{func(t *testing.T, dir string) {
				writeFile(t, dir, ".a.yaml.swp", "x")
				writeFile(t, dir, "4913", "")
				require.NoError(t, os.Remove(filepath.Join(dir, "4913")))
				move("a.yaml", "a.yaml~")(t, dir)
				writeFile(t, dir, "a.yaml.tmp", "2")
				move("a.yaml.tmp", "a.yaml")(t, dir)
			}, state{"a.yaml": "2"}},
		},
		"sub-folders made later": {
			{put("a/b/c.yaml", "1"), state{"a/b/c.yaml": "1"}},
			{put("a/b/c.yaml", "2"), state{"a/b/c.yaml": "2"}},
			{put("a/d/e.yaml", "3"), state{"a/b/c.yaml": "2", "a/d/e.yaml": "3"}},
			{move("a", "z"), state{"z/b/c.yaml": "2", "z/d/e.yaml": "3"}},
			{put("z/d/e.yaml", "4"), state{"z/b/c.yaml": "2", "z/d/e.yaml": "4"}},
			{remove("z/b"), state{"z/d/e.yaml": "4"}},
			{put("z/b/c.yaml", "5"), state{"z/b/c.yaml": "5", "z/d/e.yaml": "4"}},
			{put("z/b/c.yaml", "6"), state{"z/b/c.yaml": "6", "z/d/e.yaml": "4"}},
		},
		"the folder deleted and made again": {
			{put("a.yaml", "1"), state{"a.yaml": "1"}},
			{func(t *testing.T, dir string) {
				remove("")(t, dir)
				writeFile(t, dir, "a.yaml", "2")
			}, state{"a.yaml": "2"}},
			{put("a.yaml", "3"), state{"a.yaml": "3"}},
			{func(t *testing.T, dir string) {
				writeFile(t, dir+".new", "b.yaml", "4")
				require.NoError(t, os.Rename(dir, dir+".old"))
				require.NoError(t, os.Rename(dir+".new", dir))
			}, state{"b.yaml": "4"}},
			{put("b.yaml", "5"), state{"b.yaml": "5"}},
		},
		"a ConfigMap that is swapped": {
			{func(t *testing.T, dir string) {
				writeFile(t, dir, "..1/a.yaml", "1")
				writeFile(t, dir, "..1/sub/b.yaml", "1")
				for link, to := range map[string]string{"..data": "..1", "a.yaml": "..data/a.yaml", "sub": "..data/sub"} {
					require.NoError(t, os.Symlink(to, filepath.Join(dir, link)))
				}
			}, state{"a.yaml": "1", "sub/b.yaml": "1"}},
			{func(t *testing.T, dir string) {
				writeFile(t, dir, "..2/a.yaml", "2")
				writeFile(t, dir, "..2/sub/b.yaml", "2")
				require.NoError(t, os.Symlink("..2", filepath.Join(dir, "..data_tmp")))
				move("..data_tmp", "..data")(t, dir)
				remove("..1")(t, dir)
			}, state{"a.yaml": "2", "sub/b.yaml": "2"}},
			{put("sub/b.yaml", "3"), state{"a.yaml": "2", "sub/b.yaml": "3"}},
		},
	}
	for name, steps := range cases {
		t.Run(name, func(t *testing.T) {
			dir, c := filepath.Join(t.TempDir(), "catalog"), newFakeCatalog(t)
			require.NoError(t, os.Mkdir(dir, 0o750))
			f := c.open(dir)
			require.NoError(t, f.Load(t.Context()))
			c.reach(state{})
			runFolder(t, f)
			for _, s := range steps {
				s.do(t, dir)
				c.reach(s.want)
			}
			s := awaitFolder(t, f, true)
			require.Empty(t, s.Faults)
		})
	}
}

func TestFolderRunKeepsTheLastGoodState(t *testing.T) {
	dir, c := t.TempDir(), newFakeCatalog(t)
	writeFile(t, dir, "a.yaml", "1")
	f := c.open(dir)
	runFolder(t, f)
	c.reach(map[string]string{"a.yaml": "1"})
	writeFile(t, dir, "a.yaml", "broken")
	c.reach(map[string]string{"a.yaml": "broken"})
	s := awaitFolder(t, f, false)
	require.Equal(t, []agent.Fault{{File: "a.yaml", Line: 1, Message: "is broken"}}, s.Faults)
	require.Contains(t, s.Detail, "serving the last good state: 1 file, revision 1")
	writeFile(t, dir, "a.yaml", "2")
	c.reach(map[string]string{"a.yaml": "2"})
	require.Empty(t, awaitFolder(t, f, true).Faults)
}

func TestFolderRunCollectsChanges(t *testing.T) {
	dir, c := t.TempDir(), newFakeCatalog(t)
	f := c.open(dir, func(cfg *FolderConfig) { cfg.settle = 200 * time.Millisecond })
	runFolder(t, f)
	c.reach(map[string]string{})
	want := map[string]string{}
	for i := range 200 {
		name := fmt.Sprintf("%d.yaml", i%20)
		want[name] = fmt.Sprint(i)
		writeFile(t, dir, name, want[name])
	}
	c.reach(want)
	require.LessOrEqual(t, c.applied.Load(), int32(5))
}

// A folder that differs between two reads is read again. If it keeps changing, the last read state is applied in the end.
func TestFolderRunReadsUntilStable(t *testing.T) {
	for name, tc := range map[string]struct {
		states []string // contents of a.yaml for successive reads; the last one repeats
		want   string
	}{
		"a file that is being written":  {[]string{"", "whole"}, "whole"},
		"a file that is written slowly": {[]string{"", "half", "more", "whole"}, "whole"},
		"a file that is never done":     {strings.Split(strings.Repeat("a,b,", 100), ","), "b"},
	} {
		for _, loaded := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, loaded before: %t", name, loaded), func(t *testing.T) {
				dir, c := t.TempDir(), newFakeCatalog(t)
				writeFile(t, dir, "a.yaml", "before")
				f := c.open(dir)
				if loaded {
					require.NoError(t, f.Load(t.Context()))
					c.reach(map[string]string{"a.yaml": "before"})
				}
				read, reads := f.read, 0
				f.read = func() *folderState {
					writeFile(t, dir, "a.yaml", tc.states[min(reads, len(tc.states)-1)])
					reads++
					return read()
				}
				require.GreaterOrEqual(t, f.applyChanges(t.Context()), f.cfg.poll)
				require.Equal(t, map[string]string{"a.yaml": tc.want}, c.next())
				require.Equal(t, min(len(tc.states)+1, maxReads), reads)
			})
		}
	}
}

func TestFolderRunFindsARestoredFolder(t *testing.T) {
	dir, c := filepath.Join(t.TempDir(), "catalog"), newFakeCatalog(t)
	writeFile(t, dir, "a.yaml", "1")
	f := c.open(dir)
	runFolder(t, f)
	c.reach(map[string]string{"a.yaml": "1"})
	awaitFolder(t, f, true)
	require.NoError(t, os.RemoveAll(dir))
	require.Contains(t, awaitFolder(t, f, false).Detail, "serving the last good state: 1 file, ")
	writeFile(t, dir, "a.yaml", "2")
	c.reach(map[string]string{"a.yaml": "2"})
}

func TestFolderRunRetriesTemporaryFailures(t *testing.T) {
	dir, c := t.TempDir(), newFakeCatalog(t)
	c.refuse = func(map[string]string) error {
		if c.applied.Load() <= 3 {
			return agent.Errorf(agent.CodeUnavailable, "commit", "no database")
		}
		return nil
	}
	f := c.open(dir)
	require.Equal(t, agent.CodeUnavailable, agent.CodeOf(f.Load(t.Context())))
	runFolder(t, f)
	for range 4 {
		c.reach(map[string]string{})
	}
	awaitFolder(t, f, true)
}

func TestFolderRunSkipsAnAppliedState(t *testing.T) {
	dir, c := t.TempDir(), newFakeCatalog(t)
	f := c.open(dir)
	look := func(applied int32) {
		t.Helper()
		require.GreaterOrEqual(t, f.applyChanges(t.Context()), f.cfg.poll)
		require.Equal(t, applied, c.applied.Load())
	}
	look(1)
	before := f.Status().At
	writeFile(t, dir, "notes.txt", "x")
	look(1)
	require.True(t, f.Status().At.After(before), "the folder was read")

	writeFile(t, dir, "a.yaml", "broken")
	look(2)
	look(2)

	f.retryDelays.InitialInterval = time.Hour // the next failure is not retried within the test
	f.retryDelays.Reset()
	c.refuse = func(map[string]string) error { return agent.Errorf(agent.CodeUnavailable, "", "x") }
	writeFile(t, dir, "a.yaml", "1")
	look(3)
	look(3)
	f.retryAt = time.Now()
	look(4)
	c.refuse = func(map[string]string) error { return nil }
	writeFile(t, dir, "a.yaml", "2")
	look(5) // a change of the folder is applied without waiting for the retry
	require.True(t, f.Status().OK)
}

func TestFolderRunEnds(t *testing.T) {
	dir, c := t.TempDir(), newFakeCatalog(t)
	stop := runFolder(t, c.open(dir))
	c.reach(map[string]string{})
	stop()
	writeFile(t, dir, "a.yaml", "1")
	require.Equal(t, int32(1), c.applied.Load())

	f := c.open(dir, func(cfg *FolderConfig) { cfg.settle = time.Hour }) // the folder waits for the settle time when the context ends
	looked := make(chan struct{})
	f.read = func() *folderState {
		close(looked)
		return readFolder(dir, defaultFolderBounds())
	}
	stop = runFolder(t, f)
	<-looked
	stop()
	require.Equal(t, int32(1), c.applied.Load())
}
