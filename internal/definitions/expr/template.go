package expr

import (
	"context"
	"errors"
	"io"
	"net/url"
	"slices"
	"strings"

	"github.com/valyala/fasttemplate"

	"github.com/turnstone-run/turnstone/agent"
)

// Bounds of templates.
const (
	maxTemplate    = 64 << 10 // bytes
	maxExpressions = 100      // in one template
	maxRendered    = 1 << 20  // bytes
)

const (
	openDelimiter  = "{{"
	closeDelimiter = "}}"
)

// Template is a compiled text with expressions in {{ }}. It is safe for concurrent use.
type Template struct {
	parts []part
}

// part is literal text and the expression behind it; the last part has none.
type part struct {
	text       string
	expression *expression
}

// CompileTemplate returns a compiled template. Its error is [agent.CodeInvalid] without a field, and names the expression.
func CompileTemplate(text string) (*Template, error) {
	if len(text) > maxTemplate {
		return nil, agent.Invalid("", "is %d bytes, at most %d", len(text), maxTemplate)
	}
	if !strings.Contains(text, openDelimiter) {
		return &Template{parts: []part{{text: text}}}, nil
	}
	parsed, err := fasttemplate.NewTemplate(text, openDelimiter, closeDelimiter)
	if err != nil {
		return nil, agent.Invalid("", "%s is not closed by %s", openDelimiter, closeDelimiter)
	}
	env, err := newEnv()
	if err != nil {
		return nil, err
	}
	t := new(Template)
	var literal strings.Builder
	_, err = parsed.ExecuteFunc(&literal, func(_ io.Writer, tag string) (int, error) {
		if len(t.parts) == maxExpressions {
			return 0, agent.Invalid("", "has more than %d expressions", maxExpressions)
		}
		f, err := compile(env, tag)
		if err != nil {
			return 0, agent.Invalid("", "%s%.100s%s: %w", openDelimiter, tag, closeDelimiter, err)
		}
		t.parts = append(t.parts, part{text: literal.String(), expression: f})
		literal.Reset()
		return 0, nil
	})
	if err != nil {
		return nil, err
	}
	t.parts = append(t.parts, part{text: literal.String()})
	return t, nil
}

// Render returns the text with the values of its expressions. A missing or null value is left out; numbers have no exponent, lists and objects are
// JSON. Its error is [agent.CodeInvalid] for an expression that fails, [agent.CodeOverflow] beyond [maxRendered], or the context's.
func (t *Template) Render(ctx context.Context, data Data) (string, error) {
	return t.render(ctx, data, func(_, value string, _ error) (string, error) { return value, nil })
}

// RenderURL returns a URL with the values of its expressions, which are escaped unless the URL begins with one. A missing value is
// [agent.CodeInvalid]. So is a value that makes .. a segment of the path: some servers resolve it even if it is escaped.
func (t *Template) RenderURL(ctx context.Context, data Data) (string, error) {
	var inserted []span
	rendered, err := t.render(ctx, data, func(before, value string, missing error) (string, error) {
		if missing != nil {
			return "", agent.Invalid("", "%w", missing)
		}
		if before == "" {
			return value, nil
		}
		value = strings.ReplaceAll(url.QueryEscape(value), "+", "%20")
		inserted = append(inserted, span{len(before), len(before) + len(value)})
		return value, nil
	})
	if err == nil {
		err = checkPathSegments(rendered, inserted)
	}
	if err != nil {
		return "", err
	}
	return rendered, nil
}

// span is a part of a text.
type span struct{ from, to int }

// checkPathSegments returns an error if an inserted value makes a segment of the path . or .., alone or together with the text around it.
func checkPathSegments(rendered string, inserted []span) error {
	path := rendered
	if end := strings.IndexAny(path, "?#"); end >= 0 {
		path = path[:end]
	}
	for _, v := range inserted {
		if v.from > len(path) {
			break
		}
		segment := path[strings.LastIndex(path[:v.from], "/")+1:]
		segment, _, _ = strings.Cut(segment, "/")
		if unescaped, err := url.PathUnescape(segment); err == nil {
			segment = unescaped
		}
		steps := strings.FieldsFunc(segment, func(r rune) bool { return r == '/' || r == '\\' })
		if slices.Contains(steps, ".") || slices.Contains(steps, "..") {
			return agent.Invalid("", "a value makes %.100q a part of the path, which leads to another place", segment)
		}
	}
	return nil
}

// render evaluates the expressions and appends what insert returns for each value.
func (t *Template) render(
	ctx context.Context, data Data, insert func(before, value string, missing error) (string, error),
) (string, error) {
	s := &activation{data: &data, row: data.Input}
	if rows, ok := data.Rows(); ok && len(rows) > 0 {
		s.row = rows[0]
	}
	var out strings.Builder
	for _, p := range t.parts {
		out.WriteString(p.text)
		if p.expression == nil {
			continue
		}
		value, err := p.expression.text(ctx, s)
		if err != nil && !errors.Is(err, errMissingValue) {
			return "", err
		}
		value, err = insert(out.String(), value, err)
		if err != nil {
			return "", err
		}
		out.WriteString(value)
		if out.Len() > maxRendered {
			return "", agent.Errorf(agent.CodeOverflow, "fill text", "it becomes longer than %d bytes", maxRendered)
		}
	}
	return out.String(), nil
}
