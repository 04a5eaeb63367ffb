package inbox

import (
	"context"

	"go.uber.org/zap"

	"github.com/turnstone-run/turnstone/agent"
)

// Approvals lists approvals.
func (b *Inbox) Approvals(ctx context.Context, q agent.ApprovalQuery) (agent.ApprovalPage, error) {
	return b.ListApprovals(ctx, q)
}

// DeleteSession deletes a session, and then the content that nothing else refers to. Content that was stored recently, or that cannot be removed
// now, is removed by the collector later.
func (b *Inbox) DeleteSession(ctx context.Context, tenant string, s agent.SessionID) (agent.SessionDeleted, error) {
	gone, err := b.Store.DeleteSession(ctx, tenant, s)
	if err != nil {
		return gone, err
	}
	ctx = context.WithoutCancel(ctx) // the session is gone: its content goes too
	gone.Blobs = 0
	for _, ref := range gone.Refs {
		switch err := b.Blobs.Remove(ctx, tenant, ref); {
		case err == nil, agent.CodeOf(err) == agent.CodeNotFound:
			gone.Blobs++
		case agent.CodeOf(err) == agent.CodeConflict: // it was stored again meanwhile
		default:
			b.Turns.Logger.Warn("remove a deleted session's content", zap.String("session", string(s)), zap.String("ref", ref), zap.Error(err))
		}
	}
	return gone, nil
}
