package openapi

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// propertyUses describes, by name, the properties of an object that are only for the other side: readOnly ones in a request, writeOnly ones in a
// response. The parts of an allOf may declare a property and require it separately, so uses are collected from all parts before any part is
// translated. nil means that they are not collected yet.
type propertyUses map[string]propertyUse

// propertyUse describes how the document declares a property.
type propertyUse struct {
	isMarked   bool // it is declared as readOnly in a request, as writeOnly in a response
	isUnmarked bool // it is also declared without that mark
	isRequired bool
}

// isOptional reports whether a property may be missing even if it is required, because the requirement applies only to the other side.
func (u propertyUses) isOptional(name string) bool { return u[name].isMarked && !u[name].isUnmarked }

// isForbidden reports whether a request must not have a property. A property that is both required and readOnly is allowed, because real servers
// expect the ID of a reference.
func (u propertyUses) isForbidden(name string) bool { return u.isOptional(name) && !u[name].isRequired }

// key returns a text that identifies the uses.
func (u propertyUses) key() string {
	var b strings.Builder
	for _, name := range sortedKeys(u) {
		fmt.Fprintf(&b, "\x00%s\x00%t %t", name, u[name].isUnmarked, u[name].isRequired)
	}
	return b.String()
}

// dropRequired removes from "required" the names that are required only for the other side.
func (u propertyUses) dropRequired(out map[string]any) {
	required, ok := out["required"].([]any)
	if !ok {
		return
	}
	remaining := slices.DeleteFunc(slices.Clone(required), func(v any) bool {
		name, isText := v.(string)
		return isText && u.isOptional(name)
	})
	out["required"] = remaining
	if len(remaining) == 0 {
		delete(out, "required")
	}
}

// collectUses returns the uses of the properties of the object that a schema describes, including references and allOf. inherited are the uses of
// the schema that n is an alternative of.
func (s *schemaSet) collectUses(ctx context.Context, n node, inherited propertyUses) propertyUses {
	all := propertyUses{}
	maps.Copy(all, inherited)
	queue, visited := []node{n}, map[string]bool{}
	for len(queue) > 0 && len(visited) < maxVisited {
		next := queue[0]
		queue = queue[1:]
		s.inspected++
		if visited[next.id()] || s.inspected > maxInspected {
			continue
		}
		visited[next.id()] = true
		if ref, isRef := next.object()["$ref"].(string); isRef {
			if target, err := s.refs.target(ctx, next.file, ref); err == nil { // a translation reports the error
				queue = append(queue, target)
			}
			if s.refs.doc.is30 {
				continue
			}
		}
		s.addUses(ctx, next, all)
		queue = append(queue, next.elements("allOf")...)
	}
	maps.DeleteFunc(all, func(_ string, use propertyUse) bool { return !use.isMarked })
	return all
}

// addUses adds the uses that a single schema declares.
func (s *schemaSet) addUses(ctx context.Context, n node, all propertyUses) {
	properties, _ := n.child("properties")
	for name := range properties.object() {
		property, _ := properties.child(name)
		use := all[name]
		if s.isOfOtherSide(ctx, property) {
			use.isMarked = true
		} else {
			use.isUnmarked = true
		}
		all[name] = use
	}
	for _, name := range uniqueStrings(n.object()["required"]) {
		if name, ok := name.(string); ok {
			use := all[name]
			use.isRequired = true
			all[name] = use
		}
	}
}
