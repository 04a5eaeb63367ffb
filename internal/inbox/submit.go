package inbox

import (
	"context"

	"github.com/google/uuid"

	"github.com/turnstone-run/turnstone/activities"
	"github.com/turnstone-run/turnstone/agent"
)

// Submit checks a request and starts its turn. A turn that was started before with the same id is joined.
func (b *Inbox) Submit(ctx context.Context, e agent.Envelope) (agent.Receipt, error) {
	receipt, _, err := b.submit(ctx, e, false)
	return receipt, err
}

// submit queues the turn before it starts it when the caller must know at once where it stands: the answer is then the queue's,
// and no second reject can slip in between.
func (b *Inbox) submit(ctx context.Context, e agent.Envelope, queueFirst bool) (agent.Receipt, int, error) {
	req := e.Request
	if req.Channel == "" {
		req.Channel = e.Channel
	}
	chosen := req.TurnID != ""
	req.TurnID = activities.TurnIDOf(&req, uuid.NewString())
	session := req.SessionID
	if session == "" {
		session = agent.SessionID(req.TurnID)
	}
	req.IdempotencyKey = "" // the turn's id says it
	if req.Context.Tenant == agent.DefaultTenant {
		req.Context.Tenant = ""
	}
	if _, _, err := b.Activities.Check(ctx, &req); err != nil {
		return agent.Receipt{}, 0, err
	}
	if chosen {
		if err := b.own(ctx, &req); err != nil {
			return agent.Receipt{}, 0, err
		}
	}
	position := 0
	if queueFirst || req.OnBusy == agent.OnBusyReject {
		begun, err := b.Activities.Begin(ctx, req, activities.BeginTurnInput{WorkflowID: req.TurnID.WorkflowID()})
		if err != nil {
			return agent.Receipt{}, 0, err
		}
		position = begun.Position
	}
	runs := Runs{Temporal: b.Temporal, TaskQueue: b.TaskQueue, Eager: b.Eager}
	joined, err := runs.start(ctx, req)
	if err != nil {
		return agent.Receipt{}, 0, err
	}
	return agent.Receipt{TurnID: req.TurnID, SessionID: session, StreamID: string(req.TurnID), Joined: joined}, position, nil
}

// own refuses a turn id that belongs to another tenant or session, in words that say nothing of theirs.
func (b *Inbox) own(ctx context.Context, req *agent.TurnRequest) error {
	t, err := b.Store.Turn(ctx, req.TurnID)
	switch {
	case agent.CodeOf(err) == agent.CodeNotFound:
		return nil
	case err != nil:
		return err
	}
	tenant := req.Context.Tenant
	if tenant == "" {
		tenant = agent.DefaultTenant
	}
	if t.Record.Tenant != tenant {
		return &agent.Error{Code: agent.CodeConflict, Field: "turn_id", Err: agent.Errorf(agent.CodeConflict, "", "is taken")}
	}
	return nil
}

// Message submits m to the session of a turn.
func (b *Inbox) Message(ctx context.Context, id agent.TurnID, m agent.TurnRequest) (agent.Receipt, int, error) {
	t, err := b.Store.Turn(ctx, id)
	if err != nil {
		return agent.Receipt{}, 0, err
	}
	if m.OnBusy == "" {
		pending, err := b.pending(ctx, &t)
		if err != nil {
			return agent.Receipt{}, 0, err
		}
		if len(pending) > 0 {
			return agent.Receipt{}, 0, agent.Errorf(agent.CodeConflict, "", "awaiting_approval: the session waits for a person; say on_busy to queue or interrupt")
		}
	}
	m.SessionID, m.Context.Tenant = t.Record.SessionID, t.Record.Tenant
	if m.Agent == "" {
		m.Agent = t.Record.Agent
	}
	return b.submit(ctx, agent.Envelope{Channel: "http", Request: m}, true)
}
