package definitions

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/definitions/expr"
)

// What an activity knows of HTTP; the rest is the port's.
const (
	methodGet   = "GET"
	methodPost  = "POST"
	methodPut   = "PUT"
	contentType = "Content-Type"

	statusUnknown   = 401
	statusForbidden = 403
	statusBusy      = 429
	statusAway      = 503
)

// webhookOutput is what the nodes behind a webhook are given.
type webhookOutput struct {
	Status int             `json:"status"`
	Body   json.RawMessage `json:"body,omitempty"` // JSON as it is, anything else as a text

	Truncated bool `json:"truncated,omitempty"` // the body is not all of the answer
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
	if v.runner.Webhooks == nil {
		return webhookOutput{}, fault(agent.Invalid("config.action", "this runtime calls no webhooks"))
	}
	w, err := v.request(ctx, in)
	if err != nil {
		return webhookOutput{}, err
	}
	repeatable := v.config.Repeatable || w.Method == methodGet || w.Method == methodPut
	var out webhookOutput
	err = v.effect(ctx, repeatable, func(ctx context.Context, mark func() error) error {
		answer, err := v.runner.Webhooks.Send(ctx, w, mark)
		if err != nil {
			return err
		}
		out.Status, out.Body, out.Truncated = answer.Status, bodyOf(answer.Body), answer.Truncated
		return refusal(&answer)
	})
	return out, err
}

// request composes what is sent.
func (v *visit) request(ctx context.Context, in inflow) (Webhook, error) {
	w := Webhook{
		Tenant: v.facts.run.Tenant, Method: strings.ToUpper(cmp.Or(v.config.Method, methodPost)), Header: map[string]string{},
		Auth: v.config.Auth, Key: v.key(),
	}
	data, err := v.data(ctx, in, v.config.URL, string(v.config.Body))
	if err != nil {
		return w, err
	}
	if w.URL, err = v.renderURL(ctx, data); err != nil {
		return w, err
	}
	typed := false
	for name, value := range v.config.Headers {
		w.Header[name] = value
		typed = typed || strings.EqualFold(name, contentType)
	}
	if w.Method == methodGet {
		return w, nil
	}
	w.Body, err = v.body(ctx, data)
	if !typed {
		w.Header[contentType] = "text/plain; charset=utf-8"
		if json.Valid(w.Body) {
			w.Header[contentType] = "application/json"
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

// body is a text with its expressions filled in, JSON as it is, or a notice of what came in.
func (v *visit) body(ctx context.Context, data expr.Data) ([]byte, error) {
	if len(v.config.Body) == 0 || string(v.config.Body) == "null" {
		n := notice{Tag: v.facts.run.Tag, RunID: v.in.RunID, Node: v.node.ID, Visit: v.in.Visit, Input: data.Input}
		return json.Marshal(n)
	}
	var text string
	if json.Unmarshal(v.config.Body, &text) == nil {
		out, err := v.render(ctx, "body", text, data)
		return []byte(out), err
	}
	return v.config.Body, nil
}

// refusal is an answer that is no success as an error. 429 and 503 say that nothing was done; other answers of the 500s may come from
// something on the way while the receiver was at work.
func refusal(a *WebhookAnswer) error {
	switch {
	case a.Status >= 200 && a.Status < 300:
		return nil
	case a.Status == statusBusy:
		return &agent.Error{Code: agent.CodeRateLimited, RetryAfter: a.RetryAfter, Err: answered(a)}
	case a.Status == statusAway:
		return &agent.Error{Code: agent.CodeUnavailable, RetryAfter: a.RetryAfter, Err: answered(a)}
	case a.Status >= 500:
		return fmt.Errorf("%w: %w", answered(a), ErrUnknown)
	case a.Status == statusUnknown || a.Status == statusForbidden:
		return fault(&agent.Error{Code: agent.CodeDenied, Err: answered(a)})
	case a.Status >= 300 && a.Status < 400:
		return fault(&agent.Error{Code: agent.CodeInvalid, Err: fmt.Errorf("%w: it redirects to another place", answered(a))})
	default:
		return fault(&agent.Error{Code: agent.CodeInvalid, Err: answered(a)})
	}
}

func answered(a *WebhookAnswer) error {
	return fmt.Errorf("the webhook answered %d", a.Status)
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
