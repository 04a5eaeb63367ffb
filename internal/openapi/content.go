package openapi

import (
	"bytes"
	"context"
	"encoding/json"
	"slices"
	"strings"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/clip"
)

// content writes the body. rest are the parameters that are none of the address or headers.
func (b *building) content(ctx context.Context, rest map[string]any) ([]byte, error) {
	value, at, given := b.whole(rest)
	body := b.op.body
	if !given {
		if body != nil && body.required && len(b.problems) == 0 {
			b.wrong("params.body is required (" + body.names() + ")")
		}
		return nil, nil
	}
	m := body.choose(value)
	b.out.Header.Set("Content-Type", m.sent())
	switch m.kind {
	case mediaJSON:
		b.check(m.schema, value, at)
		return b.json(value)
	case mediaForm:
		b.check(m.schema, value, at)
		return b.form(m, value, at)
	case mediaMultipart:
		b.check(m.schema, withoutFiles(value), at)
		return b.multipart(ctx, m, value, at)
	case mediaText:
		b.check(m.schema, value, at)
		text, err := textOf(value)
		if err != nil {
			b.wrong(at + ": " + err.Error() + ": give the text")
		}
		return []byte(text), nil
	default:
		f, ok, err := b.file(ctx, value, at, 0)
		if err != nil || ok {
			return f.data, err
		}
		text, err := textOf(value)
		if err != nil {
			b.wrong(at + `: give the content as text, {"ref":"cas://…"} or {"base64":"…"}`)
		}
		return []byte(text), nil
	}
}

func (b *body) names() string {
	all := make([]string, len(b.media))
	for i := range b.media {
		all[i] = b.media[i].name
	}
	return strings.Join(all[:min(5, len(all))], " or ")
}

// choose is the most preferred type; one that can carry files for a value that has some.
func (b *body) choose(value any) *media {
	best := &b.media[0]
	object, _ := value.(map[string]any)
	for _, v := range object {
		if !isFile(v) {
			continue
		}
		for i := range b.media {
			if b.media[i].kind == mediaMultipart {
				best = &b.media[i]
			}
		}
	}
	return best
}

// whole finds the body among the parameters that are none: under its name, or spread.
func (b *building) whole(rest map[string]any) (value any, at string, given bool) {
	body := b.op.body
	for _, name := range []string{"body", "requestBody"} {
		v, ok := rest[name]
		if !ok || body == nil || len(body.media) == 0 {
			continue
		}
		if m := &body.media[0]; m.members != nil && !isDocumentOf(v) {
			if _, own := m.members[name]; own { // a property that happens to have that name
				continue
			}
		}
		delete(rest, name)
		if given {
			b.wrong("params." + name + ": the body is given as " + at + " already: give one of them")
			continue
		}
		value, at, given = v, "params."+name, true
	}
	members := map[string]any{}
	for _, name := range sorted(rest) {
		if !given && b.takes(name) {
			members[name] = rest[name]
			continue
		}
		b.wrong("params." + clip.Bytes(name, 100) + ": the operation has no such parameter" + didYouMean(near(name, b.op.names())))
	}
	if !given && (len(members) > 0 || body != nil && body.required && len(body.media) > 0 && body.media[0].members != nil) {
		value, at, given = members, "params", true
	}
	return value, at, given
}

func isDocumentOf(v any) bool {
	switch v.(type) {
	case map[string]any, []any:
		return true
	default:
		return false
	}
}

// takes reports whether a name is one of the body's properties; of an object that names none, any is.
func (b *building) takes(name string) bool {
	if b.op.body == nil || len(b.op.body.media) == 0 {
		return false
	}
	for i := range b.op.body.media {
		m := &b.op.body.media[i]
		if m.members == nil || m.kind > mediaMultipart {
			continue
		}
		if _, own := m.members[name]; own || len(m.members) == 0 && m.open {
			return true
		}
	}
	return false
}

// names are those that a caller may give.
func (o *Operation) names() []string {
	var all []string
	for _, p := range o.params {
		if !o.reserved(p) {
			all = append(all, p.Name)
		}
	}
	if o.body != nil && len(o.body.media) > 0 {
		all = append(all, "body")
		all = append(all, sorted(o.body.media[0].members)...)
	}
	return all
}

func (b *building) json(value any) ([]byte, error) {
	text, err := encodeJSON(value)
	if err != nil {
		return nil, agent.Invalid("params", "the body cannot be written as JSON: %w", err)
	}
	return bounded(text)
}

func bounded(content []byte) ([]byte, error) {
	if len(content) > MaxBody {
		return nil, agent.Errorf(agent.CodeOverflow, "", "the body is %d bytes, at most %d", len(content), MaxBody)
	}
	return content, nil
}

// form writes application/x-www-form-urlencoded. What a style has no form for is written as JSON, as the specification has it.
func (b *building) form(m *media, value any, at string) ([]byte, error) {
	object, ok := value.(map[string]any)
	if !ok {
		b.wrong(at + ": a form is an object")
		return nil, nil
	}
	var parts []string
	for _, name := range sorted(object) {
		if object[name] == nil {
			continue
		}
		e := m.encoding[name]
		sm := e.SerializationMethod()
		v := object[name]
		nested := isNested(v)
		if _, isObject := v.(map[string]any); isObject && sm.Style != "deepObject" && (e == nil || e.Style == "") {
			nested = true
		}
		if nested && sm.Style != "deepObject" || e != nil && e.Style == "" && strings.Contains(e.ContentType, "json") {
			text, err := encodeJSON(v)
			if err != nil {
				return nil, agent.Invalid("params", "%s cannot be written as JSON: %w", clip.Bytes(name, 100), err)
			}
			v = string(text)
		}
		text, err := queryText(name, sm.Style, sm.Explode, e != nil && e.AllowReserved, v)
		if err != nil {
			b.wrong(at + "." + clip.Bytes(name, 100) + errorText(err))
			continue
		}
		if text != "" {
			parts = append(parts, text)
		}
	}
	return bounded([]byte(strings.Join(parts, "&")))
}

// isNested reports whether a value has lists or objects within a list or object.
func isNested(v any) bool {
	compound := func(v any) bool { return isDocumentOf(v) || v == nil }
	switch v := v.(type) {
	case []any:
		return slices.ContainsFunc(v, compound)
	case map[string]any:
		for _, member := range v {
			if isDocumentOf(member) {
				return true
			}
		}
	}
	return false
}

// encodeJSON is json.Marshal without the escapes that are for web pages.
func encodeJSON(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimRight(b.Bytes(), "\n"), nil
}
