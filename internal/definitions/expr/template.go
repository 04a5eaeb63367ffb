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

// part is literal text and the expression that follows it, nil in the last part.
type part struct {
	text       string
	expression *expression
}

// CompileTemplate compiles a template. Its error is [agent.CodeInvalid] without a field, and quotes the expression.
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
		e, err := compile(env, tag)
		if err != nil {
			return 0, agent.Invalid("", "%s%.100s%s: %w", openDelimiter, tag, closeDelimiter, err)
		}
		t.parts = append(t.parts, part{text: literal.String(), expression: e})
		literal.Reset()
		return 0, nil
	})
	if err != nil {
		return nil, err
	}
	t.parts = append(t.parts, part{text: literal.String()})
	return t, nil
}

// Render returns the text with the values of its expressions. A missing or null value is empty; numbers have no exponent; lists and objects are
// JSON. Its error is that of the context, [agent.CodeInvalid] if an expression fails, or [agent.CodeOverflow] if the text exceeds [maxRendered].
func (t *Template) Render(ctx context.Context, data Data) (string, error) {
	return t.render(ctx, data, func(_, value string, _ error) (string, error) { return value, nil })
}

// RenderURL returns the URL with the escaped values of its expressions. The value of an expression at the beginning is not escaped. The error is
// [agent.CodeInvalid] if a value is missing or makes a path segment . or .., because some servers resolve these even if they are escaped.
func (t *Template) RenderURL(ctx context.Context, data Data) (string, error) {
	var starts []int
	rendered, err := t.render(ctx, data, func(before, value string, missing error) (string, error) {
		if missing != nil {
			return "", agent.Invalid("", "%w", missing)
		}
		if before == "" {
			return value, nil
		}
		starts = append(starts, len(before))
		return strings.ReplaceAll(url.QueryEscape(value), "+", "%20"), nil
	})
	if err == nil {
		err = checkPathSegments(rendered, starts)
	}
	if err != nil {
		return "", err
	}
	return rendered, nil
}

// checkPathSegments returns an error if a value makes a path segment . or .., alone or together with the text around it. starts are the offsets of
// the values.
func checkPathSegments(rendered string, starts []int) error {
	path := rendered
	if end := strings.IndexAny(path, "?#"); end >= 0 {
		path = path[:end]
	}
	for _, start := range starts {
		if start > len(path) {
			break
		}
		segment := path[strings.LastIndex(path[:start], "/")+1:]
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

// render evaluates the expressions and inserts the result of insert for each value. before is the text so far.
func (t *Template) render(
	ctx context.Context, data Data, insert func(before, value string, missing error) (string, error),
) (string, error) {
	vars := &activation{data: &data, row: data.Input}
	if rows, ok := data.Rows(); ok && len(rows) > 0 {
		vars.row = rows[0]
	}
	var out strings.Builder
	for _, p := range t.parts {
		out.WriteString(p.text)
		if p.expression == nil {
			continue
		}
		value, err := p.expression.text(ctx, vars)
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
