package manifest

import (
	"encoding/json"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// form is the JSON type of a value.
type form int

const (
	formNull form = iota
	formBool
	formNumber
	formText
	formArray
	formObject
)

// String returns the form with its article.
func (f form) String() string {
	return [...]string{"nothing", "a boolean", "a number", "a string", "an array", "an object"}[f]
}

// place is a position in a file, both numbers from 1; zero: unknown.
type place struct{ line, column int }

// node is one value of a document and its place.
type node struct {
	form    form
	text    string // of a string; of a number, in the decimal form of RFC 8785
	whole   bool   // a number without fraction and exponent
	truth   bool
	members []member // of an object, in the order of the file, each name once
	items   []*node

	key place // of the name whose member it is; zero for an item
	at  place
	bad bool // it has a fault and is left out of further checks
}

type member struct {
	name  string
	value *node
}

func textNode(s string, at place) *node { return &node{form: formText, text: s, at: at, key: at} }

// member returns the member of that name, nil if there is none.
func (n *node) member(name string) *node {
	if n == nil {
		return nil
	}
	for i := range n.members {
		if n.members[i].name == name {
			return n.members[i].value
		}
	}
	return nil
}

// where returns the place for a fault about the value: of a scalar itself, or of the name of a container, which is above it.
func (n *node) where() place {
	if (n.form == formArray || n.form == formObject) && n.key != (place{}) {
		return n.key
	}
	return n.at
}

// count returns the number of values, this one included.
func (n *node) count() int {
	c := 1
	for i := range n.members {
		c += n.members[i].value.count()
	}
	for _, item := range n.items {
		c += item.count()
	}
	return c
}

// clone returns a copy that defaults can be added to.
func (n *node) clone() *node {
	c := *n
	c.members = make([]member, len(n.members))
	for i, m := range n.members {
		c.members[i] = member{m.name, m.value.clone()}
	}
	c.items = make([]*node, len(n.items))
	for i, item := range n.items {
		c.items[i] = item.clone()
	}
	return &c
}

// value returns the value for the schema validator, without bad members. A bad item becomes nil, so that the others keep their index.
func (n *node) value() any {
	if n.bad {
		return nil
	}
	switch n.form {
	case formBool:
		return n.truth
	case formNumber:
		return json.Number(n.text)
	case formText:
		return n.text
	case formArray:
		list := make([]any, len(n.items))
		for i, item := range n.items {
			list[i] = item.value()
		}
		return list
	case formObject:
		object := make(map[string]any, len(n.members))
		for _, m := range n.members {
			if !m.value.bad {
				object[m.name] = m.value.value()
			}
		}
		return object
	default: // null
		return nil
	}
}

// canonical returns the value as canonical JSON (RFC 8785).
func (n *node) canonical() (json.RawMessage, error) {
	raw, err := json.Marshal(n.value())
	if err != nil {
		return nil, err
	}
	v := jsontext.Value(raw)
	if err := v.Canonicalize(); err != nil {
		return nil, err
	}
	return json.RawMessage(v), nil
}

// find follows a path such as rules[2].when.expression and returns the last node that exists. bad reports whether it passed a bad one. Names
// may contain dots: the longest one that fits counts.
func (n *node) find(path string) (last *node, bad bool) {
	last = n
	for {
		bad = bad || last.bad
		if path == "" {
			return last, bad
		}
		next, rest := last.step(path)
		if next == nil {
			return last, bad
		}
		last, path = next, rest
	}
}

func (n *node) step(path string) (next *node, rest string) {
	if n.form == formArray {
		digits, rest, ok := strings.Cut(strings.TrimPrefix(path, "["), "]")
		i, err := strconv.Atoi(digits)
		if !ok || err != nil || i < 0 || i >= len(n.items) {
			return nil, ""
		}
		return n.items[i], rest
	}
	path = strings.TrimPrefix(path, ".")
	longest := -1
	for _, m := range n.members {
		tail, ok := strings.CutPrefix(path, m.name)
		if ok && len(m.name) > longest && (tail == "" || tail[0] == '.' || tail[0] == '[') {
			next, rest, longest = m.value, tail, len(m.name)
		}
	}
	return next, rest
}

// child returns the path of a member.
func child(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}

// item returns the path of an item.
func item(path string, i int) string { return path + "[" + strconv.Itoa(i) + "]" }

// join returns the path of something below another path.
func join(path, below string) string {
	if strings.HasPrefix(below, "[") || below == "" {
		return path + below
	}
	return child(path, below)
}
