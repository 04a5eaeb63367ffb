package flowstest

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"sync"

	"github.com/turnstone-run/turnstone/activities/flows"
	"github.com/turnstone-run/turnstone/agent"
)

// Rows keeps content in memory.
type Rows struct {
	mu      sync.Mutex
	content map[string][]byte
}

// NewRows makes an empty one.
func NewRows() *Rows { return &Rows{content: map[string][]byte{}} }

// Open implements [flows.Rows].
func (r *Rows) Open(_ context.Context, tenant, ref string) (io.ReadCloser, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	content, ok := r.content[tenant+ref]
	if !ok {
		return nil, agent.Errorf(agent.CodeNotFound, "open", "there is no %s", ref)
	}
	return io.NopCloser(bytes.NewReader(content)), nil
}

// Put implements [flows.Rows].
func (r *Rows) Put(_ context.Context, tenant string, content io.Reader) (string, error) {
	all, err := io.ReadAll(content)
	if err != nil {
		return "", err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	ref := fmt.Sprintf("cas://%d", len(r.content)+1)
	r.content[tenant+ref] = all
	return ref, nil
}

// World is the outside: it keeps what was sent. Its functions may be set to go wrong.
type World struct {
	mu    sync.Mutex
	mails []flows.Mail
	hooks []flows.Webhook
	turns []agent.TurnRequest

	OnMail  func(m flows.Mail, mark func() error) error // instead of taking it
	OnHook  func(w flows.Webhook, mark func() error) (flows.WebhookAnswer, error)
	OnTurn  func(r agent.TurnRequest) error
	Result  func(id agent.TurnID) (agent.AgentStepOutput, error)
	Fetched func(call flows.PipelineCall) (flows.PipelineResult, error)
}

// Mails are those that were taken.
func (w *World) Mails() []flows.Mail {
	w.mu.Lock()
	defer w.mu.Unlock()
	return append([]flows.Mail(nil), w.mails...)
}

// Hooks are the requests that were taken.
func (w *World) Hooks() []flows.Webhook {
	w.mu.Lock()
	defer w.mu.Unlock()
	return append([]flows.Webhook(nil), w.hooks...)
}

// Turns are those that were begun.
func (w *World) Turns() []agent.TurnRequest {
	w.mu.Lock()
	defer w.mu.Unlock()
	return append([]agent.TurnRequest(nil), w.turns...)
}

// Mailer sends into the world.
type Mailer struct{ *World }

// Send implements [flows.Mailer].
func (m Mailer) Send(_ context.Context, mail flows.Mail, mark func() error) error {
	if m.OnMail != nil {
		if err := m.OnMail(mail, mark); err != nil {
			return err
		}
	} else if err := mark(); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.mails = append(m.mails, mail)
	return nil
}

// Webhooks sends into the world.
type Webhooks struct{ *World }

// Send implements [flows.Webhooks].
func (h Webhooks) Send(_ context.Context, w flows.Webhook, mark func() error) (flows.WebhookAnswer, error) {
	answer := flows.WebhookAnswer{Status: 200, Body: []byte(`{"ok":true}`)}
	var err error
	if h.OnHook != nil {
		answer, err = h.OnHook(w, mark)
	} else {
		err = mark()
	}
	if err == nil {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.hooks = append(h.hooks, w)
	}
	return answer, err
}

// Turns begins turns that say what Result says.
type Turns struct{ *World }

// BeginTurn implements [flows.Turns].
func (t Turns) BeginTurn(_ context.Context, r agent.TurnRequest) error {
	if t.OnTurn != nil {
		if err := t.OnTurn(r); err != nil {
			return err
		}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.turns = append(t.turns, r)
	return nil
}

// Turn implements [flows.Turns].
func (t Turns) Turn(_ context.Context, id agent.TurnID) (agent.AgentStepOutput, error) {
	if t.Result == nil {
		return agent.AgentStepOutput{TurnID: id, Agent: "analyst", Status: agent.TurnCompleted, Output: "all is well"}, nil
	}
	return t.Result(id)
}

// Pipelines answers with what Fetched says.
type Pipelines struct{ *World }

// EffectFree implements [flows.Pipelines].
func (p Pipelines) EffectFree(steps json.RawMessage) bool {
	return !bytes.Contains(steps, []byte("POST"))
}

// Run implements [flows.Pipelines].
func (p Pipelines) Run(_ context.Context, call flows.PipelineCall) (flows.PipelineResult, error) {
	return p.Fetched(call)
}
