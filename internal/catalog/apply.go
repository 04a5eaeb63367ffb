package catalog

import (
	"bytes"
	"cmp"
	"context"
	"slices"

	"go.uber.org/zap"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/catalog/manifest"
)

// applyAttempts bounds how often a change is attempted when other processes commit first.
const applyAttempts = 20

// Apply changes the catalog, completely or not at all. It checks the candidate snapshot: the newest revision with the change applied. Its
// error is [agent.CodeInvalid] and wraps [agent.Faults] for an invalid change, [agent.CodeConflict] if a document changed since BaseRevision
// or is edited elsewhere.
func (r *Registry) Apply(ctx context.Context, req agent.ApplyRequest) (agent.ApplyResult, error) {
	req.Source = cmp.Or(req.Source, agent.SourceAPI)
	documents, faults := manifest.Parse(req.Files)
	faults = append(faults, duplicateFaults(documents)...)
	if err := faults.Err(); err != nil {
		return agent.ApplyResult{}, err
	}
	if req.Prune && len(documents) == 0 && req.Source == agent.SourceAPI {
		return agent.ApplyResult{}, agent.Invalid("prune", "there is no document in the files: nothing says what to keep")
	}
	if !req.DryRun {
		release, err := r.applying.acquire(ctx, "apply")
		if err != nil {
			return agent.ApplyResult{}, err
		}
		defer release()
	}
	return retryStale(ctx, r, func(s *snapshot) (agent.ApplyResult, error) { return r.apply(ctx, s, &req, documents) })
}

// lock is a mutex of capacity 1 whose acquisition can be cancelled.
type lock chan struct{}

// acquire waits for the lock. Its error names op if ctx ends first.
func (l lock) acquire(ctx context.Context, op string) (release func(), err error) {
	select {
	case l <- struct{}{}:
		return func() { <-l }, nil
	case <-ctx.Done():
		return nil, agent.Interrupted(ctx, op)
	}
}

// retryStale calls change with the newest snapshot, and calls it again if another process committed first.
func retryStale[T any](ctx context.Context, r *Registry, change func(*snapshot) (T, error)) (out T, err error) {
	for range applyAttempts {
		if err = r.refresh(ctx); err != nil {
			return out, err
		}
		if out, err = change(r.current.Load()); !isStale(err) {
			return out, err
		}
	}
	return out, err
}

// ApplyFolder replaces the documents that came from the watched folder with those of files.
func (r *Registry) ApplyFolder(ctx context.Context, files []agent.ManifestFile) (agent.ApplyResult, error) {
	return r.Apply(ctx, agent.ApplyRequest{Files: files, Prune: true, Source: agent.SourceFolder, By: agent.SourceFolder})
}

// ApplyFollowed replaces the documents that came from the followed installation with those of files.
func (r *Registry) ApplyFollowed(ctx context.Context, files []agent.ManifestFile) (agent.ApplyResult, error) {
	return r.Apply(ctx, agent.ApplyRequest{Files: files, Prune: true, Source: agent.SourceFollow, By: agent.SourceFollow})
}

// staleError is the error of a commit that came after another one: the change must be checked again.
type staleError struct{ error }

func (e staleError) Unwrap() error { return e.error }

func isStale(err error) bool {
	_, ok := err.(staleError) //nolint:errorlint // only our own, unwrapped
	return ok
}

// duplicateFaults returns a fault for each document that a request holds more than once.
func duplicateFaults(documents []*manifest.Document) agent.Faults {
	var out agent.Faults
	first := make(map[agent.DocumentKey]*manifest.Document, len(documents))
	for _, d := range documents {
		if other, ok := first[d.Key]; ok {
			out = append(out, d.Fault("", "is given twice: the other one is at %s:%d", cmp.Or(other.File, "line"), other.Line))
			continue
		}
		first[d.Key] = d
	}
	return out
}

// apply makes one attempt of [Registry.Apply] against a snapshot.
func (r *Registry) apply(ctx context.Context, s *snapshot, req *agent.ApplyRequest, documents []*manifest.Document) (agent.ApplyResult, error) {
	if req.BaseRevision > s.revision {
		return agent.ApplyResult{}, agent.Invalid("base_revision", "is %d, but the newest revision is %d", req.BaseRevision, s.revision)
	}
	p, err := r.planChange(s, req, documents)
	if err != nil {
		return agent.ApplyResult{}, err
	}
	out := agent.ApplyResult{Revision: s.revision, DryRun: req.DryRun, Changes: p.changes}
	if len(p.keys) == 0 && !req.Publish {
		return out, nil
	}
	candidate := s.next(r.base, &p.change)
	if err := r.check(s, candidate, p.keys).Err(); err != nil {
		return agent.ApplyResult{}, err
	}
	if req.DryRun {
		return out, nil
	}
	if req.Publish {
		if err := r.publishAll(ctx, candidate, p); err != nil {
			return agent.ApplyResult{}, err
		}
	}
	if len(p.commit.Put)+len(p.commit.Delete)+len(p.commit.Publish) == 0 {
		return out, nil
	}
	return r.commit(ctx, &p.commit, out)
}

// commit stores a change and serves it. It returns out with the new revision.
func (r *Registry) commit(ctx context.Context, c *agent.CatalogCommit, out agent.ApplyResult) (agent.ApplyResult, error) {
	var err error
	out.Revision, err = r.cfg.Store.CommitCatalog(ctx, *c)
	if agent.CodeOf(err) == agent.CodeConflict {
		return agent.ApplyResult{}, staleError{err}
	}
	if err != nil {
		return agent.ApplyResult{}, err
	}
	// The change is stored, so a failed refresh is not a failure: Run repeats it.
	if err := r.refresh(ctx); err != nil {
		r.cfg.Logger.Warn("refresh after a change", zap.Error(err))
	}
	return out, nil
}

// plannedChange is a change that is not committed yet.
type plannedChange struct {
	changes []agent.DocumentChange
	keys    []agent.DocumentKey // of the documents that differ
	change  change
	commit  agent.CatalogCommit
}

// planChange returns the change that a request makes to a snapshot.
func (r *Registry) planChange(s *snapshot, req *agent.ApplyRequest, documents []*manifest.Document) (*plannedChange, error) {
	p := &plannedChange{
		change: change{revision: s.revision + 1, oldest: s.oldest, deleted: map[agent.DocumentKey]int64{}},
		commit: agent.CatalogCommit{At: s.revision, By: req.By, Source: req.Source, Comment: req.Comment},
	}
	kept := make(map[agent.DocumentKey]bool, len(documents))
	for _, d := range documents {
		kept[d.Key] = true
		if err := r.planPut(p, s, req, d); err != nil {
			return nil, err
		}
	}
	remove := slices.Concat(req.Delete, prunedKeys(s, req, documents, kept))
	if req.Source == agent.SourceFollow && len(documents) == 0 && len(remove) > 0 { // probably the wrong installation
		return nil, agent.Invalid("catalog.follow", "the followed catalog is empty; the %d documents that were taken over from it are kept. "+
			"Check catalog.follow.url. To remove them, unset it and use starter catalog delete", len(remove))
	}
	slices.SortFunc(remove, compareKeys)
	for _, k := range slices.Compact(remove) {
		if kept[k] {
			return nil, agent.Invalid("delete", "%s is given as a document as well", k)
		}
		if err := r.planDelete(p, s, req, k); err != nil {
			return nil, err
		}
	}
	return p, nil
}

// prunedKeys returns the stored documents of the request's source that a request with Prune removes: those that are not kept.
func prunedKeys(s *snapshot, req *agent.ApplyRequest, documents []*manifest.Document, kept map[agent.DocumentKey]bool) []agent.DocumentKey {
	if !req.Prune {
		return nil
	}
	tenants := map[string]bool{}
	for _, d := range documents {
		tenants[d.Key.Tenant] = true
	}
	var out []agent.DocumentKey
	for k, e := range s.docs {
		if !e.isStored() || e.doc.Source != req.Source || kept[k] {
			continue
		}
		// The API prunes only tenants of the given documents: a file of one tenant must not delete the documents of others.
		if req.Source == agent.SourceAPI && (!tenants[k.Tenant] || (req.PruneTenant != "" && k.Tenant != req.PruneTenant)) {
			continue
		}
		out = append(out, k)
	}
	return out
}

// planPut adds a document of a request to the change, unless the catalog already holds it.
func (r *Registry) planPut(p *plannedChange, s *snapshot, req *agent.ApplyRequest, d *manifest.Document) error {
	c := agent.DocumentChange{DocumentKey: d.Key, Action: agent.ActionCreated, After: d.Body}
	if e, exists := s.docs[d.Key]; exists && e.isStored() {
		c.Action, c.Before = agent.ActionUpdated, e.doc.Body
		keepsSource := e.doc.Source == req.Source || (r.cfg.Folder && e.doc.Source == agent.SourceFolder)
		if keepsSource && bytes.Equal(e.doc.Body, d.Body) {
			c.Action = agent.ActionUnchanged
		}
	}
	p.changes = append(p.changes, c)
	if c.Action == agent.ActionUnchanged {
		return nil
	}
	if err := r.checkEditable(s, req, d.Key); err != nil {
		return err
	}
	doc := agent.Document{DocumentKey: d.Key, Body: d.Body, Revision: p.change.revision, Source: req.Source}
	p.change.put = append(p.change.put, &entry{doc: doc, parsed: d})
	p.commit.Put = append(p.commit.Put, doc)
	p.keys = append(p.keys, d.Key)
	return nil
}

// planDelete adds the deletion of a document to the change.
func (r *Registry) planDelete(p *plannedChange, s *snapshot, req *agent.ApplyRequest, k agent.DocumentKey) error {
	e, exists := s.docs[k]
	switch {
	case !exists:
		return agent.FieldErrorf(agent.CodeNotFound, "name", "there is no %s", k)
	case !e.isStored():
		return agent.FieldErrorf(agent.CodeConflict, "name",
			"%s is built in: apply a document of that name to replace it, an agent with disabled: true to hide it", k)
	}
	if err := r.checkEditable(s, req, k); err != nil {
		return err
	}
	p.changes = append(p.changes, agent.DocumentChange{DocumentKey: k, Action: agent.ActionDeleted, Before: e.doc.Body})
	p.change.deleted[k] = p.change.revision
	p.commit.Delete = append(p.commit.Delete, k)
	p.keys = append(p.keys, k)
	return nil
}

// checkEditable returns an error if a document changed since BaseRevision or is edited elsewhere.
func (r *Registry) checkEditable(s *snapshot, req *agent.ApplyRequest, k agent.DocumentKey) error {
	var source string
	changedAt := s.deleted[k]
	if e, exists := s.docs[k]; exists {
		source, changedAt = e.doc.Source, e.doc.Revision
	}
	switch {
	case (req.BaseRevision > 0 || req.FromEmpty) && changedAt > req.BaseRevision:
		return agent.FieldErrorf(agent.CodeConflict, "base_revision", "%s changed at revision %d, after %d", k, changedAt, req.BaseRevision)
	case source == req.Source:
		return nil
	case r.cfg.Folder && source == agent.SourceFolder:
		return agent.FieldErrorf(agent.CodeConflict, "name", "%s comes from the folder that this server watches: edit it there", k)
	case r.cfg.Follow && source == agent.SourceFollow:
		return agent.FieldErrorf(agent.CodeConflict, "name", "%s comes from the installation that catalog.follow names: edit it there", k)
	default:
		return nil
	}
}

// History returns a page of the catalog's audit trail.
func (r *Registry) History(ctx context.Context, q agent.HistoryQuery) (agent.HistoryPage, error) {
	return r.cfg.Store.CatalogHistory(ctx, q)
}
