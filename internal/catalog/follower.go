package catalog

import (
	"context"
	"fmt"
	"iter"
	"sync"
	"time"

	"github.com/cenkalti/backoff/v5"
	"go.uber.org/zap"

	"github.com/turnstone-run/turnstone/agent"
)

const (
	syncTimeout  = time.Minute
	maxPause     = 30 * time.Second // between two attempts to open the stream
	pageSize     = 500
	maxDocuments = 10_000 // the limit of one Apply
)

// RemoteCatalog reads the catalog of another installation.
type RemoteCatalog interface {
	WatchCatalog(ctx context.Context, q agent.WatchQuery) iter.Seq2[agent.CatalogEvent, error]
	Documents(ctx context.Context, q agent.DocumentQuery) (agent.DocumentPage, error)
}

// FollowerConfig is the configuration of a [Follower].
type FollowerConfig struct {
	Catalog RemoteCatalog
	URL     string // shown in the status
	// Apply replaces all documents of this source, completely or not at all.
	Apply  func(ctx context.Context, files []agent.ManifestFile) (agent.ApplyResult, error)
	Poll   time.Duration // between requests for the revision; the stream reports only changes of nodes and agents
	Logger *zap.Logger
}

// Follower copies the documents of another installation into this catalog.
type Follower struct {
	cfg        FollowerConfig
	revision   int64  // the remote revision that is applied here; -1: none
	lastLogged string // the failure that was logged last

	mu     sync.Mutex
	status agent.SourceStatus
}

// NewFollower returns a follower. [Follower.Run] connects it.
func NewFollower(cfg FollowerConfig) *Follower {
	return &Follower{
		cfg: cfg, revision: -1,
		status: agent.SourceStatus{Name: agent.SourceFollow, Detail: cfg.URL + ": not read yet", Faults: []agent.Fault{}},
	}
}

// Status returns whether the newest revision of the remote catalog is applied.
func (f *Follower) Status() agent.SourceStatus {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.status
}

// Run follows the remote catalog until ctx ends.
func (f *Follower) Run(ctx context.Context) {
	changed := make(chan struct{}, 1)
	var watching sync.WaitGroup
	defer watching.Wait()
	watching.Go(func() { f.watch(ctx, changed) })
	poll := time.NewTicker(f.cfg.Poll)
	defer poll.Stop()
	for ctx.Err() == nil {
		f.updateStatus(ctx, f.sync(ctx))
		select {
		case <-ctx.Done():
		case <-changed:
		case <-poll.C:
		}
	}
}

// watch signals changed for each event of the remote stream. After a failure it resumes after the last revision it received.
func (f *Follower) watch(ctx context.Context, changed chan<- struct{}) {
	pause := backoff.NewExponentialBackOff()
	pause.MaxInterval = maxPause
	var last int64
	for ctx.Err() == nil {
		for e, err := range f.cfg.Catalog.WatchCatalog(ctx, agent.WatchQuery{Tenant: agent.SharedTenant, After: last}) {
			if err != nil {
				break // sync reports what is wrong
			}
			last = e.Revision
			pause.Reset()
			select {
			case changed <- struct{}{}:
			default:
			}
		}
		select {
		case <-ctx.Done():
		case <-time.After(pause.NextBackOff()):
		}
	}
}

// sync applies the documents of the remote catalog unless its newest revision is already applied.
func (f *Follower) sync(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, syncTimeout)
	defer cancel()
	newest, err := f.cfg.Catalog.Documents(ctx, agent.DocumentQuery{Tenant: agent.SharedTenant, Page: agent.Page{Size: 1}})
	if err != nil || newest.Revision == f.revision {
		return err
	}
	files, revision, err := f.read(ctx)
	if err != nil {
		return err
	}
	if _, err := f.cfg.Apply(ctx, files); err != nil {
		return err
	}
	f.revision = revision
	f.cfg.Logger.Info("followed catalog applied", zap.String("url", f.cfg.URL), zap.Int64("revision", revision), zap.Int("documents", len(files)))
	return nil
}

// read returns the stored documents of all tenants, and their revision. It fails if the revision changes while it reads.
func (f *Follower) read(ctx context.Context) (files []agent.ManifestFile, revision int64, err error) {
	q := agent.DocumentQuery{Tenant: agent.SharedTenant, Page: agent.Page{Size: pageSize}}
	for first := true; first || q.Token != ""; first = false {
		page, err := f.cfg.Catalog.Documents(ctx, q)
		if err != nil {
			return nil, 0, err
		}
		if !first && page.Revision != revision {
			return nil, 0, agent.Errorf(agent.CodeUnavailable, "", "the followed catalog changed from revision %d to %d while it was read", revision, page.Revision)
		}
		revision, q.Token = page.Revision, page.Next
		for i := range page.Documents {
			d := &page.Documents[i]
			if d.Revision == 0 { // in the base layer of the other installation
				continue
			}
			files = append(files, agent.ManifestFile{Name: d.String(), Tenant: d.Tenant, Data: d.Body})
		}
		if len(files) > maxDocuments {
			return nil, 0, agent.Errorf(agent.CodeOverflow, "", "the followed catalog has more than %d documents", maxDocuments)
		}
	}
	return files, revision, nil
}

// updateStatus sets what [Follower.Status] returns, and logs a failure unless it logged the same one last.
func (f *Follower) updateStatus(ctx context.Context, err error) {
	if ctx.Err() != nil {
		return
	}
	status := agent.SourceStatus{
		Name: agent.SourceFollow, OK: err == nil, Detail: fmt.Sprintf("%s: revision %d", f.cfg.URL, f.revision), Faults: []agent.Fault{}, At: time.Now(),
	}
	message := ""
	if err != nil {
		message = err.Error()
		status.Detail = f.cfg.URL + ": " + message
		status.Faults = append(status.Faults, agent.FailureOf(err).Faults...)
	}
	if message != "" && message != f.lastLogged {
		f.cfg.Logger.Warn("followed catalog not applied; the last good state is served", zap.String("url", f.cfg.URL), zap.Error(err))
	}
	f.lastLogged = message
	f.mu.Lock()
	defer f.mu.Unlock()
	f.status = status
}
