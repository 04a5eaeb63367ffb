package pipeline

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/turnstone-run/turnstone/internal/clip"
	"github.com/turnstone-run/turnstone/internal/dataset"
)

const maxPath = 500 // bytes

// path leads to a value in a row: names of members and indexes of elements, joined by dots. A member whose name is the whole path, dots
// included, takes precedence.
type path struct {
	text  string
	head  string // the part before the first dot
	tail  *path  // the part after the first dot; nil: there is no dot
	index int    // head as the index of an element; -1: it is no index
}

// parsePath parses a path. field names it in the fault.
func parsePath(field, text string) (*path, error) {
	switch {
	case text == "":
		return nil, invalid(field, "is empty")
	case len(text) > maxPath:
		return nil, invalid(field, "is %d bytes, at most %d", len(text), maxPath)
	}
	return newPath(text), nil
}

func newPath(text string) *path {
	head, tail, hasDot := strings.Cut(text, ".")
	p := &path{text: text, head: head, index: parseIndex(head)}
	if hasDot {
		p.tail = newPath(tail)
	}
	return p
}

// parseIndex returns the index of an element, -1 if the text is none. An index has no sign and no leading zeros.
func parseIndex(text string) int {
	i, err := strconv.Atoi(text)
	if err != nil || strconv.Itoa(i) != text {
		return -1
	}
	return max(i, -1)
}

// find returns the value at the path in a row.
func (p *path) find(r row) (json.RawMessage, bool) {
	from, to, ok := p.span(r)
	if !ok {
		return nil, false
	}
	return r[from:to:to], true
}

// span returns the position of the value at the path in a JSON value.
func (p *path) span(v []byte) (from, to int, ok bool) {
	switch {
	case len(v) == 0:
		return 0, 0, false
	case v[0] == '{':
		var m dataset.Member
		for c := dataset.MembersOf(v); c.Next(&m); {
			if m.Is(p.text) {
				return m.From, m.To, true
			}
			if p.tail != nil && m.Is(p.head) {
				from, to, ok = m.From, m.To, true
			}
		}
	case v[0] == '[' && p.index >= 0:
		from, to, ok = elementAt(v, p.index)
		if p.tail == nil {
			return from, to, ok
		}
	}
	if !ok {
		return 0, 0, false
	}
	start, end, ok := p.tail.span(v[from:to])
	return from + start, from + end, ok
}

// elementAt returns the position of an element of an array.
func elementAt(array []byte, n int) (from, to int, ok bool) {
	for c := dataset.ElementsOf(array); ; n-- {
		from, to, ok = c.Next()
		if !ok || n == 0 {
			return from, to, ok
		}
	}
}

// objectRow returns row i, or a fault if it is no object. Now and then it checks the context.
func objectRow(ctx context.Context, rows []row, i int) (row, error) {
	if err := checkContext(ctx, i); err != nil {
		return nil, err
	}
	r := rows[i]
	if len(r) == 0 || r[0] != '{' {
		return nil, invalid("", "row %d is %s, not an object", i, kindName(r))
	}
	return r, nil
}

// noSuchField returns the fault of a path that no row has. It lists the fields of the first row, so that a model can correct the path.
func noSuchField(field string, p *path, rows []row) error {
	return invalid(field, "no row has a field %q; the first row has %s", clip.Bytes(p.text, maxQuote), listFields(rows))
}

// listFields returns the names of the first row's fields as a text.
func listFields(rows []row) string {
	var names []string
	if len(rows) > 0 && rows[0][0] == '{' {
		var m dataset.Member
		for c := dataset.MembersOf(rows[0]); len(names) < 30 && c.Next(&m); {
			names = append(names, clip.Bytes(m.Name(), maxQuote))
		}
	}
	if len(names) == 0 {
		return "none"
	}
	slices.Sort(names)
	return strings.Join(names, ", ")
}

// elementName returns the name of an element of a list in faults.
func elementName(field string, i int) string { return fmt.Sprintf("%s[%d]", field, i) }

// valueFault returns the fault of the value at a path of row i. argument is the argument with the path.
func valueFault(argument string, i int, p *path, format string, args ...any) *fault {
	return invalid(argument, "row %d, field %q: %s", i, clip.Bytes(p.text, maxQuote), fmt.Sprintf(format, args...))
}
