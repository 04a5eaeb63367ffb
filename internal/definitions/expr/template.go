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

// Bounds of texts.
const (
	MaxTemplate    = 64 << 10 // bytes
	MaxExpressions = 100      // in one text
	MaxRendered    = 1 << 20  // bytes
)

const (
	opens  = "{{"
	closes = "}}"
)

// Template is a text with expressions in {{ }}. It is safe for concurrent use.
type Template struct {
	parts []part
}

// part is a text, then an expression; the last one has none.
type part struct {
	text    string
	formula *formula
}

// CompileTemplate compiles a text. Its error is [agent.CodeInvalid], without a field, and names the expression.
func CompileTemplate(text string) (*Template, error) {
	if len(text) > MaxTemplate {
		return nil, agent.Invalid("", "is %d bytes, at most %d", len(text), MaxTemplate)
	}
	if !strings.Contains(text, opens) {
		return &Template{parts: []part{{text: text}}}, nil
	}
	cut, err := fasttemplate.NewTemplate(text, opens, closes)
	if err != nil {
		return nil, agent.Invalid("", "%s is not closed by %s", opens, closes)
	}
	env, err := newEnv()
	if err != nil {
		return nil, err
	}
	t := new(Template)
	var between strings.Builder
	_, err = cut.ExecuteFunc(&between, func(_ io.Writer, tag string) (int, error) {
		if len(t.parts) == MaxExpressions {
			return 0, agent.Invalid("", "has more than %d expressions", MaxExpressions)
		}
		f, err := parse(env, tag)
		if err != nil {
			return 0, agent.Invalid("", "%s%.100s%s: %w", opens, tag, closes, err)
		}
		t.parts = append(t.parts, part{text: between.String(), formula: f})
		between.Reset()
		return 0, nil
	})
	if err != nil {
		return nil, err
	}
	t.parts = append(t.parts, part{text: between.String()})
	return t, nil
}

// Render fills the text. A value that is missing or null is left out; numbers are written without an exponent, lists and objects as JSON.
// Its error is [agent.CodeInvalid] for an expression that fails, [agent.CodeOverflow] beyond [MaxRendered], or the context's own.
func (t *Template) Render(ctx context.Context, data Data) (string, error) {
	return t.render(ctx, data, func(_, value string, _ error) (string, error) { return value, nil })
}

// RenderURL fills the text of a URL: what is put in is escaped, unless the URL begins with it, and what is missing is [agent.CodeInvalid]. So is
// a value that would lead to another place of the host, as .. in a path does: there are servers that take it for a step up, escaped or not.
func (t *Template) RenderURL(ctx context.Context, data Data) (string, error) {
	var values []span
	rendered, err := t.render(ctx, data, func(before, value string, missing error) (string, error) {
		if missing != nil {
			return "", agent.Invalid("", "%w", missing)
		}
		if before == "" {
			return value, nil
		}
		value = strings.ReplaceAll(url.QueryEscape(value), "+", "%20")
		values = append(values, span{len(before), len(before) + len(value)})
		return value, nil
	})
	if err == nil {
		err = climbs(rendered, values)
	}
	if err != nil {
		return "", err
	}
	return rendered, nil
}

// span is a part of a text.
type span struct{ from, to int }

// climbs refuses a URL where a value makes a segment of the path . or .., alone or with what is around it.
func climbs(rendered string, values []span) error {
	path := rendered
	if end := strings.IndexAny(path, "?#"); end >= 0 {
		path = path[:end]
	}
	for _, v := range values {
		if v.from > len(path) {
			break
		}
		segment := path[strings.LastIndex(path[:v.from], "/")+1:]
		segment, _, _ = strings.Cut(segment, "/")
		if bare, err := url.PathUnescape(segment); err == nil {
			segment = bare
		}
		steps := strings.FieldsFunc(segment, func(r rune) bool { return r == '/' || r == '\\' })
		if slices.Contains(steps, ".") || slices.Contains(steps, "..") {
			return agent.Invalid("", "a value makes %.100q a part of the path, which leads to another place", segment)
		}
	}
	return nil
}

func (t *Template) render(
	ctx context.Context, data Data, put func(before, value string, missing error) (string, error),
) (string, error) {
	s := &scope{data: &data, row: data.Input}
	if rows, ok := data.Rows(); ok && len(rows) > 0 {
		s.row = rows[0]
	}
	var out strings.Builder
	for _, p := range t.parts {
		out.WriteString(p.text)
		if p.formula == nil {
			continue
		}
		value, err := p.formula.text(ctx, s)
		if err != nil && !errors.Is(err, errMissing) {
			return "", err
		}
		value, err = put(out.String(), value, err)
		if err != nil {
			return "", err
		}
		out.WriteString(value)
		if out.Len() > MaxRendered {
			return "", agent.Errorf(agent.CodeOverflow, "fill text", "it becomes longer than %d bytes", MaxRendered)
		}
	}
	return out.String(), nil
}
