package definitionstest

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"sync"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/definitions"
	"github.com/turnstone-run/turnstone/internal/notifications"
)

// Rows is a [definitions.Rows] in memory.
type Rows struct {
	mu      sync.Mutex
	content map[string][]byte
}

// NewRows returns empty Rows.
func NewRows() *Rows { return &Rows{content: map[string][]byte{}} }

// Open implements [definitions.Rows].
func (r *Rows) Open(_ context.Context, tenant, ref string) (io.ReadCloser, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	content, ok := r.content[tenant+ref]
	if !ok {
		return nil, agent.Errorf(agent.CodeNotFound, "open", "there is no %s", ref)
	}
	return io.NopCloser(bytes.NewReader(content)), nil
}

// Put implements [definitions.Rows].
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

// World records the mails, webhooks and turns of runs. Its functions, if set, replace the default answers.
type World struct {
	mu    sync.Mutex
	mails []notifications.Mail
	hooks []notifications.Webhook
	turns []agent.TurnRequest

	OnMail  func(m notifications.Mail, mark func() error) error
	OnHook  func(w notifications.Webhook, mark func() error) (notifications.WebhookAnswer, error)
	OnTurn  func(r agent.TurnRequest) error
	Result  func(id agent.TurnID) (agent.AgentStepOutput, error)
	Fetched func(call definitions.PipelineCall) (definitions.PipelineResult, error)
}

// Mails returns the mails that were accepted.
func (w *World) Mails() []notifications.Mail {
	w.mu.Lock()
	defer w.mu.Unlock()
	return append([]notifications.Mail(nil), w.mails...)
}

// Hooks returns the requests that were accepted.
func (w *World) Hooks() []notifications.Webhook {
	w.mu.Lock()
	defer w.mu.Unlock()
	return append([]notifications.Webhook(nil), w.hooks...)
}

// Turns returns the turns that have begun.
func (w *World) Turns() []agent.TurnRequest {
	w.mu.Lock()
	defer w.mu.Unlock()
	return append([]agent.TurnRequest(nil), w.turns...)
}

// Mailer is a [definitions.Mailer] that sends to a World.
type Mailer struct{ *World }

// Send implements [definitions.Mailer].
func (m Mailer) Send(_ context.Context, mail notifications.Mail, mark func() error) error {
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

// Webhooks is a [definitions.Webhooks] that sends to a World.
type Webhooks struct{ *World }

// Send implements [definitions.Webhooks].
func (h Webhooks) Send(_ context.Context, w notifications.Webhook, mark func() error) (notifications.WebhookAnswer, error) {
	answer := notifications.WebhookAnswer{Status: 200, Body: []byte(`{"ok":true}`)}
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

// Turns is a [definitions.Turns] whose turns end with the answer of Result.
type Turns struct{ *World }

// BeginTurn implements [definitions.Turns].
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

// Turn implements [definitions.Turns].
func (t Turns) Turn(_ context.Context, id agent.TurnID) (agent.AgentStepOutput, error) {
	if t.Result == nil {
		return agent.AgentStepOutput{TurnID: id, Agent: "analyst", Status: agent.TurnCompleted, Output: "all is well"}, nil
	}
	return t.Result(id)
}

// Pipelines is a [definitions.Pipelines] whose Run calls Fetched.
type Pipelines struct{ *World }

// EffectFree implements [definitions.Pipelines].
func (p Pipelines) EffectFree(steps json.RawMessage) bool {
	return !bytes.Contains(steps, []byte("POST"))
}

// Run implements [definitions.Pipelines].
func (p Pipelines) Run(_ context.Context, call definitions.PipelineCall) (definitions.PipelineResult, error) {
	return p.Fetched(call)
}
