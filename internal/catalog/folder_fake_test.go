package catalog

import (
	"context"
	"maps"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"go.uber.org/zap"

	"github.com/turnstone-run/turnstone/agent"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience is the maximum time that a test waits for an expected event.
const patience = 20 * time.Second

// fakeCatalog implements Apply. It refuses files that contain the word "broken".
type fakeCatalog struct {
	t       *testing.T
	calls   chan map[string]string // the states that Apply was called with
	refuse  func(files map[string]string) error
	applied atomic.Int32
	active  atomic.Int32
}

func newFakeCatalog(t *testing.T) *fakeCatalog {
	t.Helper()
	return &fakeCatalog{t: t, calls: make(chan map[string]string, 1000), refuse: func(map[string]string) error { return nil }}
}

func (c *fakeCatalog) apply(_ context.Context, files []agent.ManifestFile) (agent.ApplyResult, error) {
	if c.active.Add(1) > 1 {
		c.t.Error("Apply is called twice at a time")
	}
	defer c.active.Add(-1)
	state := map[string]string{}
	last := ""
	for _, f := range files {
		if f.Name <= last {
			c.t.Errorf("%q comes after %q", f.Name, last)
		}
		last = f.Name
		state[f.Name] = string(f.Data)
	}
	n := c.applied.Add(1)
	err := c.refuse(state)
	for name, text := range state {
		if text == "broken" {
			err = agent.Faults{{File: name, Line: 1, Message: "is broken"}}.Err()
		}
	}
	c.calls <- state
	return agent.ApplyResult{Revision: int64(n)}, err
}

// next returns the state of the next Apply call.
func (c *fakeCatalog) next() map[string]string {
	c.t.Helper()
	select {
	case state := <-c.calls:
		return state
	case <-time.After(patience):
		require.FailNow(c.t, "nothing was applied")
		return nil
	}
}

// reach waits until Apply is called with a state.
func (c *fakeCatalog) reach(want map[string]string) {
	c.t.Helper()
	for {
		got := c.next()
		if maps.Equal(got, want) {
			return
		}
		c.t.Logf("passing %v", got)
	}
}

func (c *fakeCatalog) open(dir string, change ...func(*FolderConfig)) *Folder {
	c.t.Helper()
	cfg := FolderConfig{Dir: dir, Apply: c.apply, settle: 5 * time.Millisecond, poll: 5 * time.Millisecond, Logger: zap.NewNop()}
	for _, f := range change {
		f(&cfg)
	}
	f, err := NewFolder(cfg)
	require.NoError(c.t, err)
	return f
}

// runFolder runs the folder until the test ends or stop is called.
func runFolder(t *testing.T, f *Folder) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		f.Run(ctx)
	}()
	stop = func() {
		cancel()
		<-done
	}
	t.Cleanup(stop)
	return stop
}

// awaitFolder waits for a status, which is set shortly after Apply has returned.
func awaitFolder(t *testing.T, f *Folder, ok bool) agent.SourceStatus {
	t.Helper()
	require.Eventually(t, func() bool { return f.Status().OK == ok }, patience, time.Millisecond)
	return f.Status()
}

func writeFile(t *testing.T, dir, name, text string) {
	t.Helper()
	full := filepath.Join(dir, name)
	require.NoError(t, os.MkdirAll(filepath.Dir(full), 0o750))
	require.NoError(t, os.WriteFile(full, []byte(text), 0o600))
}
