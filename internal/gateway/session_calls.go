package gateway

import (
	"context"

	"github.com/turnstone-run/turnstone/agent"
)

// This file is what both doors do with approvals and sessions: name the tenant, check what a caller may say, call [Runtime].

// maxApprovals is how many approvals a page has at most.
const maxApprovals = 500

func (g *Gateway) listApprovals(ctx context.Context, caller identity, q agent.ApprovalQuery, page agent.Page) (agent.ApprovalPage, error) {
	switch q.State {
	case "", "pending", "decided":
	default:
		return agent.ApprovalPage{}, agent.Invalid("state", "want pending or decided, got %.60q", q.State)
	}
	if err := checkName("session_id", string(q.SessionID)); err != nil {
		return agent.ApprovalPage{}, err
	}
	if err := checkName("turn_id", string(q.TurnID)); err != nil {
		return agent.ApprovalPage{}, err
	}
	q.Tenant, q.After, q.Limit = caller.ownTenant(), page.Token, min(page.Size, maxApprovals)
	ctx, cancel := g.bounded(ctx)
	defer cancel()
	found, err := g.cfg.Runtime.Approvals(ctx, q)
	if err != nil || caller.principal.MayAll(agent.ActionApprovalsRead) {
		return found, err
	}
	found.Approvals = kept(found.Approvals, func(a *agent.Approval) bool {
		return caller.principal.May(agent.ActionApprovalsRead, a.ToolName)
	})
	return found, nil
}

// approval looks an approval up as the caller may see it.
func (g *Gateway) approval(ctx context.Context, caller identity, id string) (agent.Approval, error) {
	if id == "" || checkLine("", id, maxToken) != nil {
		return agent.Approval{}, agent.Errorf(agent.CodeNotFound, "", "no approval %.140q", id)
	}
	ctx, cancel := g.bounded(ctx)
	defer cancel()
	a, err := g.cfg.Runtime.Approval(ctx, caller.lookupTenant(), id)
	if err == nil {
		err = caller.allow(agent.ActionApprovalsRead, a.ToolName)
	}
	if err != nil {
		return agent.Approval{}, err
	}
	return a, nil
}

func noSession(id agent.SessionID) error {
	return agent.Errorf(agent.CodeNotFound, "", "no session %.140q", id)
}

func (g *Gateway) exportSession(ctx context.Context, caller identity, id agent.SessionID) (agent.SessionExport, error) {
	if !id.Valid() {
		return agent.SessionExport{}, noSession(id)
	}
	ctx, cancel := g.bounded(ctx)
	defer cancel()
	export, err := g.cfg.Runtime.ExportSession(ctx, caller.ownTenant(), id)
	caller.auditChange(agent.ActionSessionsRead, "session/"+string(id), facts{"export": true}, err)
	if err != nil {
		return export, err
	}
	export.Messages, export.Turns = orEmpty(export.Messages), orEmpty(export.Turns)
	export.Approvals, export.Notes, export.References = orEmpty(export.Approvals), orEmpty(export.Notes), orEmpty(export.References)
	return export, nil
}

func (g *Gateway) forgetSession(ctx context.Context, caller identity, id agent.SessionID) (agent.SessionDeleted, error) {
	if !id.Valid() {
		return agent.SessionDeleted{}, noSession(id)
	}
	ctx, cancel := g.bounded(ctx)
	defer cancel()
	gone, err := g.cfg.Runtime.DeleteSession(ctx, caller.ownTenant(), id)
	caller.auditChange(agent.ActionSessionsDelete, "session/"+string(id), facts{"turns": gone.Turns}, err)
	return gone, err
}
