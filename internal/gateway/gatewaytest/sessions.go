package gatewaytest

import (
	"cmp"
	"context"
	"slices"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/gateway"
)

// Messages implements [gateway.Sessions]. The messages are the inputs of the session's turns.
func (rt *Runtime) Messages(
	_ context.Context, tenant string, s agent.SessionID, after int64, limit int,
) (gateway.MessagePage, error) {
	rt.mu.Lock()
	defer rt.mu.Unlock()
	page := gateway.MessagePage{SessionID: s, Next: after}
	exists := false
	for i, e := range rt.submitted {
		position := int64(i + 1)
		if e.Request.SessionID != s || e.Request.Context.Tenant != tenant {
			continue
		}
		exists = true
		if position <= after {
			continue
		}
		if page.More = len(page.Messages) == limit; page.More {
			break
		}
		m := e.Request.Input()[0]
		page.Messages = append(page.Messages, gateway.SessionMessage{
			Position: position, CreatedAt: Epoch(), Role: m.Role, Blocks: m.Blocks,
		})
		page.Next = position
	}
	if !exists {
		return page, agent.Errorf(agent.CodeNotFound, "", "no session %q", s)
	}
	return page, nil
}

// ExportSession implements [gateway.Sessions].
func (rt *Runtime) ExportSession(_ context.Context, tenant string, s agent.SessionID) (agent.SessionExport, error) {
	rt.mu.Lock()
	defer rt.mu.Unlock()
	export := agent.SessionExport{Tenant: tenant, SessionID: s, Title: rt.titles[s], CreatedAt: Epoch()}
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

// SetTitle implements [gateway.Sessions].
func (rt *Runtime) SetTitle(_ context.Context, tenant string, s agent.SessionID, title, _ string) error {
	rt.mu.Lock()
	defer rt.mu.Unlock()
	if len(rt.turnsOf(tenant, s)) == 0 {
		return agent.Errorf(agent.CodeNotFound, "", "no session %q", s)
	}
	rt.titles[s] = title
	return nil
}

// DeleteSession implements [gateway.Sessions].
func (rt *Runtime) DeleteSession(_ context.Context, tenant string, s agent.SessionID) (agent.SessionDeleted, error) {
	rt.mu.Lock()
	defer rt.mu.Unlock()
	deleted := agent.SessionDeleted{SessionID: s}
	ids := rt.turnsOf(tenant, s)
	for _, id := range ids {
		if rt.turns[id].output == nil {
			return deleted, agent.Errorf(agent.CodeConflict, "", "session %s is at work on turn %s", s, id)
		}
	}
	if len(ids) == 0 {
		return deleted, agent.Errorf(agent.CodeNotFound, "", "no session %q", s)
	}
	for _, id := range ids {
		deleted.Turns++
		deleted.Messages += len(rt.turns[id].request.Input())
		delete(rt.turns, id)
	}
	rt.order = slices.DeleteFunc(rt.order, func(id agent.TurnID) bool { return slices.Contains(ids, id) })
	return deleted, nil
}

// turnsOf returns the turns of a session in the order of submission. rt.mu is locked.
func (rt *Runtime) turnsOf(tenant string, s agent.SessionID) []agent.TurnID {
	var ids []agent.TurnID
	for _, id := range rt.order {
		if t, ok := rt.turns[id]; ok && t.request.SessionID == s && t.request.Context.Tenant == tenant {
			ids = append(ids, id)
		}
	}
	return ids
}

// ForkSession implements [gateway.Sessions]. It stores nothing.
func (rt *Runtime) ForkSession(_ context.Context, tenant string, f agent.Fork) (agent.SessionForked, error) {
	rt.mu.Lock()
	defer rt.mu.Unlock()
	ids := rt.turnsOf(tenant, f.From)
	if len(ids) == 0 {
		return agent.SessionForked{}, agent.Errorf(agent.CodeNotFound, "", "no session %q", f.From)
	}
	last := slices.Index(ids, cmp.Or(f.TurnID, ids[len(ids)-1]))
	switch {
	case last < 0:
		return agent.SessionForked{}, agent.FieldErrorf(agent.CodeNotFound, "turn_id", "session %q has no turn %q", f.From, f.TurnID)
	case rt.turns[ids[last]].output == nil:
		return agent.SessionForked{}, agent.FieldErrorf(agent.CodeConflict, "turn_id", "turn %q has not ended", ids[last])
	case len(rt.turnsOf(tenant, f.SessionID)) > 0:
		return agent.SessionForked{}, agent.FieldErrorf(agent.CodeConflict, "session_id", "session %q is in use", f.SessionID)
	}
	return agent.SessionForked{SessionID: f.SessionID, ForkedFrom: f.From, TurnID: ids[last], Turns: last + 1, Messages: last + 1}, nil
}
