package definitions

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/definitions/expr"
	"github.com/turnstone-run/turnstone/internal/notifications"
)

// The methods, the header and the statuses of HTTP that webhooks treat specially.
const (
	methodGet   = "GET"
	methodPost  = "POST"
	methodPut   = "PUT"
	contentType = "Content-Type"

	statusUnauthorized    = 401
	statusForbidden       = 403
	statusTooManyRequests = 429
	statusUnavailable     = 503
)

// webhookOutput is the output of a webhook task.
type webhookOutput struct {
	Status int             `json:"status"`
	Body   json.RawMessage `json:"body,omitempty"` // a JSON string if the body is not JSON

	Truncated bool `json:"truncated,omitempty"` // Body is only the beginning of the answer
}

// defaultWebhookBody is the request body of a webhook without a configured body.
type defaultWebhookBody struct {
	Tag   string `json:"workflow_tag"`
	RunID string `json:"run_id"`
	Node  string `json:"node_id"`
	Visit int    `json:"visit"`
	Input any    `json:"input"`
}

// sendWebhook sends the request of a webhook task.
func (v *nodeVisit) sendWebhook(ctx context.Context, in visitInput) (webhookOutput, error) {
	if v.runner.Webhooks == nil {
		return webhookOutput{}, asNodeError(agent.Invalid("config.action", "this runtime calls no webhooks"))
	}
	w, err := v.buildWebhook(ctx, in)
	if err != nil {
		return webhookOutput{}, err
	}
	repeatable := v.config.Repeatable || w.Method == methodGet || w.Method == methodPut
	var out webhookOutput
	err = v.runEffect(ctx, repeatable, func(ctx context.Context, mark func() error) error {
		answer, err := v.runner.Webhooks.Send(ctx, w, mark)
		if err != nil {
			return err
		}
		out.Status, out.Body, out.Truncated = answer.Status, answerBody(answer.Body), answer.Truncated
		return answerError(&answer)
	})
	return out, err
}

// buildWebhook returns the request of a webhook task.
func (v *nodeVisit) buildWebhook(ctx context.Context, in visitInput) (notifications.Webhook, error) {
	w := notifications.Webhook{
		Tenant: v.facts.run.Tenant, Method: strings.ToUpper(cmp.Or(v.config.Method, methodPost)), Header: map[string]string{},
		Auth: v.config.Auth, Key: v.idempotencyKey(),
	}
	data, err := v.loadData(ctx, in, v.config.URL, string(v.config.Body))
	if err != nil {
		return w, err
	}
	if w.URL, err = v.renderWith(ctx, "url", v.config.URL, data, (*expr.Template).RenderURL); err != nil {
		return w, err
	}
	hasContentType := false
	for name, value := range v.config.Headers {
		w.Header[name] = value
		hasContentType = hasContentType || strings.EqualFold(name, contentType)
	}
	if w.Method == methodGet {
		return w, nil
	}
	w.Body, err = v.webhookBody(ctx, data)
	if !hasContentType {
		w.Header[contentType] = "text/plain; charset=utf-8"
		if json.Valid(w.Body) {
			w.Header[contentType] = "application/json"
		}
	}
	return w, err
}

// webhookBody returns the request body: a configured string is a template, other configured JSON is sent unchanged, and the default is a
// [defaultWebhookBody].
func (v *nodeVisit) webhookBody(ctx context.Context, data expr.Data) ([]byte, error) {
	if len(v.config.Body) == 0 || string(v.config.Body) == "null" {
		n := defaultWebhookBody{Tag: v.facts.run.Tag, RunID: v.in.RunID, Node: v.node.ID, Visit: v.in.Visit, Input: data.Input}
		return json.Marshal(n)
	}
	var text string
	if json.Unmarshal(v.config.Body, &text) == nil {
		out, err := v.render(ctx, "body", text, data)
		return []byte(out), err
	}
	return v.config.Body, nil
}

// answerError returns the error for an unsuccessful answer, nil for success. After 429 and 503 there was no effect. Other 5xx statuses may come
// from a proxy while the receiver still handles the request, so the outcome is unknown.
func answerError(a *notifications.WebhookAnswer) error {
	switch {
	case a.Status >= 200 && a.Status < 300:
		return nil
	case a.Status == statusTooManyRequests:
		return &agent.Error{Code: agent.CodeRateLimited, RetryAfter: a.RetryAfter, Err: statusError(a)}
	case a.Status == statusUnavailable:
		return &agent.Error{Code: agent.CodeUnavailable, RetryAfter: a.RetryAfter, Err: statusError(a)}
	case a.Status >= 500:
		return fmt.Errorf("%w: %w", statusError(a), notifications.ErrUnknown)
	case a.Status == statusUnauthorized || a.Status == statusForbidden:
		return asNodeError(&agent.Error{Code: agent.CodeDenied, Err: statusError(a)})
	case a.Status >= 300 && a.Status < 400:
		return asNodeError(&agent.Error{Code: agent.CodeInvalid, Err: fmt.Errorf("%w: it redirects to another place", statusError(a))})
	default:
		return asNodeError(&agent.Error{Code: agent.CodeInvalid, Err: statusError(a)})
	}
}

func statusError(a *notifications.WebhookAnswer) error {
	return fmt.Errorf("the webhook answered %d", a.Status)
}

// answerBody returns the body of an answer as JSON. A body that is not JSON becomes a string.
func answerBody(body []byte) json.RawMessage {
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
