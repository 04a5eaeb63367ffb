package inbox

import (
	"context"

	"github.com/google/uuid"

	"github.com/turnstone-run/turnstone/activities"
	"github.com/turnstone-run/turnstone/agent"
)

// Submit checks a request and starts its turn. A turn that was started before with the same id is joined.
func (b *Inbox) Submit(ctx context.Context, e agent.Envelope) (agent.Receipt, error) {
	receipt, _, err := b.submit(ctx, e)
	return receipt, err
}

// submit queues a turn of a named session before it starts it: messages run in the order in which they were accepted, a full queue
// or a rejection is answered at once, and nothing can slip in between.
func (b *Inbox) submit(ctx context.Context, e agent.Envelope) (agent.Receipt, int, error) {
	req := e.Request
	if req.Channel == "" {
		req.Channel = e.Channel
	}
	chosen := req.TurnID != "" || req.IdempotencyKey != ""
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
		if again, known := b.known(ctx, &req, session); known {
			return again, 0, nil
		}
		return agent.Receipt{}, 0, err
	}
	recorded := false
	if chosen {
		mode, err := b.own(ctx, &req)
		if err != nil {
			return agent.Receipt{}, 0, err
		}
		if recorded = mode != ""; mode == agent.ModeDirect {
			return agent.Receipt{TurnID: req.TurnID, SessionID: session, StreamID: string(req.TurnID), Joined: true}, 0, nil
		}
	}
	if req.SessionID != "" && req.OnBusy == "" {
		if err := b.awaited(ctx, &req); err != nil {
			return agent.Receipt{}, 0, err
		}
	}
	if req.Mode == agent.ModeDirect && b.Direct != nil && !recorded {
		receipt, position, taken, err := b.Direct.Submit(ctx, req)
		if taken || err != nil {
			return receipt, position, err
		}
	}
	position := 0
	if req.SessionID != "" {
		begun, err := b.Activities.Begin(ctx, req, activities.BeginTurnInput{WorkflowID: req.TurnID.WorkflowID()})
		if err != nil {
			return agent.Receipt{}, 0, err
		}
		position = begun.Position
	}
	joined, err := b.Runs.start(ctx, req, nil)
	if err != nil {
		return agent.Receipt{}, 0, err
	}
	return agent.Receipt{TurnID: req.TurnID, SessionID: session, StreamID: string(req.TurnID), Joined: joined}, position, nil
}

// known finds a turn that was accepted before the catalog changed so that it would be refused now: the same request again joins it.
func (b *Inbox) known(ctx context.Context, req *agent.TurnRequest, s agent.SessionID) (agent.Receipt, bool) {
	t, err := b.Store.Turn(ctx, req.TurnID)
	if err != nil || t.Record.Tenant != req.Context.TenantName() || t.Record.SessionID != s || req.Validate(0) != nil {
		return agent.Receipt{}, false
	}
	return agent.Receipt{TurnID: req.TurnID, SessionID: s, StreamID: string(req.TurnID), Joined: true}, true
}

// own refuses a turn id that belongs to another tenant or session, in words that say nothing of theirs, and one whose turn was deleted:
// Temporal would not start it again. mode is how the turn is driven that has the id, empty when there is none: with a direct one there
// is nothing to start.
func (b *Inbox) own(ctx context.Context, req *agent.TurnRequest) (mode agent.Mode, err error) {
	t, err := b.Store.Turn(ctx, req.TurnID)
	switch {
	case agent.CodeOf(err) == agent.CodeNotFound:
		closed, missing, err := b.Runs.look(ctx, req.TurnID.WorkflowID())
		if err == nil && closed && !missing {
			return "", agent.FieldErrorf(agent.CodeConflict, "turn_id", "was used by a turn that is not kept any more")
		}
		return "", err
	case err != nil:
		return "", err
	}
	if t.Record.Tenant != req.Context.TenantName() || (req.SessionID != "" && t.Record.SessionID != req.SessionID) {
		return "", agent.FieldErrorf(agent.CodeConflict, "turn_id", "is taken")
	}
	if t.Record.Mode != agent.ModeDirect {
		return agent.ModeDurable, nil
	}
	if t.Output == nil {
		_, err = b.endOrphan(ctx, req.TurnID, &t)
	}
	return agent.ModeDirect, err
}

// awaited refuses a message to a session that waits for a person, unless it says what to do about that (DESIGN §8). A repeated
// request for the very turn that waits joins it.
func (b *Inbox) awaited(ctx context.Context, req *agent.TurnRequest) error {
	waiting, err := b.Store.Waiting(ctx, req.Context.TenantName(), req.SessionID)
	if err != nil || waiting == "" || waiting == req.TurnID {
		return err
	}
	return agent.Errorf(agent.CodeConflict, "", "awaiting_approval: turn %s waits for a person; say on_busy queue or interrupt", waiting)
}

// Message submits m to the session of a turn.
func (b *Inbox) Message(ctx context.Context, id agent.TurnID, m agent.TurnRequest) (agent.Receipt, int, error) {
	t, err := b.Store.Turn(ctx, id)
	if err != nil {
		return agent.Receipt{}, 0, err
	}
	m.SessionID, m.Context.Tenant = t.Record.SessionID, t.Record.Tenant
	if m.Agent == "" {
		m.Agent = t.Record.Agent
	}
	return b.submit(ctx, agent.Envelope{Channel: "http", Request: m})
}
