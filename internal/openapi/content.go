package openapi

import (
	"context"
	"maps"
	"slices"
	"strings"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/clip"
	"github.com/turnstone-run/turnstone/internal/tool"
)

// writeBody returns the body. values are the parameters that are not part of the URL or the headers.
func (b *requestBuilder) writeBody(ctx context.Context, values map[string]any) ([]byte, error) {
	value, field, exists := b.findBody(values)
	body := b.op.body
	if !exists {
		if body != nil && body.Required && len(b.problems) == 0 {
			b.addProblem("params.body is required (" + body.mediaNames() + ")")
		}
		return nil, nil
	}
	m := body.chooseMedia(value)
	b.out.Header.Set("Content-Type", m.contentType())
	switch m.kind {
	case mediaMultipart:
		b.check(m.schema, withoutFiles(value), field)
		return b.writeMultipart(ctx, m, value, field)
	case mediaJSON, mediaForm, mediaText: // below
	case mediaBytes:
		f, ok, err := b.readFile(ctx, value, field, 0)
		if err != nil || ok {
			return f.data, err
		}
		text, err := textOf(value)
		if err != nil {
			b.addProblem(field + `: give the content as text, {"ref":"cas://…"} or {"base64":"…"}`)
		}
		return []byte(text), nil
	}
	b.check(m.schema, value, field)
	switch m.kind {
	case mediaForm:
		return b.writeForm(m, value, field)
	case mediaText:
		text, err := textOf(value)
		if err != nil {
			b.addProblem(field + ": " + err.Error() + ": give the text")
		}
		return []byte(text), nil
	default:
		text, err := tool.EncodeJSON(value)
		if err != nil {
			return nil, agent.Invalid("params", "the body cannot be written as JSON: %w", err)
		}
		return limitBody(text)
	}
}

// mediaNames returns the names of the first media types for an error.
func (b *body) mediaNames() string {
	all := make([]string, len(b.media))
	for i := range b.media {
		all[i] = b.media[i].name
	}
	return strings.Join(all[:min(5, len(all))], " or ")
}

// chooseMedia returns the most preferred media type, or multipart if the value has files.
func (b *body) chooseMedia(value any) *media {
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

// findBody finds the body in values: under its name, or its members under their names. It adds problems for other values.
func (b *requestBuilder) findBody(values map[string]any) (value any, field string, exists bool) {
	body := b.op.body
	for _, name := range []string{"body", "requestBody"} {
		v, ok := values[name]
		if !ok || body == nil || len(body.media) == 0 {
			continue
		}
		if _, isMember := body.media[0].members[name]; isMember && !isNested(v) { // a property with that name
			continue
		}
		delete(values, name)
		if exists {
			b.addProblem("params." + name + ": the body is given as " + field + " already: give one of them")
			continue
		}
		value, field, exists = v, "params."+name, true
	}
	members := map[string]any{}
	for _, name := range sortedKeys(values) {
		if !exists && body.takesMember(name) {
			members[name] = values[name]
			continue
		}
		b.addProblem(paramField(name) + ": the operation has no such parameter" + didYouMean(name, b.op.paramNames()))
	}
	if exists {
		return value, field, true
	}
	isEmptyObject := body != nil && body.Required && len(body.media) > 0 && body.media[0].members != nil
	return members, "params", len(members) > 0 || isEmptyObject
}

// isNested reports whether a value is a list or an object.
func isNested(v any) bool {
	switch v.(type) {
	case map[string]any, []any:
		return true
	default:
		return false
	}
}

// takesMember reports whether a name is a property of the body. An open object without named properties takes any name.
func (b *body) takesMember(name string) bool {
	return b != nil && slices.ContainsFunc(b.media, func(m media) bool {
		_, isMember := m.members[name]
		takesAny := m.members != nil && len(m.members) == 0 && m.isOpen
		return m.kind <= mediaMultipart && (isMember || takesAny)
	})
}

// paramNames returns the names that a caller may give.
func (o *Operation) paramNames() []string {
	var all []string
	for _, p := range o.params {
		if !o.isReserved(p) {
			all = append(all, p.Name)
		}
	}
	if o.body != nil && len(o.body.media) > 0 {
		all = append(all, "body")
		all = append(all, sortedKeys(o.body.media[0].members)...)
	}
	return all
}

func limitBody(content []byte) ([]byte, error) {
	if len(content) > MaxBody {
		return nil, agent.Errorf(agent.CodeOverflow, "", "the body is %d bytes, at most %d", len(content), MaxBody)
	}
	return content, nil
}

// writeForm writes application/x-www-form-urlencoded. As OpenAPI requires, it writes values as JSON that their style cannot express.
func (b *requestBuilder) writeForm(m *media, value any, field string) ([]byte, error) {
	object, ok := value.(map[string]any)
	if !ok {
		b.addProblem(field + ": a form is an object")
		return nil, nil
	}
	var parts []string
	for _, name := range sortedKeys(object) {
		v, e := object[name], m.encoding[name]
		if v == nil {
			continue
		}
		style, explode := serialization("query", e.Style, e.Explode)
		if needsJSON(v, &e) {
			text, err := tool.EncodeJSON(v)
			if err != nil {
				return nil, agent.Invalid("params", "%s cannot be written as JSON: %w", clip.Bytes(name, 100), err)
			}
			v = string(text)
		}
		text, err := queryText(name, style, explode, e.AllowReserved, v)
		if err != nil {
			b.addProblem(field + "." + clip.Bytes(name, 100) + errorText(err))
			continue
		}
		if text != "" {
			parts = append(parts, text)
		}
	}
	return limitBody([]byte(strings.Join(parts, "&")))
}

// needsJSON reports whether a form writes a value as JSON, because the document says so or its style cannot express nested values.
func needsJSON(v any, e *encoding) bool {
	if e.Style == "deepObject" {
		return false
	}
	if e.Style == "" && strings.Contains(e.ContentType, "json") {
		return true
	}
	switch v := v.(type) {
	case []any:
		return slices.ContainsFunc(v, func(v any) bool { return isNested(v) || v == nil })
	case map[string]any:
		return e.Style == "" || slices.ContainsFunc(slices.Collect(maps.Values(v)), isNested)
	default:
		return false
	}
}
