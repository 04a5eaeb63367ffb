package gateway

import (
	"cmp"
	"context"
	"fmt"

	"github.com/turnstone-run/turnstone/agent"
)

// allowWrite returns nil if the caller may change a document. Only credentials of every tenant may change shared documents.
func (c identity) allowWrite(k agent.DocumentKey) error {
	if c.isOfOneTenant() && k.Tenant != c.tenant {
		c.audit(agent.AuditDenied, agent.ActionCatalogWrite, scopeName(k), nil)
		return agent.Errorf(agent.CodeDenied, "", "%s is not tenant %q's to change", k, c.tenant)
	}
	return c.allow(agent.ActionCatalogWrite, scopeName(k))
}

// apply changes the catalog. filesField is the name of the field of the manifests in errors.
func (g *Gateway) apply(ctx context.Context, caller identity, filesField string, r agent.ApplyRequest) (agent.ApplyResult, error) {
	r.Source = agent.SourceAPI
	if err := checkApply(filesField, &r); err != nil {
		return agent.ApplyResult{}, err
	}
	for i := range r.Delete {
		key, err := caller.completeKey(r.Delete[i])
		if err == nil && key.Kind == agent.KindNode && key.Version == "" {
			err = agent.Invalid("version", "is empty: which one?")
		}
		if err != nil {
			return agent.ApplyResult{}, err
		}
		r.Delete[i] = key
	}
	r.PruneTenant, r.By = caller.tenant, caller.actor(r.By)
	for i := range r.Files {
		r.Files[i].Tenant = caller.tenant
	}
	if err := g.allowApply(ctx, caller, &r); err != nil {
		return agent.ApplyResult{}, err
	}
	result, err := g.cfg.Documents.Apply(ctx, r)
	if !r.DryRun {
		detail := facts{"files": len(r.Files), "delete": len(r.Delete), "prune": r.Prune}
		if err == nil {
			detail["revision"], detail["changes"] = result.Revision, len(result.Changes)
		}
		resource := "catalog"
		if len(r.Files) == 0 && len(r.Delete) == 1 {
			resource = scopeName(r.Delete[0])
		}
		caller.auditChange(agent.ActionCatalogWrite, resource, detail, err)
	}
	return result, err
}

// allowApply returns nil if the caller may write every document of a request. It does a dry run to learn which documents these are, unless the
// caller may write all documents. It sets BaseRevision, so that a change after the dry run is a conflict.
func (g *Gateway) allowApply(ctx context.Context, caller identity, r *agent.ApplyRequest) error {
	if !caller.isOfOneTenant() && caller.principal.MayAll(agent.ActionCatalogWrite) {
		return nil
	}
	for _, k := range r.Delete {
		if err := caller.allowWrite(k); err != nil {
			return err
		}
	}
	trial := *r
	trial.DryRun = true
	planned, err := g.cfg.Documents.Apply(ctx, trial)
	if err != nil {
		return err
	}
	for i := range planned.Changes {
		if err := caller.allowWrite(planned.Changes[i].DocumentKey); err != nil {
			return err
		}
	}
	if r.BaseRevision == 0 {
		r.BaseRevision, r.FromEmpty = planned.Revision, planned.Revision == 0
	}
	return nil
}

func checkApply(filesField string, r *agent.ApplyRequest) error {
	switch {
	case len(r.Files) == 0 && len(r.Delete) == 0 && !r.Prune:
		return agent.Invalid(filesField, "is empty: there is nothing to do")
	case len(r.Files) > maxManifests:
		return agent.Invalid(filesField, "are %d, at most %d", len(r.Files), maxManifests)
	case len(r.Delete) > maxDeletes:
		return agent.Invalid("delete", "are %d, at most %d", len(r.Delete), maxDeletes)
	case r.BaseRevision < 0:
		return agent.Invalid("base_revision", "want 0 or more, got %d", r.BaseRevision)
	}
	for i := range r.Files {
		if err := checkLine(fmt.Sprintf("%s[%d].name", filesField, i), r.Files[i].Name, maxToken); err != nil {
			return err
		}
	}
	return cmp.Or(checkLine("by", r.By, maxText), checkText("comment", r.Comment, maxComment))
}

func (g *Gateway) publish(ctx context.Context, caller identity, tenant, name, by string) (agent.AgentInfo, error) {
	tenant, err := caller.catalogTenant(tenant)
	if err == nil && name == "" {
		err = agent.Invalid("agent", "is empty")
	}
	if err := cmp.Or(err, checkName("agent", name), checkText("by", by, maxText)); err != nil {
		return agent.AgentInfo{}, err
	}
	if err := caller.allowWrite(agent.DocumentKey{Kind: agent.KindAgent, Tenant: tenant, Name: name}); err != nil {
		return agent.AgentInfo{}, err
	}
	info, err := g.cfg.Documents.Publish(ctx, tenant, name, caller.actor(by))
	caller.auditChange(agent.ActionCatalogWrite, scopeName(agent.DocumentKey{Kind: agent.KindAgent, Name: name}), facts{"publish": true}, err)
	return info, err
}
