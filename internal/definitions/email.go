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

// emailOutput is what the nodes behind an email are given: what came in has gone out, and how.
type emailOutput struct {
	Action  string   `json:"action"`
	To      []string `json:"to,omitempty"`
	Subject string   `json:"subject"`
	ID      string   `json:"id"` // of the mail
}

func (v *visit) email(ctx context.Context, in inflow) (emailOutput, error) {
	if v.runner.Mailer == nil {
		return emailOutput{}, fault(agent.Invalid("config.action", "this runtime sends no mail: none is configured"))
	}
	m := Mail{ID: v.key(), To: v.config.To, Cc: v.config.Cc}
	var body string
	if len(v.config.Body) > 0 {
		if err := json.Unmarshal(v.config.Body, &body); err != nil {
			return emailOutput{}, fault(agent.Invalid("config.body", "want a text: %w", err))
		}
	}
	data, err := v.data(ctx, in, v.config.Subject, body)
	if err != nil {
		return emailOutput{}, err
	}
	subject := cmp.Or(v.config.Subject, v.facts.run.Tag+": "+cmp.Or(v.node.Name, v.node.ID))
	if m.Subject, err = v.render(ctx, "subject", subject, data); err != nil {
		return emailOutput{}, err
	}
	m.Subject = clip(strings.Join(strings.Fields(m.Subject), " "), maxSubject) // one line, whatever was put in
	if body == "" {
		m.Body = v.report(data)
	} else if m.Body, err = v.render(ctx, "body", body, data); err != nil {
		return emailOutput{}, err
	}
	err = v.effect(ctx, false, func(ctx context.Context, mark func() error) error { return v.runner.Mailer.Send(ctx, m, mark) })
	return emailOutput{Action: actionEmail, To: m.To, Subject: m.Subject, ID: m.ID}, err
}

func (v *visit) render(ctx context.Context, field, text string, data expr.Data) (string, error) {
	t, err := expr.CompileTemplate(text)
	if err == nil {
		var out string
		if out, err = t.Render(ctx, data); err == nil {
			return out, nil
		}
	}
	if ctx.Err() != nil {
		return "", err
	}
	return "", fault(agent.FieldErrorf(agent.CodeOf(err), "config."+field, "%w", err))
}

// report is the text of a mail that says nothing of its own: what came in.
func (v *visit) report(data expr.Data) string {
	var b strings.Builder
	run := &v.facts.run
	fmt.Fprintf(&b, "Workflow %s, run %s\n\n", run.Tag, run.RunID)
	if rows, ok := data.Rows(); ok {
		b.WriteString(table(rows))
	} else if data.Input != nil {
		pretty, err := json.MarshalIndent(data.Input, "", "  ")
		if err == nil {
			b.WriteString(clip(string(pretty), maxReport))
		}
		b.WriteByte('\n')
	}
	return b.String()
}
