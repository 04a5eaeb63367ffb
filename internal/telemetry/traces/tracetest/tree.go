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

// Named returns the spans with a name.
func Named(spans []Span, name string) []Span {
	return slices.DeleteFunc(slices.Clone(spans), func(s Span) bool { return s.Name != name })
}

// Tree returns spans as a tree with one span on each line, ordered by start. A line has the name and the attributes in keys. A span without a parent in
// spans is a root.
func Tree(spans []Span, keys ...string) string { return formatTree(spans, false, keys) }

// Timeline returns [Tree] with the start in milliseconds since the first span, and the duration.
func Timeline(spans []Span, keys ...string) string { return formatTree(spans, true, keys) }

func formatTree(spans []Span, withTimes bool, keys []string) string {
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
	isPrinted := map[string]bool{} // by id
	var walk func(parent, indent string)
	walk = func(parent, indent string) {
		siblings := children[parent]
		slices.SortStableFunc(siblings, func(a, b Span) int { return cmp.Or(a.Start.Compare(b.Start), cmp.Compare(a.Name, b.Name)) })
		for i := range siblings {
			s := &siblings[i]
			if withTimes {
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
			if !isPrinted[s.ID] { // a span may have been received twice
				isPrinted[s.ID] = true
				walk(s.ID, indent+"  ")
			}
		}
	}
	walk("", "")
	return b.String()
}
