package flows

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/flow/expr"
)

// webhookOutput is what the nodes behind a webhook are given.
type webhookOutput struct {
	Status int             `json:"status"`
	Body   json.RawMessage `json:"body,omitempty"` // JSON as it is, anything else as a text
}

// notice is a webhook's body when the definition gives none.
type notice struct {
	Tag   string `json:"workflow_tag"`
	RunID string `json:"run_id"`
	Node  string `json:"node_id"`
	Visit int    `json:"visit"`
	Input any    `json:"input"`
}

func (v *visit) webhook(ctx context.Context, in inflow) (webhookOutput, error) {
	if v.a.Webhooks == nil {
		return webhookOutput{}, fault(agent.Invalid("config.action", "this runtime calls no webhooks"))
	}
	w, err := v.request(ctx, in)
	if err != nil {
		return webhookOutput{}, err
	}
	repeatable := v.config.Repeatable || w.Method == http.MethodGet || w.Method == http.MethodPut
	var out webhookOutput
	err = v.effect(ctx, repeatable, func(mark func() error) error {
		answer, err := v.a.Webhooks.Send(ctx, w, mark)
		if err != nil {
			return err
		}
		out.Status, out.Body = answer.Status, bodyOf(answer.Body)
		return refusal(&answer)
	})
	return out, err
}

// request composes what is sent.
func (v *visit) request(ctx context.Context, in inflow) (Webhook, error) {
	w := Webhook{
		Tenant: v.facts.run.Tenant, Method: strings.ToUpper(cmp.Or(v.config.Method, http.MethodPost)), Header: http.Header{},
		Auth: v.config.Auth, Key: v.key(),
	}
	texts := []string{v.config.URL, string(v.config.Body)}
	for _, value := range v.config.Headers {
		texts = append(texts, value)
	}
	data, err := v.data(ctx, in, texts...)
	if err != nil {
		return w, err
	}
	if w.URL, err = v.renderURL(ctx, data); err != nil {
		return w, err
	}
	for name, value := range v.config.Headers {
		if value, err = v.render(ctx, "headers."+name, value, data); err != nil {
			return w, err
		}
		w.Header.Set(name, value)
	}
	if w.Method == http.MethodGet {
		return w, nil
	}
	w.Body, err = v.body(ctx, data)
	if w.Header.Get("Content-Type") == "" {
		w.Header.Set("Content-Type", "text/plain; charset=utf-8")
		if json.Valid(w.Body) {
			w.Header.Set("Content-Type", "application/json")
		}
	}
	return w, err
}

func (v *visit) renderURL(ctx context.Context, data expr.Data) (string, error) {
	t, err := expr.CompileTemplate(v.config.URL)
	if err == nil {
		var out string
		if out, err = t.RenderURL(ctx, data); err == nil {
			return out, nil
		}
	}
	if ctx.Err() != nil {
		return "", err
	}
	return "", fault(agent.FieldErrorf(agent.CodeOf(err), "config.url", "%w", err))
}

// body is a text with its expressions filled in, JSON with those of its texts, or a notice of what came in.
func (v *visit) body(ctx context.Context, data expr.Data) ([]byte, error) {
	if len(v.config.Body) == 0 {
		n := notice{Tag: v.facts.run.Tag, RunID: v.in.RunID, Node: v.node.ID, Visit: v.in.Visit, Input: data.Input}
		return json.Marshal(n)
	}
	var text string
	if json.Unmarshal(v.config.Body, &text) == nil {
		out, err := v.render(ctx, "body", text, data)
		return []byte(out), err
	}
	filled, err := v.fill(ctx, decoded(v.config.Body), data)
	if err != nil {
		return nil, err
	}
	return json.Marshal(filled)
}

// fill renders the texts within JSON.
func (v *visit) fill(ctx context.Context, value any, data expr.Data) (any, error) {
	var err error
	switch value := value.(type) {
	case string:
		return v.render(ctx, "body", value, data)
	case []any:
		for i := range value {
			if value[i], err = v.fill(ctx, value[i], data); err != nil {
				return nil, err
			}
		}
	case map[string]any:
		for name := range value {
			if value[name], err = v.fill(ctx, value[name], data); err != nil {
				return nil, err
			}
		}
	}
	return value, nil
}

// refusal is an answer that is no success as an error. 429 and 503 say that nothing was done; other answers of the 500s may come from
// something on the way while the receiver was at work.
func refusal(a *WebhookAnswer) error {
	switch {
	case a.Status >= 200 && a.Status < 300:
		return nil
	case a.Status == http.StatusTooManyRequests:
		return &agent.Error{Code: agent.CodeRateLimited, RetryAfter: a.RetryAfter, Err: answered(a)}
	case a.Status == http.StatusServiceUnavailable:
		return &agent.Error{Code: agent.CodeUnavailable, RetryAfter: a.RetryAfter, Err: answered(a)}
	case a.Status >= 500:
		return fmt.Errorf("%w: %w", answered(a), ErrUnknown)
	case a.Status == http.StatusUnauthorized || a.Status == http.StatusForbidden:
		return fault(&agent.Error{Code: agent.CodeDenied, Err: answered(a)})
	default:
		return fault(&agent.Error{Code: agent.CodeInvalid, Err: answered(a)})
	}
}

func answered(a *WebhookAnswer) error {
	return fmt.Errorf("the webhook answered %d %s", a.Status, http.StatusText(a.Status))
}

func bodyOf(body []byte) json.RawMessage {
	switch {
	case len(body) == 0:
		return nil
	case json.Valid(body):
		return body
	}
	text, err := json.Marshal(strings.ToValidUTF8(string(body), "\uFFFD"))
	if err != nil {
		return nil
	}
	return text
}
