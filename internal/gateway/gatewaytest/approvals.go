package gatewaytest

import (
	"context"
	"slices"
	"strconv"

	"github.com/turnstone-run/turnstone/agent"
)

// ask notes an approval that an event asks for.
func (rt *Runtime) ask(id agent.TurnID, t *turn, a agent.Approval) {
	created := Epoch()
	a.TurnID, a.SessionID, a.Tenant, a.Agent, a.CreatedAt = id, t.request.SessionID, t.request.Context.Tenant, "analyst", &created
	rt.approvals = append(rt.approvals, a)
}

// resolve notes a decision that an event tells of.
func (rt *Runtime) resolve(id agent.TurnID, decided *agent.Approval) {
	at := Epoch()
	for i := range rt.approvals {
		a := &rt.approvals[i]
		if a.TurnID == id && a.ApprovalID == decided.ApprovalID {
			a.Decision, a.By, a.Message, a.DecidedAt = decided.Decision, decided.By, decided.Message, &at
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
		decided := a.Decision != ""
		switch {
		case a.Tenant != q.Tenant, q.TurnID != "" && a.TurnID != q.TurnID, q.SessionID != "" && a.SessionID != q.SessionID,
			q.State == "pending" && (decided || rt.turns[a.TurnID].output != nil), q.State == "decided" && !decided:
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

// ExportSession implements [gateway.Sessions].
func (rt *Runtime) ExportSession(_ context.Context, tenant string, s agent.SessionID) (agent.SessionExport, error) {
	rt.mu.Lock()
	defer rt.mu.Unlock()
	export := agent.SessionExport{Tenant: tenant, SessionID: s, CreatedAt: Epoch()}
	for _, id := range rt.turnsOf(tenant, s) {
		t := rt.turns[id]
		export.Turns = append(export.Turns, agent.ExportTurn{TurnID: id, State: t.state, Agent: "analyst", CreatedAt: Epoch(), Output: t.output})
		for _, m := range t.request.Input() {
			export.Messages = append(export.Messages, agent.ExportMessage{
				Message: m, Position: int64(len(export.Messages) + 1), TurnID: id, CreatedAt: Epoch(),
			})
		}
	}
	for _, a := range rt.approvals {
		if a.Tenant == tenant && a.SessionID == s {
			export.Approvals = append(export.Approvals, a)
		}
	}
	if len(export.Turns) == 0 {
		return export, agent.Errorf(agent.CodeNotFound, "", "no session %q", s)
	}
	return export, nil
}

// DeleteSession implements [gateway.Sessions].
func (rt *Runtime) DeleteSession(_ context.Context, tenant string, s agent.SessionID) (agent.SessionDeleted, error) {
	rt.mu.Lock()
	defer rt.mu.Unlock()
	gone := agent.SessionDeleted{SessionID: s}
	ids := rt.turnsOf(tenant, s)
	for _, id := range ids {
		if rt.turns[id].output == nil {
			return gone, agent.Errorf(agent.CodeConflict, "", "session %s is at work on turn %s", s, id)
		}
	}
	if len(ids) == 0 {
		return gone, agent.Errorf(agent.CodeNotFound, "", "no session %q", s)
	}
	for _, id := range ids {
		gone.Turns++
		gone.Messages += len(rt.turns[id].request.Input())
		delete(rt.turns, id)
	}
	rt.order = slices.DeleteFunc(rt.order, func(id agent.TurnID) bool { return slices.Contains(ids, id) })
	return gone, nil
}

// turnsOf returns the turns of a session in the order in which they arrived.
func (rt *Runtime) turnsOf(tenant string, s agent.SessionID) []agent.TurnID {
	var ids []agent.TurnID
	for _, id := range rt.order {
		if t, ok := rt.turns[id]; ok && t.request.SessionID == s && t.request.Context.Tenant == tenant {
			ids = append(ids, id)
		}
	}
	return ids
}
