package definitions

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/clip"
	"github.com/turnstone-run/turnstone/internal/definitions/expr"
	"github.com/turnstone-run/turnstone/internal/notifications"
)

// emailOutput is the output of an email task.
type emailOutput struct {
	Action  string   `json:"action"`
	To      []string `json:"to,omitempty"`
	Subject string   `json:"subject"`
	ID      string   `json:"id"` // of the mail
}

// sendEmail renders and sends the mail of an email task.
func (v *nodeVisit) sendEmail(ctx context.Context, in visitInput) (emailOutput, error) {
	if v.runner.Mailer == nil {
		return emailOutput{}, asNodeError(agent.Invalid("config.action", "this runtime sends no mail: none is configured"))
	}
	m := notifications.Mail{ID: v.idempotencyKey(), To: v.config.To, Cc: v.config.Cc}
	var body string
	if len(v.config.Body) > 0 {
		if err := json.Unmarshal(v.config.Body, &body); err != nil {
			return emailOutput{}, asNodeError(agent.Invalid("config.body", "want a text: %w", err))
		}
	}
	data, err := v.loadData(ctx, in, v.config.Subject, body)
	if err != nil {
		return emailOutput{}, err
	}
	subject := cmp.Or(v.config.Subject, v.facts.run.Tag+": "+cmp.Or(v.node.Name, v.node.ID))
	if m.Subject, err = v.render(ctx, "subject", subject, data); err != nil {
		return emailOutput{}, err
	}
	m.Subject = clip.Runes(strings.Join(strings.Fields(m.Subject), " "), maxSubject) // a subject is one line
	if body == "" {
		m.Body = v.defaultBody(data)
	} else if m.Body, err = v.render(ctx, "body", body, data); err != nil {
		return emailOutput{}, err
	}
	err = v.runEffect(ctx, false, func(ctx context.Context, mark func() error) error { return v.runner.Mailer.Send(ctx, m, mark) })
	return emailOutput{Action: ActionEmail, To: m.To, Subject: m.Subject, ID: m.ID}, err
}

// render renders a template. Its errors name the config member field.
func (v *nodeVisit) render(ctx context.Context, field, text string, data expr.Data) (string, error) {
	return v.renderWith(ctx, field, text, data, (*expr.Template).Render)
}

func (v *nodeVisit) renderWith(
	ctx context.Context, field, text string, data expr.Data, render func(*expr.Template, context.Context, expr.Data) (string, error),
) (string, error) {
	t, err := expr.CompileTemplate(text)
	if err == nil {
		var out string
		if out, err = render(t, ctx, data); err == nil {
			return out, nil
		}
	}
	if ctx.Err() != nil {
		return "", err
	}
	return "", asNodeError(agent.FieldErrorf(agent.CodeOf(err), "config."+field, "%w", err))
}

// defaultBody returns the body of a mail without a configured body: the input, with rows as a table.
func (v *nodeVisit) defaultBody(data expr.Data) string {
	var b strings.Builder
	run := &v.facts.run
	fmt.Fprintf(&b, "Workflow %s, run %s\n\n", run.Tag, run.RunID)
	if rows, ok := data.Rows(); ok {
		b.WriteString(rowsTable(rows))
	} else if data.Input != nil {
		pretty, err := json.MarshalIndent(data.Input, "", "  ")
		if err == nil {
			b.WriteString(clip.Runes(string(pretty), maxReport))
		}
		b.WriteByte('\n')
	}
	return b.String()
}
