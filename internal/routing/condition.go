package routing

import (
	"fmt"
	"slices"
	"strings"

	"github.com/turnstone-run/turnstone/internal/clip"
)

// condition must hold for a rule to match. Its reason says why it does not; it is empty if the condition holds or explain is not set.
type condition interface {
	test(f *facts, explain bool) (holds bool, reason string)
}

// word is a text of a request that a list may be about.
type word int

// The words.
const (
	role word = iota
	page
	channel
	tenant
	words // how many there are
)

func (w word) String() string {
	switch w {
	case role:
		return "role"
	case page:
		return "page"
	case channel:
		return "channel"
	case tenant:
		return "tenant"
	default:
		return "unknown"
	}
}

// oneOf holds if a word is in a list, or begins like an entry that ends in *.
type oneOf struct {
	word     word
	entries  []string // as written
	exact    []string
	prefixes []string
	set      map[string]struct{} // exact, when it is long
}

// shortList is the length up to which a search of the list is faster than a map.
const shortList = 8

// index makes a set of a long list.
func (o *oneOf) index() {
	if len(o.exact) <= shortList {
		return
	}
	o.set = make(map[string]struct{}, len(o.exact))
	for _, e := range o.exact {
		o.set[e] = struct{}{}
	}
}

func (o *oneOf) test(f *facts, explain bool) (holds bool, reason string) {
	got := f.words[o.word]
	if o.has(got) {
		return true, ""
	}
	if explain {
		entries := enumerate(o.entries, func(e string) string { return clip.Bytes(e, maxShown) })
		reason = fmt.Sprintf("%s %q is not one of %s", o.word, clip.Bytes(got, maxShown), entries)
	}
	return false, reason
}

func (o *oneOf) has(got string) bool {
	for _, p := range o.prefixes {
		if strings.HasPrefix(got, p) {
			return true
		}
	}
	if o.set != nil {
		_, ok := o.set[got]
		return ok
	}
	return slices.Contains(o.exact, got)
}

// flagIs holds if a flag has a value.
type flagIs struct {
	name string
	want any
}

func (c *flagIs) test(f *facts, explain bool) (holds bool, reason string) {
	got := f.request.Flags[c.name]
	if equal(c.want, got) || got == nil && c.want == false {
		return true, ""
	}
	if explain {
		reason = fmt.Sprintf("flag %s is %s, want %s", clip.Bytes(c.name, maxShown), showGiven(got), show(c.want))
	}
	return false, reason
}

// metadataIs holds if the value at a path is one of several.
type metadataIs struct {
	path string
	want []any
}

func (c *metadataIs) test(f *facts, explain bool) (holds bool, reason string) {
	got := lookup(f.request.Metadata, c.path)
	for _, want := range c.want {
		if equal(want, got) {
			return true, ""
		}
	}
	if explain {
		of := ""
		if len(c.want) > 1 {
			of = "one of "
		}
		reason = fmt.Sprintf("metadata %s is %s, want %s%s", clip.Bytes(c.path, maxShown), showGiven(got), of, enumerate(c.want, show))
	}
	return false, reason
}

// showGiven returns a value of a request for people.
func showGiven(v any) string {
	if v == nil {
		return "not given"
	}
	return show(v)
}

// maxListed is how many entries of a list an explanation has.
const maxListed = 10

func enumerate[T any](list []T, show func(T) string) string {
	var b strings.Builder
	for i, v := range list {
		if i == maxListed {
			fmt.Fprintf(&b, " and %d more", len(list)-maxListed)
			break
		}
		if i > 0 {
			b.WriteString(", ")
		}
		b.WriteString(show(v))
	}
	return b.String()
}
