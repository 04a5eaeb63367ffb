package routing

import (
	"fmt"
	"slices"
	"strings"

	"github.com/turnstone-run/turnstone/internal/clip"
)

// condition is a condition of a rule. test returns the reason why the condition does not hold, empty if it holds or explain is false.
type condition interface {
	test(f *facts, explain bool) (holds bool, reason string)
}

// attribute is a text of a request that a condition may compare with a list.
type attribute int

const (
	role attribute = iota
	page
	channel
	tenant
	attributeCount
)

func (a attribute) String() string {
	return [attributeCount]string{"role", "page", "channel", "tenant"}[a]
}

// listCondition holds if an attribute is in a list or has the prefix of an entry that ends in *.
type listCondition struct {
	attribute attribute
	entries   []string // as in the table
	exact     []string // entries without *
	prefixes  []string
	set       map[string]bool // exact, if it is long
}

// shortList is the length up to which a search of a list is faster than a map.
const shortList = 8

// index builds the set of a long list.
func (c *listCondition) index() {
	if len(c.exact) <= shortList {
		return
	}
	c.set = make(map[string]bool, len(c.exact))
	for _, e := range c.exact {
		c.set[e] = true
	}
}

func (c *listCondition) test(f *facts, explain bool) (holds bool, reason string) {
	value := f.attributes[c.attribute]
	if c.matches(value) {
		return true, ""
	}
	if explain {
		entries := joinList(c.entries, func(e string) string { return clip.Bytes(e, maxShown) })
		reason = fmt.Sprintf("%s %q is not one of %s", c.attribute, clip.Bytes(value, maxShown), entries)
	}
	return false, reason
}

func (c *listCondition) matches(value string) bool {
	if slices.ContainsFunc(c.prefixes, func(prefix string) bool { return strings.HasPrefix(value, prefix) }) {
		return true
	}
	if c.set != nil {
		return c.set[value]
	}
	return slices.Contains(c.exact, value)
}

// flagCondition holds if a flag has a value. A missing flag is false.
type flagCondition struct {
	name string
	want any
}

func (c *flagCondition) test(f *facts, explain bool) (holds bool, reason string) {
	value := f.request.Flags[c.name]
	if equal(c.want, value) || (value == nil && c.want == false) {
		return true, ""
	}
	if explain {
		reason = fmt.Sprintf("flag %s is %s, want %s", clip.Bytes(c.name, maxShown), formatRequestValue(value), formatValue(c.want))
	}
	return false, reason
}

// metadataCondition holds if the value at a path of the metadata equals one of several values.
type metadataCondition struct {
	path string
	want []any
}

func (c *metadataCondition) test(f *facts, explain bool) (holds bool, reason string) {
	value := lookup(f.request.Metadata, c.path)
	if slices.ContainsFunc(c.want, func(want any) bool { return equal(want, value) }) {
		return true, ""
	}
	if explain {
		prefix := ""
		if len(c.want) > 1 {
			prefix = "one of "
		}
		reason = fmt.Sprintf("metadata %s is %s, want %s%s", clip.Bytes(c.path, maxShown), formatRequestValue(value), prefix, joinList(c.want, formatValue))
	}
	return false, reason
}

// formatRequestValue returns a value of a request for an explanation.
func formatRequestValue(v any) string {
	if v == nil {
		return "not given"
	}
	return formatValue(v)
}

// maxListed bounds the entries of a list in an explanation.
const maxListed = 10

func joinList[T any](list []T, format func(T) string) string {
	var parts []string
	for _, v := range list[:min(len(list), maxListed)] {
		parts = append(parts, format(v))
	}
	out := strings.Join(parts, ", ")
	if len(list) > maxListed {
		out += fmt.Sprintf(" and %d more", len(list)-maxListed)
	}
	return out
}
