package gatewaytest

import (
	"context"
	"strconv"

	"github.com/turnstone-run/turnstone/agent"
)

// addApproval stores the approval that an event requests. rt.mu is locked.
func (rt *Runtime) addApproval(id agent.TurnID, t *turn, a agent.Approval) {
	a.TurnID, a.SessionID, a.Tenant, a.Agent, a.CreatedAt = id, t.request.SessionID, t.request.Context.Tenant, "analyst", new(Epoch())
	rt.approvals = append(rt.approvals, a)
}

// resolveApproval stores the decision of an event. rt.mu is locked.
func (rt *Runtime) resolveApproval(id agent.TurnID, decided *agent.Approval) {
	for i := range rt.approvals {
		a := &rt.approvals[i]
		if a.TurnID == id && a.ApprovalID == decided.ApprovalID {
			a.Decision, a.By, a.Message, a.DecidedAt = decided.Decision, decided.By, decided.Message, new(Epoch())
		}
	}
}

// Approvals implements [gateway.Approvals]. Page tokens are positions.
func (rt *Runtime) Approvals(_ context.Context, q agent.ApprovalQuery) (agent.ApprovalPage, error) {
	rt.mu.Lock()
	defer rt.mu.Unlock()
	from := 0
	if q.After != "" {
		var err error
		if from, err = strconv.Atoi(q.After); err != nil {
			return agent.ApprovalPage{}, agent.Invalid("page_token", "is none of ours")
		}
	}
	var page agent.ApprovalPage
	for i := from; i < len(rt.approvals); i++ {
		a := rt.approvals[i]
		isDecided := a.Decision != ""
		switch {
		case a.Tenant != q.Tenant, q.TurnID != "" && a.TurnID != q.TurnID, q.SessionID != "" && a.SessionID != q.SessionID,
			q.State == "pending" && (isDecided || rt.turns[a.TurnID].output != nil), q.State == "decided" && !isDecided:
			continue
		}
		if len(page.Approvals) == q.Limit {
			page.Next = strconv.Itoa(i)
			break
		}
		page.Approvals = append(page.Approvals, a)
	}
	return page, nil
}

// Approval implements [gateway.Approvals].
func (rt *Runtime) Approval(_ context.Context, tenant, id string) (agent.Approval, error) {
	rt.mu.Lock()
	defer rt.mu.Unlock()
	for _, a := range rt.approvals {
		if a.ApprovalID == id && (tenant == agent.AnyTenant || tenant == a.Tenant) {
			return a, nil
		}
	}
	return agent.Approval{}, agent.Errorf(agent.CodeNotFound, "", "no approval %q", id)
}
