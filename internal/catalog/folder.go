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

	maxRetryDelay = 30 * time.Second // between attempts after temporary failures
)

// FolderConfig is the configuration of a [Folder].
type FolderConfig struct {
	Dir string
	// Apply replaces all documents of the folder, completely or not at all. It gets every file of the folder, sorted by name. Calls do not
	// overlap. After [agent.CodeUnavailable], [agent.CodeRateLimited] or [agent.CodeConflict] it is called again with the same files, after
	// any other error only when the files have changed.
	Apply  func(ctx context.Context, files []agent.ManifestFile) (agent.ApplyResult, error)
	Logger *zap.Logger

	settle time.Duration // between two reads that must be equal; 0: 150 ms
	poll   time.Duration // between reads while nothing changes; 0: 500 ms
}

// Folder watches a folder of documents: *.yaml, *.yml and *.json, also in sub-folders, except hidden ones. It follows links within the
// folder, because mounted Kubernetes ConfigMaps use them (catalog.yaml → ..data/catalog.yaml, ..data → ..2026_01_01). It reads nothing
// outside the folder.
type Folder struct {
	cfg  FolderConfig
	read func() *folderState

	reading lock // guards the fields below

	lastDigest  folderDigest  // of the state that was handled last; zero: none
	lastErr     error         // why that state was not applied; nil if it was
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
	at       time.Time // zero: none yet
}

// NewFolder returns a watcher of a folder, which must exist and be readable. [Folder.Load] and [Folder.Run] read the documents.
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
		cfg: cfg, read: func() *folderState { return readFolder(dir, defaultFolderBounds()) }, reading: make(lock, 1), retryDelays: delays,
		status: agent.SourceStatus{Name: agent.SourceFolder, Detail: dir + ": not read yet", Faults: []agent.Fault{}},
	}, nil
}

// Load reads the folder and applies its documents unless they are already applied. The status shows its error too, and [Folder.Run] retries
// temporary failures.
func (f *Folder) Load(ctx context.Context) error {
	release, err := f.reading.acquire(ctx, fmt.Sprintf("load catalog folder %q", f.cfg.Dir))
	if err != nil {
		return err
	}
	defer release()
	return f.applyIfNew(ctx, f.read(), true)
}

// Status returns whether the last state of the folder is applied.
func (f *Folder) Status() agent.SourceStatus {
	f.mu.Lock()
	defer f.mu.Unlock()
	s := f.status
	s.Faults = slices.Clone(s.Faults)
	return s
}
