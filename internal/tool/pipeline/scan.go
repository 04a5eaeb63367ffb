package pipeline

import (
	"encoding/json"
	"fmt"

	"github.com/go-json-experiment/json/jsontext"
)

// The functions of this file walk through the JSON text of rows without decoding it: a million rows are read field by field, and a
// decoder per field costs ten times as much. They rely on what reading a dataset has checked (well-formed, no name twice); on anything
// else they answer with something wrong, but do not panic.

// skipSpace returns the position of the next byte that is no white space.
func skipSpace(b []byte, i int) int {
	for i < len(b) && (b[i] == ' ' || b[i] == '\n' || b[i] == '\r' || b[i] == '\t') {
		i++
	}
	return i
}

// skipString returns the position behind the string that begins at i, and whether it has escapes.
func skipString(b []byte, i int) (end int, escaped bool) {
	for i++; i < len(b); i++ {
		switch b[i] {
		case '"':
			return i + 1, escaped
		case '\\':
			escaped = true
			i++
		}
	}
	return len(b), escaped
}

// skipValue returns the position behind the value that begins at i.
func skipValue(b []byte, i int) int {
	depth := 0
	for i < len(b) {
		switch b[i] {
		case '"':
			i, _ = skipString(b, i)
		case '{', '[':
			depth++
			i++
		case '}', ']':
			depth--
			i++
		case ',', ':', ' ', '\n', '\r', '\t':
			i++
			continue
		default:
			i = skipWord(b, i)
		}
		if depth <= 0 {
			return i
		}
	}
	return len(b)
}

// skipWord returns the position behind a number, true, false or null.
func skipWord(b []byte, i int) int {
	for ; i < len(b); i++ {
		switch b[i] {
		case ',', ']', '}', ':', ' ', '\n', '\r', '\t':
			return i
		}
	}
	return i
}

// member is a member of an object: its name as written, without the quotes, and where its value is.
type member struct {
	name     []byte
	escaped  bool
	from, to int
}

// is reports whether the member has a name.
func (m *member) is(name string) bool {
	if !m.escaped {
		return string(m.name) == name
	}
	return m.text() == name
}

// text is the name, unescaped.
func (m *member) text() string {
	if !m.escaped {
		return string(m.name)
	}
	quoted := append(append(make([]byte, 0, len(m.name)+2), '"'), m.name...)
	plain, err := jsontext.AppendUnquote(nil, append(quoted, '"'))
	if err != nil {
		return string(m.name)
	}
	return string(plain)
}

// members walks through an object; i is behind the last member read.
type members struct {
	b []byte
	i int
}

func membersOf(object []byte) members { return members{b: object, i: 1} }

// next reads the next member; false at the end.
func (c *members) next(m *member) bool {
	i := skipSpace(c.b, c.i)
	if i < len(c.b) && c.b[i] == ',' {
		i = skipSpace(c.b, i+1)
	}
	if i >= len(c.b) || c.b[i] != '"' {
		return false
	}
	end, escaped := skipString(c.b, i)
	m.name, m.escaped = c.b[i+1:max(end-1, i+1)], escaped
	i = skipSpace(c.b, end)
	if i < len(c.b) && c.b[i] == ':' {
		i = skipSpace(c.b, i+1)
	}
	m.from = i
	c.i = skipValue(c.b, i)
	m.to = c.i
	return true
}

// elements walks through an array.
type elements struct {
	b []byte
	i int
}

func elementsOf(array []byte) elements { return elements{b: array, i: 1} }

// next returns where the next element is; false at the end.
func (c *elements) next() (from, to int, ok bool) {
	i := skipSpace(c.b, c.i)
	if i < len(c.b) && c.b[i] == ',' {
		i = skipSpace(c.b, i+1)
	}
	if i >= len(c.b) || c.b[i] == ']' {
		return 0, 0, false
	}
	c.i = skipValue(c.b, i)
	return i, c.i, c.i > i
}

// listOf splits an array of at most bound elements.
func listOf(array []byte, bound int) ([]json.RawMessage, error) {
	list := []json.RawMessage{}
	for c := elementsOf(array); ; {
		from, to, ok := c.next()
		if !ok {
			return list, nil
		}
		if len(list) == bound {
			return nil, fmt.Errorf("has more than %d values", bound)
		}
		list = append(list, array[from:to:to])
	}
}
