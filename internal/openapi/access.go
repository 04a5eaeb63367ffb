package openapi

import (
	"context"
	"maps"
	"slices"
	"strings"
)

// access holds, by name, the properties of one object that the document marks as belonging to the other side: readOnly in a request,
// writeOnly in a response. An object's properties and its required names may stand in different parts of an allOf, so they are collected
// from all parts before any of them is translated. nil: not collected yet.
type access map[string]propertyUse

// propertyUse says where else the document names a property.
type propertyUse struct {
	marked   bool // readOnly or writeOnly, whichever belongs to the other side
	plain    bool // it is also declared without that mark
	required bool
}

// optional reports whether a property need not be given although the document requires it: "required" then binds the other side alone.
func (a access) optional(name string) bool { return a[name].marked && !a[name].plain }

// refused reports whether a request may not have a property. One that the document both requires and marks as read-only may be given: real
// servers want the id of a reference.
func (a access) refused(name string) bool { return a.optional(name) && !a[name].required }

// key tells apart the translations of one schema.
func (a access) key() string {
	var b strings.Builder
	for _, name := range sorted(a) {
		b.WriteString("\x00" + name + "\x00")
		for _, flag := range []bool{a[name].plain, a[name].required} {
			if flag {
				b.WriteByte('1')
			} else {
				b.WriteByte('0')
			}
		}
	}
	return b.String()
}

// accessOf collects the properties of the object that a schema describes, through references and allOf. An alternative of a schema inherits
// what was collected of that schema.
func (s *schemas) accessOf(ctx context.Context, p place, inherited access) access {
	all := access{}
	maps.Copy(all, inherited)
	queue, seen := []place{p}, map[string]bool{}
	for len(queue) > 0 && len(seen) < maxShape {
		next := queue[0]
		queue = queue[1:]
		if s.looked++; seen[next.where()] || s.looked > maxLooked {
			continue
		}
		seen[next.where()] = true
		object := next.object()
		if ref, isRef := object["$ref"].(string); isRef {
			if target, err := s.r.target(ctx, next.file, ref); err == nil { // a broken reference is told when it is translated
				queue = append(queue, target)
			}
			if s.r.doc.is30 {
				continue
			}
		}
		s.collect(ctx, next, all)
		parts, _ := next.child("allOf")
		list, _ := parts.node.([]any)
		for i, node := range list {
			queue = append(queue, parts.element(i, node))
		}
	}
	maps.DeleteFunc(all, func(_ string, use propertyUse) bool { return !use.marked })
	return all
}

// collect adds what one schema says of its properties.
func (s *schemas) collect(ctx context.Context, p place, all access) {
	properties, _ := p.child("properties")
	for name := range properties.object() {
		property, _ := properties.child(name)
		use := all[name]
		if s.foreign(ctx, property) {
			use.marked = true
		} else {
			use.plain = true
		}
		all[name] = use
	}
	for _, name := range stringsOf(p.object()["required"]) {
		if name, ok := name.(string); ok {
			use := all[name]
			use.required = true
			all[name] = use
		}
	}
}

// dropRequired takes out of "required" what binds the other side alone.
func (a access) dropRequired(out map[string]any) {
	required, ok := out["required"].([]any)
	if !ok {
		return
	}
	left := slices.DeleteFunc(slices.Clone(required), func(v any) bool {
		name, isText := v.(string)
		return isText && a.optional(name)
	})
	if out["required"] = left; len(left) == 0 {
		delete(out, "required")
	}
}
