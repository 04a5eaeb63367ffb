package openapi

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/getkin/kin-openapi/openapi3"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/clip"
)

// operation reads what kin-openapi has read.
func (l *loading) operation(f *found, doc *openapi3.T, declared bool) (*Operation, error) {
	read := doc.Paths.Value("/").Post
	o := &Operation{
		ID: f.id, Method: strings.ToUpper(f.method), Path: f.path, Declared: declared, responses: read.Responses, base: l.doc.url,
		request: newValidator(l.request.defs), response: newValidator(l.response.defs), faults: l.response.faults,
		weight: l.request.values + l.response.values, ignored: l.ignored,
	}
	for _, ref := range read.Parameters {
		p := &param{Parameter: ref.Value}
		if p.Schema != nil {
			p.schema = markOf(p.Schema)
		}
		for name, m := range p.Content {
			p.media, p.schema = name, markOf(m.Schema)
		}
		p.types = l.request.typesAt(p.schema)
		o.params = append(o.params, p)
	}
	if read.RequestBody != nil {
		b, err := l.bodyOf(read.RequestBody.Value)
		if err != nil {
			return nil, fmt.Errorf("requestBody: %w", err)
		}
		o.body = b
	}
	if read.Servers != nil {
		o.servers = *read.Servers
	}
	if declared && read.Security != nil {
		for _, alternative := range *read.Security {
			o.Security = append(o.Security, requirement(alternative, doc.Components.SecuritySchemes))
		}
	}
	return o, nil
}

func requirement(alternative openapi3.SecurityRequirement, schemes openapi3.SecuritySchemes) Requirement {
	all := Requirement{}
	for _, name := range sorted(alternative) {
		s := schemes[name].Value
		all = append(all, Scheme{Name: clip.Bytes(name, 100), Type: s.Type, In: s.In, Key: s.Name, Scheme: strings.ToLower(s.Scheme)})
	}
	return all
}

func markOf(ref *openapi3.SchemaRef) string {
	if ref == nil || ref.Value == nil {
		return ""
	}
	name, _ := ref.Value.Extensions[schemaMark].(string)
	return name
}

func (l *loading) bodyOf(read *openapi3.RequestBody) (*body, error) {
	b := &body{required: read.Required}
	for _, name := range sorted(read.Content) {
		kind, ok := kindOf(name)
		if !ok {
			continue
		}
		m := media{name: name, kind: kind, schema: markOf(read.Content[name].Schema), encoding: read.Content[name].Encoding}
		m.members, m.open = l.request.membersOf(m.schema)
		b.media = append(b.media, m)
	}
	if len(b.media) == 0 && len(read.Content) > 0 {
		return nil, agent.Invalid("", "is of types that are not written: %s", clip.Bytes(strings.Join(sorted(read.Content), ", "), 300))
	}
	slices.SortStableFunc(b.media, func(x, y media) int {
		return cmp.Or(cmp.Compare(x.kind, y.kind), cmp.Compare(strings.Count(x.name, "*"), strings.Count(y.name, "*")), len(x.name)-len(y.name))
	})
	return b, nil
}
