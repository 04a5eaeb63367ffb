// Package follow is a catalog source: the documents of another installation, kept in this one's store.
//
//	StreamCatalog, or the poll → documents of one revision → Apply, all of them or nothing → Status
//
// What was applied last stays while the other installation is away, or has documents that this one refuses.
package follow

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
	maxPause     = 30 * time.Second // between two attempts to follow the stream
	pageSize     = 500
	maxDocuments = 10_000 // as of one change
)

// Catalog is the catalog of the other installation.
type Catalog interface {
	WatchCatalog(ctx context.Context, q agent.WatchQuery) iter.Seq2[agent.CatalogEvent, error]
	Documents(ctx context.Context, q agent.DocumentQuery) (agent.DocumentPage, error)
}

// Config says what is followed and who applies it.
type Config struct {
	Catalog Catalog
	URL     string // for the status
	// Apply makes the catalog hold these documents and no others of this source, all of them or nothing.
	Apply  func(ctx context.Context, files []agent.ManifestFile) (agent.ApplyResult, error)
	Poll   time.Duration // how often the revision is asked for: the stream tells of nodes and agents alone
	Logger *zap.Logger
}

// Source follows one catalog.
type Source struct {
	cfg      Config
	revision int64 // of the other catalog, applied here; -1: none
	message  string

	mu     sync.Mutex
	status agent.SourceStatus
}

// New returns a source that connects when it runs.
func New(cfg Config) *Source {
	return &Source{
		cfg: cfg, revision: -1,
		status: agent.SourceStatus{Name: agent.SourceFollow, Detail: cfg.URL + ": not read yet", Faults: []agent.Fault{}},
	}
}

// Status says what became of the newest state of the other catalog.
func (s *Source) Status() agent.SourceStatus {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.status
}

// Run follows the other catalog until ctx ends.
func (s *Source) Run(ctx context.Context) {
	changed := make(chan struct{}, 1)
	var watching sync.WaitGroup
	defer watching.Wait()
	watching.Go(func() { s.watch(ctx, changed) })
	poll := time.NewTicker(s.cfg.Poll)
	defer poll.Stop()
	for ctx.Err() == nil {
		s.report(ctx, s.sync(ctx))
		select {
		case <-ctx.Done():
		case <-changed:
		case <-poll.C:
		}
	}
}

// watch signals changes that the stream tells of. It resumes behind the last revision that it saw.
func (s *Source) watch(ctx context.Context, changed chan<- struct{}) {
	pause := backoff.NewExponentialBackOff()
	pause.MaxInterval = maxPause
	var last int64
	for ctx.Err() == nil {
		for e, err := range s.cfg.Catalog.WatchCatalog(ctx, agent.WatchQuery{Tenant: agent.SharedTenant, After: last}) {
			if err != nil {
				break // sync says what is wrong
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

// sync applies the other catalog's documents, unless the newest revision is applied already.
func (s *Source) sync(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, syncTimeout)
	defer cancel()
	head, err := s.cfg.Catalog.Documents(ctx, agent.DocumentQuery{Tenant: agent.SharedTenant, Page: agent.Page{Size: 1}})
	if err != nil || head.Revision == s.revision {
		return err
	}
	files, revision, err := s.read(ctx)
	if err != nil {
		return err
	}
	if _, err := s.cfg.Apply(ctx, files); err != nil {
		return err
	}
	s.revision = revision
	s.cfg.Logger.Info("followed catalog applied", zap.String("url", s.cfg.URL), zap.Int64("revision", revision), zap.Int("documents", len(files)))
	return nil
}

// read returns the stored documents of one revision.
func (s *Source) read(ctx context.Context) (files []agent.ManifestFile, revision int64, err error) {
	q := agent.DocumentQuery{Tenant: agent.SharedTenant, Page: agent.Page{Size: pageSize}} // of every tenant
	for first := true; first || q.Token != ""; first = false {
		page, err := s.cfg.Catalog.Documents(ctx, q)
		if err != nil {
			return nil, 0, err
		}
		if !first && page.Revision != revision {
			return nil, 0, agent.Errorf(agent.CodeUnavailable, "", "the followed catalog changed from revision %d to %d while it was read", revision, page.Revision)
		}
		revision, q.Token = page.Revision, page.Next
		for i := range page.Documents {
			d := &page.Documents[i]
			if d.Revision == 0 { // shipped, or of the other installation's configuration
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

// report keeps the outcome as the status and logs it when it is another than before.
func (s *Source) report(ctx context.Context, err error) {
	if ctx.Err() != nil {
		return
	}
	status := agent.SourceStatus{
		Name: agent.SourceFollow, OK: err == nil, Detail: fmt.Sprintf("%s: revision %d", s.cfg.URL, s.revision), Faults: []agent.Fault{}, At: time.Now(),
	}
	message := ""
	if err != nil {
		message = err.Error()
		status.Detail = s.cfg.URL + ": " + message
		status.Faults = append(status.Faults, agent.FailureOf(err).Faults...)
	}
	if message != "" && message != s.message {
		s.cfg.Logger.Warn("followed catalog not applied; the last good state is served", zap.String("url", s.cfg.URL), zap.Error(err))
	}
	s.message = message
	s.mu.Lock()
	defer s.mu.Unlock()
	s.status = status
}
