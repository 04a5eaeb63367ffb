package schedulestest

import (
	"context"
	"iter"
	"slices"
	"sync"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/notifications"
)

// World is an inbox and the receivers of notices. It implements the ports of scheduled runs except for the store.
type World struct {
	Store *Store
	// Refuse may refuse an envelope; nil accepts.
	Refuse func(e agent.Envelope) error
	// Begin is called with the log of every new turn; nil leaves it to the test.
	Begin func(w *World, id agent.TurnID, e agent.Envelope)
	// Cancelled is called when a turn is asked to stop; nil ends it as cancelled.
	Cancelled func(w *World, id agent.TurnID) error
	// Hook answers a webhook; nil answers 200.
	Hook func(h notifications.Webhook) (notifications.WebhookAnswer, error)
	// Post takes a mail; nil takes it.
	Post func(m notifications.Mail) error
	// Say takes a message to a person; nil takes it.
	Say func(tenant, user, text string) error

	mu        sync.Mutex
	submitted []agent.Envelope
	logs      map[agent.TurnID][]agent.Event
	changed   chan struct{}
	follows   int
	hooks     []notifications.Webhook
	mails     []notifications.Mail
	said      []string
}

// NewWorld returns a world around a store.
func NewWorld(s *Store) *World {
	return &World{Store: s, logs: map[agent.TurnID][]agent.Event{}, changed: make(chan struct{})}
}

// Submit implements schedules.Inbox. The turn's id is made of the idempotency key.
func (w *World) Submit(_ context.Context, e agent.Envelope) (agent.Receipt, error) {
	if w.Refuse != nil {
		if err := w.Refuse(e); err != nil {
			return agent.Receipt{}, err
		}
	}
	id := agent.TurnID("turn-of-" + e.Request.SessionID)
	w.mu.Lock()
	w.submitted = append(w.submitted, e)
	_, joined := w.logs[id]
	if !joined {
		w.logs[id] = nil
	}
	w.mu.Unlock()
	if !joined && w.Begin != nil {
		w.Begin(w, id, e)
	}
	return agent.Receipt{TurnID: id, SessionID: e.Request.SessionID, StreamID: string(id), Joined: joined}, nil
}

// Submitted returns the envelopes that arrived.
func (w *World) Submitted() []agent.Envelope {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.submitted)
}

// Follows returns how often a turn was followed.
func (w *World) Follows() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.follows
}

// Emit appends events to the log of a turn.
func (w *World) Emit(id agent.TurnID, events ...agent.Event) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, e := range events {
		e.Meta.EventIndex = int64(len(w.logs[id]) + 1)
		w.logs[id] = append(w.logs[id], e)
	}
	close(w.changed)
	w.changed = make(chan struct{})
}

// Status emits a status.
func (w *World) Status(id agent.TurnID, s agent.EventStatusValue) {
	w.Emit(id, agent.Event{Type: agent.EventStatus, Status: s})
}

// End stores a turn's result and says its last word.
func (w *World) End(id agent.TurnID, status agent.TurnStatus, text string, f *agent.Failure) {
	out := agent.AgentStepOutput{TurnID: id, Status: status, Output: text, ResultRef: "artifact://" + string(id), Error: f}
	w.Store.End(out)
	w.Emit(id, agent.Event{Type: agent.EventStatus, Status: agent.TerminalStatus(status), Result: &out})
}

// Follow implements schedules.Inbox.
func (w *World) Follow(ctx context.Context, id agent.TurnID, after int64) iter.Seq2[agent.Event, error] {
	return func(yield func(agent.Event, error) bool) {
		w.mu.Lock()
		w.follows++
		w.mu.Unlock()
		for {
			w.mu.Lock()
			ready, changed := w.logs[id], w.changed
			w.mu.Unlock()
			for _, e := range ready[min(int(after), len(ready)):] {
				if !yield(e, nil) || e.Terminal() {
					return
				}
				after = e.Meta.EventIndex
			}
			select {
			case <-changed:
			case <-ctx.Done():
				yield(agent.Event{}, ctx.Err())
				return
			}
		}
	}
}

// Cancel implements schedules.Inbox.
func (w *World) Cancel(_ context.Context, id agent.TurnID, _ agent.CancelRequest) error {
	if w.Cancelled != nil {
		return w.Cancelled(w, id)
	}
	w.End(id, agent.TurnCancelled, "", nil)
	return nil
}

// Webhooks is the world as those who get requests.
type Webhooks struct{ *World }

// Send implements schedules.Webhooks.
func (w Webhooks) Send(_ context.Context, h notifications.Webhook, mark func() error) (notifications.WebhookAnswer, error) {
	if err := mark(); err != nil {
		return notifications.WebhookAnswer{}, err
	}
	w.mu.Lock()
	w.hooks = append(w.hooks, h)
	w.mu.Unlock()
	if w.Hook != nil {
		return w.Hook(h)
	}
	return notifications.WebhookAnswer{Status: 200}, nil
}

// Mailer is the world as those who get mail.
type Mailer struct{ *World }

// Send implements schedules.Mailer.
func (w Mailer) Send(_ context.Context, m notifications.Mail, mark func() error) error {
	if err := mark(); err != nil {
		return err
	}
	w.mu.Lock()
	w.mails = append(w.mails, m)
	w.mu.Unlock()
	if w.Post != nil {
		return w.Post(m)
	}
	return nil
}

// Notify implements schedules.People.
func (w *World) Notify(_ context.Context, tenant, user, text string) error {
	w.mu.Lock()
	w.said = append(w.said, tenant+"/"+user+": "+text)
	w.mu.Unlock()
	if w.Say != nil {
		return w.Say(tenant, user, text)
	}
	return nil
}

// Hooks returns the requests that arrived.
func (w *World) Hooks() []notifications.Webhook {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.hooks)
}

// Mails returns the mails that arrived.
func (w *World) Mails() []notifications.Mail {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.mails)
}

// Said returns the messages that people got.
func (w *World) Said() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.said)
}
