package dataset

import (
	"github.com/go-json-experiment/json/jsontext"
)

// The functions of this file walk through the JSON text of rows without decoding it: a million rows are read field by field, and a
// decoder for each field takes ten times as long. They rely on what reading a dataset has checked (well-formed, no name twice); on other
// text their results are wrong, but they do not panic.

// Member is a member of an object. Its value is from From to To.
type Member struct {
	From, To  int
	name      []byte // as it is written, without the quotes
	isEscaped bool
}

// Is reports whether the member has a name.
func (m *Member) Is(name string) bool {
	if !m.isEscaped {
		return string(m.name) == name
	}
	return m.Name() == name
}

// Lookup returns what a map has under the member's name, without making a string of most names.
func Lookup[V any](m *Member, byName map[string]V) (V, bool) {
	if m.isEscaped {
		v, ok := byName[m.Name()]
		return v, ok
	}
	v, ok := byName[string(m.name)]
	return v, ok
}

// Name returns the name, unescaped.
func (m *Member) Name() string {
	if !m.isEscaped {
		return string(m.name)
	}
	quoted := append(append(make([]byte, 0, len(m.name)+2), '"'), m.name...)
	text, err := jsontext.AppendUnquote(nil, append(quoted, '"'))
	if err != nil {
		return string(m.name)
	}
	return string(text)
}

// Members walks through an object.
type Members struct {
	text []byte
	end  int // of the last member read
}

// MembersOf returns the members of an object, from the first one.
func MembersOf(object []byte) Members { return Members{text: object, end: 1} }

// Next reads the next member into m. It returns false at the end.
func (c *Members) Next(m *Member) bool {
	i := c.Start()
	if i >= len(c.text) || c.text[i] != '"' {
		return false
	}
	end, isEscaped := skipString(c.text, i)
	m.name, m.isEscaped = c.text[i+1:max(end-1, i+1)], isEscaped
	i = SkipSpace(c.text, end)
	if i < len(c.text) && c.text[i] == ':' {
		i = SkipSpace(c.text, i+1)
	}
	m.From = i
	c.end = skipValue(c.text, i)
	m.To = c.end
	return true
}

// Start returns the position of the next member's name, or of the end of the object.
func (c *Members) Start() int { return skipComma(c.text, c.end) }

// Elements walks through an array.
type Elements struct {
	text []byte
	end  int // of the last element read
}

// ElementsOf returns the elements of an array, from the first one.
func ElementsOf(array []byte) Elements { return Elements{text: array, end: 1} }

// Next returns the position of the next element, and false at the end.
func (c *Elements) Next() (from, to int, ok bool) {
	i := skipComma(c.text, c.end)
	if i >= len(c.text) || c.text[i] == ']' {
		return 0, 0, false
	}
	c.end = skipValue(c.text, i)
	return i, c.end, c.end > i
}

func isSpace(c byte) bool { return c == ' ' || c == '\n' || c == '\t' || c == '\r' }

// SkipSpace returns the position of the next byte that is no white space.
func SkipSpace(b []byte, i int) int {
	for i < len(b) && isSpace(b[i]) {
		i++
	}
	return i
}

func skipComma(b []byte, i int) int {
	i = SkipSpace(b, i)
	if i < len(b) && b[i] == ',' {
		i = SkipSpace(b, i+1)
	}
	return i
}

// skipString returns the position behind the string that begins at i, and whether it has escapes.
func skipString(b []byte, i int) (end int, isEscaped bool) {
	for i++; i < len(b); i++ {
		switch b[i] {
		case '"':
			return i + 1, isEscaped
		case '\\':
			isEscaped = true
			i++
		}
	}
	return len(b), isEscaped
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
