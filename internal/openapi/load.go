package openapi

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/textproto"
	"slices"
	"strings"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/clip"
)

// maxParams is the maximum number of parameters of an operation, and likewise of media types, responses and security alternatives.
const maxParams = 500

// maxDescription bounds the part of a parameter's description that an error quotes, in bytes.
const maxDescription = 200

// operationLoader reads an operation and the schemas that it refers to.
type operationLoader struct {
	doc      *Document
	refs     *resolver
	request  *schemaSet
	response *schemaSet
	ignored  []string // names of header parameters
}

// load reads an operation. It uses only the part of the document that the operation refers to.
func (d *Document) load(ctx context.Context, entry *operationEntry, refs *resolver) (*Operation, error) {
	l := &operationLoader{doc: d, refs: refs, request: newSchemaSet(refs, true), response: newSchemaSet(refs, false)}
	n, ok := entry.item.child(entry.method)
	if !ok {
		return nil, agent.Errorf(agent.CodeInternal, "", "is not where it was found")
	}
	n, err := refs.resolve(ctx, n)
	switch {
	case err != nil:
		return nil, err
	case n.object() == nil:
		return nil, agent.Invalid("", "is a reference to something that is no operation")
	}
	o := &Operation{ID: entry.id, Method: strings.ToUpper(entry.method), Path: entry.path, base: d.url}
	if o.params, err = l.params(ctx, entry.item, n); err != nil {
		return nil, err
	}
	if body, exists := n.child("requestBody"); exists {
		if o.body, err = l.requestBody(ctx, body); err != nil {
			return nil, fmt.Errorf("requestBody: %w", err)
		}
	}
	o.responses = l.responses(ctx, n)
	if ctx.Err() != nil {
		return nil, agent.Interrupted(ctx, "read OpenAPI document")
	}
	if o.servers, err = l.servers(entry.item, n); err != nil {
		return nil, err
	}
	if o.Security, o.Declared, err = l.security(ctx, n); err != nil {
		return nil, err
	}
	o.ignored = l.ignored
	o.request, o.response = newValidator(l.request.defs), newValidator(l.response.defs)
	o.weight = l.request.values + l.response.values
	return o, nil
}

// decodeMembers decodes the named members of an object into a struct. It ignores members that are null.
func decodeMembers(object map[string]any, to any, names ...string) error {
	picked := map[string]any{}
	for _, name := range names {
		if v, ok := object[name]; ok && v != nil {
			picked[name] = v
		}
	}
	text, err := json.Marshal(picked)
	if err != nil {
		return agent.Errorf(agent.CodeInternal, "", "encode the operation: %w", err)
	}
	if err := json.Unmarshal(text, to); err != nil {
		return agent.Errorf(agent.CodeInvalid, "", "is malformed: %s", clip.Bytes(err.Error(), 500))
	}
	return nil
}

// params returns the parameters of the operation, and then those of its path item that it does not override.
func (l *operationLoader) params(ctx context.Context, item, op node) ([]*param, error) {
	var all []*param
	keys := map[string]bool{}
	for _, parent := range []node{op, item} {
		keysOfParent := map[string]bool{}
		for i, n := range parent.elements("parameters") {
			n, err := l.refs.resolve(ctx, n)
			if err != nil {
				return nil, fmt.Errorf("parameters[%d]: %w", i, err)
			}
			name, in, key := paramKey(n)
			switch {
			case key == "":
				return nil, agent.Invalid("", "parameters[%d] has no name, or no place that is known", i)
			case in == "header" && isIgnoredHeader(name):
				l.ignored = append(l.ignored, name)
				continue
			case keysOfParent[key]:
				return nil, agent.Invalid("", "has two parameters %q in %s", clip.Bytes(name, 100), in)
			case keys[key]:
				continue
			case len(all) >= maxParams:
				return nil, agent.Errorf(agent.CodeOverflow, "", "has more than %d parameters", maxParams)
			}
			keysOfParent[key], keys[key] = true, true
			p, err := l.param(ctx, n)
			if err != nil {
				return nil, fmt.Errorf("parameter %q in %s: %w", clip.Bytes(name, 100), in, err)
			}
			all = append(all, p)
		}
	}
	return all, nil
}

// paramKey returns the name and location of a parameter, and a key that identifies it. The key is "" if one of them is missing or invalid.
func paramKey(n node) (name, in, key string) {
	name, _ = n.object()["name"].(string)
	in, _ = n.object()["in"].(string)
	switch {
	case name == "" || !slices.Contains([]string{"path", "query", "header", "cookie"}, in):
		return name, in, ""
	case in == "header":
		return name, in, in + "." + textproto.CanonicalMIMEHeaderKey(name)
	default:
		return name, in, in + "." + name
	}
}

// isIgnoredHeader reports whether OpenAPI ignores a header parameter with a name, because the media types and the security of the document set the
// header.
func isIgnoredHeader(name string) bool {
	return slices.Contains([]string{"Accept", "Content-Type", "Authorization"}, textproto.CanonicalMIMEHeaderKey(name))
}

func (l *operationLoader) param(ctx context.Context, n node) (*param, error) {
	p := &param{}
	if err := decodeMembers(n.object(), p, "name", "in", "required", "style", "explode", "allowReserved"); err != nil {
		return nil, err
	}
	if text, ok := n.object()["description"].(string); ok {
		p.Description = clip.Bytes(text, maxDescription)
	}
	var err error
	if schema, exists := n.child("schema"); exists {
		p.schema, err = l.request.add(ctx, schema)
	} else {
		content, _ := n.child("content")
		if names := sortedKeys(content.object()); len(names) > 0 { // OpenAPI allows only one
			p.media = names[0]
			media, _ := content.child(p.media)
			_, p.schema, err = l.mediaSchema(ctx, l.request, media)
		}
	}
	p.types = l.request.typesAt(p.schema)
	return p, err
}

// mediaSchema resolves a media type, which may be a reference, and returns the name of its schema, "" if it has none.
func (l *operationLoader) mediaSchema(ctx context.Context, side *schemaSet, n node) (resolved node, name string, err error) {
	if n, err = l.refs.resolve(ctx, n); err != nil {
		return n, "", err
	}
	if schema, exists := n.child("schema"); exists {
		name, err = side.add(ctx, schema)
	}
	return n, name, err
}

// eachMedia calls handle for each media type of a request body or response, sorted by name.
func (l *operationLoader) eachMedia(ctx context.Context, side *schemaSet, n node, handle func(name string, media node, schema string) error) error {
	content, _ := n.child("content")
	if len(content.object()) > maxParams {
		return agent.Errorf(agent.CodeOverflow, "", "has more than %d media types", maxParams)
	}
	for _, name := range sortedKeys(content.object()) {
		n, _ := content.child(name)
		media, schema, err := l.mediaSchema(ctx, side, n)
		if err == nil {
			err = handle(name, media, schema)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", clip.Bytes(name, 100), err)
		}
	}
	return nil
}

func (l *operationLoader) requestBody(ctx context.Context, n node) (*body, error) {
	n, err := l.refs.resolve(ctx, n)
	if err != nil {
		return nil, err
	}
	b := &body{}
	if err := decodeMembers(n.object(), b, "required"); err != nil {
		return nil, err
	}
	var names []string
	err = l.eachMedia(ctx, l.request, n, func(name string, n node, schema string) error {
		names = append(names, name)
		kind, ok := kindOf(name)
		if !ok {
			return nil
		}
		m := media{name: name, kind: kind, schema: schema}
		m.members, m.isOpen = l.request.membersOf(schema)
		m.encoding, err = encodingsOf(n)
		b.media = append(b.media, m)
		return err
	})
	if err != nil {
		return nil, err
	}
	if len(b.media) == 0 && len(names) > 0 {
		return nil, agent.Invalid("", "is of types that are not written: %s", clip.Bytes(strings.Join(names, ", "), 300))
	}
	slices.SortStableFunc(b.media, func(x, y media) int {
		return cmp.Or(cmp.Compare(x.kind, y.kind), cmp.Compare(strings.Count(x.name, "*"), strings.Count(y.name, "*")), len(x.name)-len(y.name))
	})
	return b, nil
}

// encodingsOf returns the encodings of the properties of a form.
func encodingsOf(media node) (map[string]encoding, error) {
	all := map[string]encoding{}
	encodings, _ := media.child("encoding")
	for property, value := range encodings.object() {
		var e encoding
		object, _ := value.(map[string]any)
		if err := decodeMembers(object, &e, "contentType", "style", "explode", "allowReserved"); err != nil {
			return nil, err
		}
		all[property] = e
	}
	return all, nil
}

// responses returns the schemas of the responses, by status in upper case and by media type. An invalid response has no schemas, so that it does not
// prevent requests.
func (l *operationLoader) responses(ctx context.Context, op node) map[string]map[string]string {
	all := map[string]map[string]string{}
	responses, _ := op.child("responses")
	for _, status := range sortedKeys(responses.object()) {
		if len(all) >= maxParams || strings.HasPrefix(status, "x-") {
			continue
		}
		n, _ := responses.child(status)
		schemas := map[string]string{}
		n, err := l.refs.resolve(ctx, n)
		if err == nil {
			err = l.eachMedia(ctx, l.response, n, func(name string, _ node, schema string) error {
				schemas[name] = schema
				return nil
			})
		}
		if err != nil {
			schemas = nil
		}
		all[strings.ToUpper(status)] = schemas
	}
	return all
}

// servers returns the servers of the operation, or else of its path item, or else of the document.
func (l *operationLoader) servers(item, op node) ([]server, error) {
	for _, parent := range []node{op, item, {value: l.doc.root}} {
		list, _ := parent.object()["servers"].([]any)
		var all []server
		for _, element := range list[:min(len(list), maxParams)] {
			if object, ok := element.(map[string]any); ok {
				var s server
				if err := decodeMembers(object, &s, "url", "variables"); err != nil {
					return nil, err
				}
				all = append(all, s)
			}
		}
		if len(all) > 0 {
			return all, nil
		}
	}
	return []server{{URL: "/"}}, nil
}

// security returns the security requirements of the operation, or else of the document. isDeclared is false if neither has a list.
func (l *operationLoader) security(ctx context.Context, op node) (all []Requirement, isDeclared bool, err error) {
	list, isDeclared := op.object()["security"].([]any)
	if !isDeclared {
		list, isDeclared = l.doc.root["security"].([]any)
	}
	for _, element := range list[:min(len(list), maxParams)] {
		names, ok := element.(map[string]any)
		if !ok {
			return nil, isDeclared, agent.Errorf(agent.CodeInvalid, "", "is malformed: its security has an entry that is no object")
		}
		requirement := Requirement{}
		for _, name := range sortedKeys(names) {
			scheme, err := l.scheme(ctx, name)
			if err != nil {
				return nil, isDeclared, err
			}
			requirement = append(requirement, scheme)
		}
		all = append(all, requirement)
	}
	return all, isDeclared, nil
}

// scheme reads a security scheme of the document.
func (l *operationLoader) scheme(ctx context.Context, name string) (Scheme, error) {
	n, err := l.refs.walk(ctx, node{value: l.doc.root}, "components", "securitySchemes", name)
	if err == nil {
		n, err = l.refs.resolve(ctx, n)
	}
	if err != nil {
		return Scheme{}, agent.Invalid("", "its security names the scheme %q, which the document does not have", clip.Bytes(name, 100))
	}
	var in struct{ Type, Name, In, Scheme string }
	err = decodeMembers(n.object(), &in, "type", "name", "in", "scheme")
	return Scheme{Name: clip.Bytes(name, 100), Type: in.Type, In: in.In, Key: in.Name, Scheme: strings.ToLower(in.Scheme)}, err
}
