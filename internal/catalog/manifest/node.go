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

// String returns the name of the form with its article.
func (f form) String() string {
	return [...]string{"nothing", "a boolean", "a number", "a string", "an array", "an object"}[f]
}

// position is a position in a file. Both numbers begin at 1; 0 means unknown.
type position struct{ line, column int }

// node is a value of a document with its position.
type node struct {
	form      form
	text      string // of a string; of a number, in the decimal form of RFC 8785
	isInteger bool   // a number without fraction and exponent
	boolValue bool
	members   []member // of an object, in the order of the file, each name once
	items     []*node

	keyPos   position // of the member's name; zero for an item
	pos      position // of the value
	hasFault bool     // the value has a fault, so further checks ignore it
}

type member struct {
	name  string
	value *node
}

func textNode(s string, pos position) *node {
	return &node{form: formText, text: s, pos: pos, keyPos: pos}
}

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

// faultPosition returns the position for faults of the value: that of a scalar, or that of the name of a container.
func (n *node) faultPosition() position {
	if (n.form == formArray || n.form == formObject) && n.keyPos != (position{}) {
		return n.keyPos
	}
	return n.pos
}

// count returns the number of values in n, including n.
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

// clone returns a deep copy.
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

// value returns the value for the schema validator. It leaves out faulty members, and replaces faulty items by nil to keep the other indexes.
func (n *node) value() any {
	if n.hasFault {
		return nil
	}
	switch n.form {
	case formBool:
		return n.boolValue
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
			if !m.value.hasFault {
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

// find follows a path such as rules[2].when.expression and returns the last node that exists. hasFault reports whether a node on the path has a fault.
// Names may contain dots: the longest matching name wins.
func (n *node) find(path string) (last *node, hasFault bool) {
	last = n
	for {
		hasFault = hasFault || last.hasFault
		if path == "" {
			return last, hasFault
		}
		next, remaining := last.step(path)
		if next == nil {
			return last, hasFault
		}
		last, path = next, remaining
	}
}

// step follows the first element of a path, and returns the node and the remaining path. next is nil if there is no such node.
func (n *node) step(path string) (next *node, remaining string) {
	if n.form == formArray {
		digits, remaining, ok := strings.Cut(strings.TrimPrefix(path, "["), "]")
		i, err := strconv.Atoi(digits)
		if !ok || err != nil || i < 0 || i >= len(n.items) {
			return nil, ""
		}
		return n.items[i], remaining
	}
	path = strings.TrimPrefix(path, ".")
	longest := -1
	for _, m := range n.members {
		tail, ok := strings.CutPrefix(path, m.name)
		if ok && len(m.name) > longest && (tail == "" || tail[0] == '.' || tail[0] == '[') {
			next, remaining, longest = m.value, tail, len(m.name)
		}
	}
	return next, remaining
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

// JoinPath returns the path of a field of the value at path: "tools" and "[0].name" give "tools[0].name".
func JoinPath(path, field string) string {
	if strings.HasPrefix(field, "[") || field == "" {
		return path + field
	}
	return child(path, field)
}
