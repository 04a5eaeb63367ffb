package catalog

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/cenkalti/backoff/v5"
	"go.uber.org/zap"

	"github.com/turnstone-run/turnstone/agent"
)

const (
	defaultSettle = 150 * time.Millisecond
	defaultPoll   = 500 * time.Millisecond

	maxRetryDelay = 30 * time.Second // between two attempts to apply what failed temporarily
)

// FolderConfig says which folder is watched and who applies it.
type FolderConfig struct {
	Dir string
	// Apply makes the catalog hold what the files say, all of it or nothing. It gets every file of the folder, sorted by name, and is
	// never called twice at a time. After [agent.CodeUnavailable], [agent.CodeRateLimited] or [agent.CodeConflict] it is called again
	// with the same files; after any other error only when the files change.
	Apply  func(ctx context.Context, files []agent.ManifestFile) (agent.ApplyResult, error)
	Logger *zap.Logger

	settle time.Duration // between two reads that must agree; 0: 150 ms
	poll   time.Duration // between reads while nothing changes; 0: 500 ms
}

// Folder is a watched folder of documents: *.yaml, *.yml and *.json, in sub-folders too, except hidden ones. Links within the folder are
// followed, as a mounted Kubernetes ConfigMap needs (catalog.yaml → ..data/catalog.yaml, ..data → ..2026_01_01). Nothing outside the
// folder is read.
type Folder struct {
	cfg  FolderConfig
	read func() *folderState

	busy chan struct{} // holds one element while the folder is read; its holder owns the fields below

	lastDigest  folderDigest  // of the state that was handled last; zero: none
	lastErr     error         // why that state was not applied; nil: it was
	lastApplied appliedFolder // the last state that Apply accepted
	retryAt     time.Time
	retryDelays *backoff.ExponentialBackOff
	lastLogged  string // the failure that was logged last

	mu     sync.Mutex
	status agent.SourceStatus
}

// appliedFolder is a state that Apply accepted.
type appliedFolder struct {
	digest   folderDigest // zero: the catalog may hold something else by now
	files    int
	revision int64
	at       time.Time // zero: there was none
}

// NewFolder returns the source of a folder, which must exist and be readable. [Folder.Load] and [Folder.Run] read its documents.
func NewFolder(cfg FolderConfig) (*Folder, error) {
	const op = "open catalog folder"
	switch {
	case cfg.Dir == "":
		return nil, agent.Errorf(agent.CodeInvalid, op, "no folder is given")
	case cfg.Apply == nil:
		return nil, agent.Errorf(agent.CodeInvalid, op, "Apply is nil")
	}
	dir, err := filepath.Abs(cfg.Dir)
	if err != nil {
		return nil, agent.Errorf(agent.CodeInvalid, op, "%q: %w", cfg.Dir, err)
	}
	if _, err := os.ReadDir(dir); err != nil {
		return nil, agent.Errorf(agent.CodeInvalid, op, "%q: %w", dir, withoutPath(err))
	}
	cfg.Dir = dir
	cfg.settle = cmp.Or(cfg.settle, defaultSettle)
	cfg.poll = cmp.Or(cfg.poll, defaultPoll)
	delays := backoff.NewExponentialBackOff()
	delays.InitialInterval, delays.MaxInterval = cfg.settle, max(maxRetryDelay, cfg.settle)
	return &Folder{
		cfg: cfg, read: func() *folderState { return readFolder(dir, defaultFolderBounds()) }, busy: make(chan struct{}, 1), retryDelays: delays,
		status: agent.SourceStatus{Name: agent.SourceFolder, Detail: dir + ": not read yet", Faults: []agent.Fault{}},
	}, nil
}

// Load reads the folder and applies it, unless that state is applied already. Its error also shows in the status, and [Folder.Run] tries
// again if that can help.
func (f *Folder) Load(ctx context.Context) error {
	if err := f.lock(ctx); err != nil {
		return err
	}
	defer f.unlock()
	return f.applyIfNew(ctx, f.read(), true)
}

// Status returns whether the state that was read last is applied.
func (f *Folder) Status() agent.SourceStatus {
	f.mu.Lock()
	defer f.mu.Unlock()
	s := f.status
	s.Faults = slices.Clone(s.Faults)
	return s
}

// lock waits until nobody else reads the folder.
func (f *Folder) lock(ctx context.Context) error {
	select {
	case f.busy <- struct{}{}:
		return nil
	case <-ctx.Done():
		return agent.Interrupted(ctx, fmt.Sprintf("load catalog folder %q", f.cfg.Dir))
	}
}

func (f *Folder) unlock() { <-f.busy }
