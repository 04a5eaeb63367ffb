package routing

import (
	"fmt"
	"slices"
	"strings"

	"github.com/turnstone-run/turnstone/internal/clip"
)

// condition is one thing that must hold for a rule to match. Its reason says for people why it does not; it is empty when it does,
// or when nobody asked to explain.
type condition interface {
	test(f *facts, explain bool) (holds bool, reason string)
}

// word is one of the texts that lists are about.
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

// oneOf holds when a word is one of a list, or begins like an entry that ends in *.
type oneOf struct {
	word     word
	entries  []string // as written
	exact    []string
	prefixes []string
	set      map[string]struct{} // exact, when it is long
}

// shortList is up to where looking at each entry beats a map.
const shortList = 8

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

// flagIs holds when a flag has a value.
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
		reason = fmt.Sprintf("flag %s is %s, want %s", clip.Bytes(c.name, maxShown), given(got), show(c.want))
	}
	return false, reason
}

// metadataIs holds when what is at a path is one of some values.
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
		reason = fmt.Sprintf("metadata %s is %s, want %s%s", clip.Bytes(c.path, maxShown), given(got), of, enumerate(c.want, show))
	}
	return false, reason
}

// given shows what a request holds.
func given(v any) string {
	if v == nil {
		return "not given"
	}
	return show(v)
}

// maxListed bounds how much of a list an explanation tells.
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
