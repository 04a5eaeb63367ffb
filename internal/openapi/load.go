package openapi

import (
	"context"
	"encoding/json"
	"fmt"
	"net/textproto"
	"slices"
	"strings"

	"github.com/getkin/kin-openapi/openapi3"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/clip"
)

// schemaMark stands in the place of a schema in the part of a document that kin-openapi reads, with the schema's name.
const schemaMark = "x-turnstone-schema"

// maxParams bounds the parameters, media types, responses and alternatives of security of an operation, each.
const maxParams = 500

const maxDescription = 200 // of a parameter, in bytes, where an error quotes it

// loading is the making of one operation.
type loading struct {
	doc      *Document
	r        *resolver
	request  *schemas
	response *schemas
	ignored  []string // names of header parameters
}

// load makes an operation: it cuts what the operation reaches out of the document, has kin-openapi read that, and reads the result.
func (d *Document) load(ctx context.Context, f *found, r *resolver) (*Operation, error) {
	l := &loading{doc: d, r: r, request: newSchemas(r, true), response: newSchemas(r, false)}
	op, ok := f.item.child(f.method)
	if !ok {
		return nil, agent.Errorf(agent.CodeInternal, "", "is not where it was found")
	}
	op, err := r.follow(ctx, op)
	switch {
	case err != nil:
		return nil, err
	case op.object() == nil:
		return nil, agent.Invalid("", "is a reference to something that is no operation")
	}
	params, err := l.params(ctx, f.item, op)
	if err != nil {
		return nil, err
	}
	cut := map[string]any{"parameters": params}
	if raw, has := op.child("requestBody"); has {
		if cut["requestBody"], err = l.requestBody(ctx, raw); err != nil {
			return nil, fmt.Errorf("requestBody: %w", err)
		}
	}
	cut["responses"] = l.responses(ctx, op)
	if err := ctx.Err(); err != nil {
		return nil, agent.Interrupted(ctx, "read OpenAPI document")
	}
	cut["servers"] = l.servers(f.item, op)
	security, declared := l.security(op)
	if declared {
		cut["security"] = security
	}
	schemes, err := l.schemes(ctx, security)
	if err != nil {
		return nil, err
	}
	read, err := readCut(cut, schemes)
	if err != nil {
		return nil, err
	}
	return l.operation(f, read, declared)
}

// readCut has kin-openapi read an operation and its security schemes.
func readCut(cut, schemes map[string]any) (doc *openapi3.T, err error) {
	defer func() { // a fault of the library is one of the document
		if p := recover(); p != nil {
			doc, err = nil, agent.Errorf(agent.CodeInvalid, "", "cannot be read")
		}
	}()
	whole, err := json.Marshal(map[string]any{
		"openapi": "3.1.0", "info": map[string]any{"title": "operation", "version": "1"},
		"paths":      map[string]any{"/": map[string]any{"post": cut}},
		"components": map[string]any{"securitySchemes": schemes},
	})
	if err != nil {
		return nil, agent.Errorf(agent.CodeInternal, "", "encode the operation: %w", err)
	}
	doc, err = openapi3.NewLoader().LoadFromData(whole)
	if err != nil {
		return nil, agent.Errorf(agent.CodeInvalid, "", "is malformed: %s", clip.Bytes(err.Error(), 500))
	}
	return doc, nil
}

// pick copies members of an object.
func pick(from map[string]any, names ...string) map[string]any {
	out := map[string]any{}
	for _, name := range names {
		if v, ok := from[name]; ok && v != nil {
			out[name] = v
		}
	}
	return out
}

// params are those of the operation, then those of its path that it does not override.
func (l *loading) params(ctx context.Context, item, op place) ([]any, error) {
	all, seen := []any{}, map[string]bool{}
	for _, from := range []place{op, item} {
		list, _ := from.child("parameters")
		nodes, _ := list.node.([]any)
		own := map[string]bool{}
		for i, node := range nodes {
			p, err := l.r.follow(ctx, list.element(i, node))
			if err != nil {
				return nil, fmt.Errorf("parameters[%d]: %w", i, err)
			}
			name, _ := p.object()["name"].(string)
			in, _ := p.object()["in"].(string)
			if name == "" || !slices.Contains([]string{"path", "query", "header", "cookie"}, in) {
				return nil, agent.Invalid("", "parameters[%d] has no name, or no place that is known", i)
			}
			if in == "header" && ignoredHeader(name) {
				l.ignored = append(l.ignored, name)
				continue
			}
			key := in + "." + name
			if in == "header" {
				key = in + "." + textproto.CanonicalMIMEHeaderKey(name)
			}
			switch {
			case own[key]:
				return nil, agent.Invalid("", "has two parameters %q in %s", clip.Bytes(name, 100), in)
			case seen[key]:
				continue
			case len(all) >= maxParams:
				return nil, agent.Errorf(agent.CodeOverflow, "", "has more than %d parameters", maxParams)
			}
			own[key], seen[key] = true, true
			cut, err := l.param(ctx, p)
			if err != nil {
				return nil, fmt.Errorf("parameter %q in %s: %w", clip.Bytes(name, 100), in, err)
			}
			all = append(all, cut)
		}
	}
	return all, nil
}

// ignoredHeader reports whether OpenAPI says that a parameter of that name shall be ignored: the media types of the document and its
// security set these headers.
func ignoredHeader(name string) bool {
	return slices.Contains([]string{"Accept", "Content-Type", "Authorization"}, textproto.CanonicalMIMEHeaderKey(name))
}

func (l *loading) param(ctx context.Context, p place) (map[string]any, error) {
	cut := pick(p.object(), "name", "in", "required", "style", "explode", "allowReserved", "allowEmptyValue")
	if text, ok := p.object()["description"].(string); ok {
		cut["description"] = clip.Bytes(text, maxDescription)
	}
	if schema, has := p.child("schema"); has {
		mark, err := l.mark(ctx, l.request, schema)
		if err != nil {
			return nil, err
		}
		cut["schema"] = mark
		return cut, nil
	}
	content, _ := p.child("content")
	if names := sorted(content.object()); len(names) > 0 { // there is one only
		of, _ := content.child(names[0])
		m, err := l.media(ctx, l.request, of)
		if err != nil {
			return nil, err
		}
		cut["content"] = map[string]any{names[0]: m}
	}
	return cut, nil
}

// mark translates a schema and stands for it.
func (l *loading) mark(ctx context.Context, side *schemas, p place) (map[string]any, error) {
	name, err := side.add(ctx, p)
	if err != nil {
		return nil, err
	}
	return map[string]any{schemaMark: name}, nil
}

func (l *loading) media(ctx context.Context, side *schemas, p place) (map[string]any, error) {
	p, err := l.r.follow(ctx, p)
	if err != nil {
		return nil, err
	}
	cut := map[string]any{}
	if schema, has := p.child("schema"); has {
		if cut["schema"], err = l.mark(ctx, side, schema); err != nil {
			return nil, err
		}
	}
	if !side.request {
		return cut, nil
	}
	encoding, _ := p.child("encoding")
	all := map[string]any{}
	for name, of := range encoding.object() {
		if m, ok := of.(map[string]any); ok {
			all[name] = pick(m, "contentType", "style", "explode", "allowReserved")
		}
	}
	if len(all) > 0 {
		cut["encoding"] = all
	}
	return cut, nil
}

func (l *loading) content(ctx context.Context, side *schemas, p place) (map[string]any, error) {
	content, _ := p.child("content")
	all := map[string]any{}
	if len(content.object()) > maxParams {
		return nil, agent.Errorf(agent.CodeOverflow, "", "has more than %d media types", maxParams)
	}
	for _, name := range sorted(content.object()) {
		of, _ := content.child(name)
		m, err := l.media(ctx, side, of)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", clip.Bytes(name, 100), err)
		}
		all[name] = m
	}
	return all, nil
}

func (l *loading) requestBody(ctx context.Context, p place) (map[string]any, error) {
	p, err := l.r.follow(ctx, p)
	if err != nil {
		return nil, err
	}
	cut := pick(p.object(), "required")
	cut["content"], err = l.content(ctx, l.request, p)
	return cut, err
}

// responses are never in the way of a request: what cannot be read of them is not checked.
func (l *loading) responses(ctx context.Context, op place) map[string]any {
	all := map[string]any{}
	responses, _ := op.child("responses")
	for _, status := range sorted(responses.object()) {
		if len(all) >= maxParams || strings.HasPrefix(status, "x-") {
			continue
		}
		of, _ := responses.child(status)
		cut := map[string]any{"description": ""}
		of, err := l.r.follow(ctx, of)
		if err == nil {
			cut["content"], err = l.content(ctx, l.response, of)
		}
		if err != nil {
			delete(cut, "content")
			l.response.fault("responses." + clip.Bytes(status, 20) + ": " + err.Error())
		}
		all[strings.ToUpper(status)] = cut
	}
	if v, ok := all["DEFAULT"]; ok {
		delete(all, "DEFAULT")
		all["default"] = v
	}
	return all
}

// servers are those of the operation, its path or the document.
func (l *loading) servers(item, op place) []any {
	for _, from := range []place{op, item, {node: l.doc.root}} {
		list, _ := from.object()["servers"].([]any)
		var all []any
		for _, one := range list[:min(len(list), maxParams)] {
			if m, ok := one.(map[string]any); ok {
				all = append(all, pick(m, "url", "variables"))
			}
		}
		if len(all) > 0 {
			return all
		}
	}
	return []any{map[string]any{"url": "/"}}
}

// security are the alternatives of the operation, or of the document.
func (l *loading) security(op place) (all []any, declared bool) {
	if all, declared = op.object()["security"].([]any); !declared {
		all, declared = l.doc.root["security"].([]any)
	}
	return all[:min(len(all), maxParams)], declared
}

// schemes are those that the alternatives name.
func (l *loading) schemes(ctx context.Context, alternatives []any) (map[string]any, error) {
	all := map[string]any{}
	for _, one := range alternatives {
		names, _ := one.(map[string]any)
		for name := range names {
			p, err := l.r.target(ctx, "", "#/components/securitySchemes/"+escapeFragment(name))
			if err == nil {
				p, err = l.r.follow(ctx, p)
			}
			if err != nil {
				return nil, agent.Invalid("", "its security names the scheme %q, which the document does not have", clip.Bytes(name, 100))
			}
			all[name] = pick(p.object(), "type", "name", "in", "scheme")
		}
	}
	return all, nil
}
