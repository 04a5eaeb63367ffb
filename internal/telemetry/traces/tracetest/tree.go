package tracetest

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
)

// InTrace returns the spans of one trace.
func InTrace(spans []Span, id string) []Span {
	return slices.DeleteFunc(slices.Clone(spans), func(s Span) bool { return s.Trace != id })
}

// Named returns the spans of a name.
func Named(spans []Span, name string) []Span {
	return slices.DeleteFunc(slices.Clone(spans), func(s Span) bool { return s.Name != name })
}

// Tree prints spans by parent and start, one a line, with attributes behind the names where keys asks for them. A span whose parent is not
// among them is printed as a root.
func Tree(spans []Span, keys ...string) string { return printed(spans, false, keys) }

// Timeline is the same with the milliseconds from the first span, and how long each took.
func Timeline(spans []Span, keys ...string) string { return printed(spans, true, keys) }

func printed(spans []Span, times bool, keys []string) string {
	ids := map[string]bool{}
	var first time.Time
	for i := range spans {
		ids[spans[i].ID] = true
		if first.IsZero() || spans[i].Start.Before(first) {
			first = spans[i].Start
		}
	}
	children := map[string][]Span{}
	for i := range spans {
		parent := spans[i].Parent
		if !ids[parent] {
			parent = ""
		}
		children[parent] = append(children[parent], spans[i])
	}
	var b strings.Builder
	seen := map[string]bool{}
	var walk func(parent, indent string)
	walk = func(parent, indent string) {
		below := children[parent]
		slices.SortStableFunc(below, func(a, b Span) int { return cmp.Or(a.Start.Compare(b.Start), cmp.Compare(a.Name, b.Name)) })
		for i := range below {
			s := &below[i]
			if times {
				fmt.Fprintf(&b, "%7.1f %8.1f ms  ", float64(s.Start.Sub(first).Microseconds())/1000, float64(s.End.Sub(s.Start).Microseconds())/1000)
			}
			b.WriteString(indent + s.Name)
			if s.Error {
				b.WriteString(" !")
			}
			for _, k := range keys {
				if v, ok := s.Attributes[k]; ok {
					fmt.Fprintf(&b, " %s=%v", k[strings.LastIndex(k, ".")+1:], v)
				}
			}
			b.WriteByte('\n')
			if !seen[s.ID] { // an id that came twice has its children once
				seen[s.ID] = true
				walk(s.ID, indent+"  ")
			}
		}
	}
	walk("", "")
	return b.String()
}
