package openapi

import (
	"context"
	"maps"
	"slices"
	"strings"
)

// propertyUses holds, by name, the properties of one object that the document marks as belonging to the other side: readOnly in a request,
// writeOnly in a response. The properties of an object and its required names may be in different parts of an allOf, so they are collected
// from all parts before any part is translated. nil means that they are not collected yet.
type propertyUses map[string]propertyUse

// propertyUse says where else the document names a property.
type propertyUse struct {
	marked   bool // readOnly or writeOnly, whichever belongs to the other side
	unmarked bool // it is also declared without that mark
	required bool
}

// isOptional reports whether a property may be missing although the document requires it: "required" then binds the other side alone.
func (u propertyUses) isOptional(name string) bool { return u[name].marked && !u[name].unmarked }

// isForbidden reports whether a request may not have a property. A property that is both required and read-only may be given: real servers
// want the id of a reference.
func (u propertyUses) isForbidden(name string) bool { return u.isOptional(name) && !u[name].required }

// key returns a text that differs for each translation of one schema.
func (u propertyUses) key() string {
	var b strings.Builder
	for _, name := range sortedKeys(u) {
		b.WriteString("\x00" + name + "\x00")
		for _, flag := range []bool{u[name].unmarked, u[name].required} {
			if flag {
				b.WriteByte('1')
			} else {
				b.WriteByte('0')
			}
		}
	}
	return b.String()
}

// dropRequired removes from "required" the names that bind the other side alone.
func (u propertyUses) dropRequired(out map[string]any) {
	required, ok := out["required"].([]any)
	if !ok {
		return
	}
	left := slices.DeleteFunc(slices.Clone(required), func(v any) bool {
		name, isText := v.(string)
		return isText && u.isOptional(name)
	})
	if out["required"] = left; len(left) == 0 {
		delete(out, "required")
	}
}

// collectUses returns the uses of the properties of the object that a schema describes, through references and allOf. An alternative of a
// schema inherits the uses of that schema.
func (s *schemaSet) collectUses(ctx context.Context, n node, inherited propertyUses) propertyUses {
	all := propertyUses{}
	maps.Copy(all, inherited)
	queue, seen := []node{n}, map[string]bool{}
	for len(queue) > 0 && len(seen) < maxVisited {
		next := queue[0]
		queue = queue[1:]
		if s.inspected++; seen[next.id()] || s.inspected > maxInspected {
			continue
		}
		seen[next.id()] = true
		if ref, isRef := next.object()["$ref"].(string); isRef {
			if target, err := s.refs.target(ctx, next.file, ref); err == nil { // a broken reference is reported when it is translated
				queue = append(queue, target)
			}
			if s.refs.doc.is30 {
				continue
			}
		}
		s.addUses(ctx, next, all)
		queue = append(queue, next.elements("allOf")...)
	}
	maps.DeleteFunc(all, func(_ string, use propertyUse) bool { return !use.marked })
	return all
}

// addUses adds what one schema says of its properties.
func (s *schemaSet) addUses(ctx context.Context, n node, all propertyUses) {
	properties, _ := n.child("properties")
	for name := range properties.object() {
		property, _ := properties.child(name)
		use := all[name]
		if s.isOfOtherSide(ctx, property) {
			use.marked = true
		} else {
			use.unmarked = true
		}
		all[name] = use
	}
	for _, name := range uniqueStrings(n.object()["required"]) {
		if name, ok := name.(string); ok {
			use := all[name]
			use.required = true
			all[name] = use
		}
	}
}
