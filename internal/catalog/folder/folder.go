// Package folder is a catalog source for development: a folder of YAML and JSON documents that is watched, and applied as one change
// whenever it has come to rest in a new state.
//
//	event, poll or retry → read all → read again until nothing moves → same as before? → Apply → Status
//
// The files are *.yaml, *.yml and *.json, in sub-folders too, hidden ones excepted. Links within the folder are followed, as a mounted
// Kubernetes ConfigMap needs it (catalog.yaml → ..data/catalog.yaml, ..data → ..2026_01_01); nothing outside of it is ever read. A state
// with a fault is not applied, not even in part: what was applied before stays.
package folder

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/cenkalti/backoff/v5"
	"github.com/fsnotify/fsnotify"
	"go.uber.org/zap"

	"github.com/turnstone-run/turnstone/agent"
)

const (
	defaultSettle = 150 * time.Millisecond
	defaultPoll   = 10 * time.Second

	maxPatience = 30 * time.Second // between two attempts to apply what failed for a reason that passes
)

// Config says what is watched and what becomes of it.
type Config struct {
	Dir string
	// Apply makes the catalog hold what the files say, all of it or nothing. It gets every file of the folder, sorted by name; it is
	// never called twice at a time. An error of [agent.CodeUnavailable], [agent.CodeRateLimited] or [agent.CodeConflict] is tried again
	// with the same files, any other waits for the files to change.
	Apply  func(ctx context.Context, files []agent.ManifestFile) (agent.ApplyResult, error)
	Logger *zap.Logger   // nil: none
	Settle time.Duration // quiet time after the last event, and between two reads that must agree; 0: 150 ms
	Poll   time.Duration // a full look in case an event was missed, as on network mounts; 0: 10 s
}

// Folder is a watched folder.
type Folder struct {
	cfg        Config
	newWatcher func() (*fsnotify.Watcher, error)

	busy chan struct{} // holds one while the folder is looked at; what follows belongs to who put it there

	seen     digest // the state judged last; zero: none
	err      error  // why it was not applied; nil: it was
	good     applied
	retryAt  time.Time // when a failure that passes is due again
	patience *backoff.ExponentialBackOff
	logged   string // the failure logged last

	mu     sync.Mutex
	status agent.SourceStatus
}

// applied is the last state that Apply took.
type applied struct {
	digest   digest // zero: the catalog may hold something else by now
	files    int
	revision int64
	at       time.Time // zero: there was none
}

// New returns the source of a folder, which must be there and be readable. It neither reads documents nor watches: that is for
// [Folder.Load] and [Folder.Run].
func New(cfg Config) (*Folder, error) {
	const op = "open catalog folder"
	switch {
	case cfg.Dir == "":
		return nil, agent.Errorf(agent.CodeInvalid, op, "no folder is given")
	case cfg.Apply == nil:
		return nil, agent.Errorf(agent.CodeInvalid, op, "Apply is nil")
	case cfg.Settle < 0 || cfg.Poll < 0:
		return nil, agent.Errorf(agent.CodeInvalid, op, "Settle and Poll must not be negative")
	}
	dir, err := filepath.Abs(cfg.Dir)
	if err != nil {
		return nil, agent.Errorf(agent.CodeInvalid, op, "%q: %w", cfg.Dir, err)
	}
	if _, err := os.ReadDir(dir); err != nil {
		return nil, agent.Errorf(agent.CodeInvalid, op, "%q: %w", dir, reason(err))
	}
	cfg.Dir = dir
	if cfg.Logger == nil {
		cfg.Logger = zap.NewNop()
	}
	if cfg.Settle == 0 {
		cfg.Settle = defaultSettle
	}
	if cfg.Poll == 0 {
		cfg.Poll = defaultPoll
	}
	patience := backoff.NewExponentialBackOff()
	patience.InitialInterval = cfg.Settle
	patience.MaxInterval = max(maxPatience, cfg.Settle)
	return &Folder{
		cfg: cfg, newWatcher: fsnotify.NewWatcher, busy: make(chan struct{}, 1), patience: patience,
		status: agent.SourceStatus{Name: agent.SourceFolder, Detail: dir + ": not read yet", Faults: []agent.Fault{}},
	}, nil
}

// Load reads the folder and applies it, unless that very state is applied already. What went wrong is returned, and remembered in the
// status; a following [Folder.Run] tries again when that helps.
func (f *Folder) Load(ctx context.Context) error {
	if err := f.enter(ctx); err != nil {
		return err
	}
	defer f.leave()
	return f.judge(ctx, read(f.cfg.Dir, limits()), true)
}

// Status says what became of the state of the folder that was read last.
func (f *Folder) Status() agent.SourceStatus {
	f.mu.Lock()
	defer f.mu.Unlock()
	s := f.status
	s.Faults = slices.Clone(s.Faults)
	return s
}

func (f *Folder) enter(ctx context.Context) error {
	select {
	case f.busy <- struct{}{}:
		return nil
	case <-ctx.Done():
		return agent.Interrupted(ctx, fmt.Sprintf("load catalog folder %q", f.cfg.Dir))
	}
}

func (f *Folder) leave() { <-f.busy }
