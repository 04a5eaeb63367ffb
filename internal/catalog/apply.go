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

// applyAttempts is how often a change is checked again because another process committed first.
const applyAttempts = 20

// Apply makes a change of the catalog, all of it or nothing. It checks the change against the candidate: the newest revision with the
// change in it. Its error is [agent.CodeInvalid] and wraps [agent.Faults] for a bad change, [agent.CodeConflict] if a document changed
// since BaseRevision or is edited elsewhere.
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
		unlock, err := r.lockChanges(ctx, "apply")
		if err != nil {
			return agent.ApplyResult{}, err
		}
		defer unlock()
	}
	return atNewest(ctx, r, func(s *snapshot) (agent.ApplyResult, error) { return r.apply(ctx, s, &req, documents) })
}

// lockChanges lets one change of this process be made at a time.
func (r *Registry) lockChanges(ctx context.Context, op string) (unlock func(), err error) {
	select {
	case r.applying <- struct{}{}:
		return func() { <-r.applying }, nil
	case <-ctx.Done():
		return nil, agent.Interrupted(ctx, op)
	}
}

// atNewest makes a change at the newest revision, and again if another process committed first.
func atNewest[T any](ctx context.Context, r *Registry, change func(*snapshot) (T, error)) (out T, err error) {
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

// ApplyFolder makes the catalog hold the documents of a folder's files, and no others that came from the folder.
func (r *Registry) ApplyFolder(ctx context.Context, files []agent.ManifestFile) (agent.ApplyResult, error) {
	return r.Apply(ctx, agent.ApplyRequest{Files: files, Prune: true, Source: agent.SourceFolder, By: agent.SourceFolder})
}

// ApplyFollowed makes the catalog hold the documents of the followed installation, and no others that came from it.
func (r *Registry) ApplyFollowed(ctx context.Context, files []agent.ManifestFile) (agent.ApplyResult, error) {
	return r.Apply(ctx, agent.ApplyRequest{Files: files, Prune: true, Source: agent.SourceFollow, By: agent.SourceFollow})
}

// staleError is the error of a commit that another one preceded: the change must be checked again.
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

// apply makes one attempt.
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

// commit stores a change and serves it.
func (r *Registry) commit(ctx context.Context, c *agent.CatalogCommit, out agent.ApplyResult) (agent.ApplyResult, error) {
	var err error
	out.Revision, err = r.cfg.Store.CommitCatalog(ctx, *c)
	if agent.CodeOf(err) == agent.CodeConflict {
		return agent.ApplyResult{}, staleError{err}
	}
	if err != nil {
		return agent.ApplyResult{}, err
	}
	// The change is stored. It is no failure that this process serves it a moment later.
	if err := r.refresh(ctx); err != nil {
		r.cfg.Logger.Warn("refresh after a change", zap.Error(err))
	}
	return out, nil
}

// plannedChange is a change before its commit.
type plannedChange struct {
	changes []agent.DocumentChange
	keys    []agent.DocumentKey // of the documents that differ
	change  change
	commit  agent.CatalogCommit
}

// planChange compares a request with what the catalog holds.
func (r *Registry) planChange(s *snapshot, req *agent.ApplyRequest, documents []*manifest.Document) (*plannedChange, error) {
	p := &plannedChange{
		change: change{revision: s.revision + 1, oldest: s.oldest, gone: map[agent.DocumentKey]int64{}},
		commit: agent.CatalogCommit{At: s.revision, By: req.By, Source: req.Source, Comment: req.Comment},
	}
	wanted := make(map[agent.DocumentKey]bool, len(documents))
	tenants := map[string]bool{}
	for _, d := range documents {
		wanted[d.Key] = true
		tenants[d.Key.Tenant] = true
		if err := r.planPut(p, s, req, d); err != nil {
			return nil, err
		}
	}
	remove := slices.Clone(req.Delete)
	if req.Prune {
		for k, e := range s.docs {
			// The API prunes only tenants that the files have documents of: a file of one tenant must not empty the others.
			ours := req.Source != agent.SourceAPI || (tenants[k.Tenant] && (req.PruneTenant == "" || k.Tenant == req.PruneTenant))
			if ours && e.stored() && e.doc.Source == req.Source && !wanted[k] && !slices.Contains(remove, k) {
				remove = append(remove, k)
			}
		}
	}
	if req.Source == agent.SourceFollow && len(documents) == 0 && len(remove) > 0 { // more likely the wrong installation than one without documents
		return nil, agent.Invalid("catalog.follow", "the followed catalog is empty; the %d documents that were taken over from it are kept. "+
			"Check catalog.follow.url. To remove them, unset it and use starter catalog delete", len(remove))
	}
	slices.SortFunc(remove, compareKeys)
	for _, k := range slices.Compact(remove) {
		if wanted[k] {
			return nil, agent.Invalid("delete", "%s is given as a document as well", k)
		}
		if err := r.planDelete(p, s, req, k); err != nil {
			return nil, err
		}
	}
	return p, nil
}

// planPut adds a document of a request to the change, unless the catalog holds it already.
func (r *Registry) planPut(p *plannedChange, s *snapshot, req *agent.ApplyRequest, d *manifest.Document) error {
	e, there := s.docs[d.Key]
	there = there && e.stored()
	c := agent.DocumentChange{DocumentKey: d.Key, Action: agent.ActionCreated, After: d.Body}
	if there {
		c.Action, c.Before = agent.ActionUpdated, e.doc.Body
		folders := r.cfg.Folder && e.doc.Source == agent.SourceFolder
		if bytes.Equal(e.doc.Body, d.Body) && (e.doc.Source == req.Source || folders) {
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
	e, there := s.docs[k]
	switch {
	case !there:
		return agent.FieldErrorf(agent.CodeNotFound, "name", "there is no %s", k)
	case !e.stored():
		return agent.FieldErrorf(agent.CodeConflict, "name",
			"%s is built in: apply a document of that name to replace it, an agent with disabled: true to hide it", k)
	}
	if err := r.checkEditable(s, req, k); err != nil {
		return err
	}
	p.changes = append(p.changes, agent.DocumentChange{DocumentKey: k, Action: agent.ActionDeleted, Before: e.doc.Body})
	p.change.gone[k] = p.change.revision
	p.commit.Delete = append(p.commit.Delete, k)
	p.keys = append(p.keys, k)
	return nil
}

// checkEditable returns an error for a document that changed since BaseRevision or that is edited elsewhere.
func (r *Registry) checkEditable(s *snapshot, req *agent.ApplyRequest, k agent.DocumentKey) error {
	e, there := s.docs[k]
	last := s.gone[k]
	if there {
		last = e.doc.Revision
	}
	if (req.BaseRevision > 0 || req.FromEmpty) && last > req.BaseRevision {
		return agent.FieldErrorf(agent.CodeConflict, "base_revision", "%s changed at revision %d, after %d", k, last, req.BaseRevision)
	}
	if r.cfg.Folder && there && e.doc.Source == agent.SourceFolder && req.Source != agent.SourceFolder {
		return agent.FieldErrorf(agent.CodeConflict, "name", "%s comes from the folder that this server watches: edit it there", k)
	}
	if r.cfg.Follow && there && e.doc.Source == agent.SourceFollow && req.Source != agent.SourceFollow {
		return agent.FieldErrorf(agent.CodeConflict, "name", "%s comes from the installation that catalog.follow names: edit it there", k)
	}
	return nil
}

// History returns a page of the audit trail.
func (r *Registry) History(ctx context.Context, q agent.HistoryQuery) (agent.HistoryPage, error) {
	return r.cfg.Store.CatalogHistory(ctx, q)
}
