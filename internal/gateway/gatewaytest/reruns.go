package gatewaytest

import (
	"cmp"
	"context"
	"slices"

	"github.com/turnstone-run/turnstone/agent"
)

// Rerun implements [gateway.Turns]: it submits what the turn was asked.
func (rt *Runtime) Rerun(ctx context.Context, id agent.TurnID, e agent.Envelope) (agent.Receipt, error) {
	rt.mu.Lock()
	t, ok := rt.turns[id]
	rt.mu.Unlock()
	if !ok {
		return agent.Receipt{}, agent.Errorf(agent.CodeNotFound, "", "no turn %q", id)
	}
	if t.output == nil {
		return agent.Receipt{}, agent.Errorf(agent.CodeConflict, "", "turn %q has not ended", id)
	}
	rerun := *e.Request.Rerun
	rerun.Of, rerun.Input = id, t.request.Input()
	e.Request.Rerun = &rerun
	e.Request.Agent, e.Request.Model = cmp.Or(e.Request.Agent, t.request.Agent), cmp.Or(e.Request.Model, t.request.Model)
	return rt.Submit(ctx, e)
}

// ForkSession implements [gateway.Sessions]: the branch has the turns of the session.
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
