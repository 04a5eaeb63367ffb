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

// path names a field of a row: a name, or names joined by dots; in an array, a position. A field whose name itself has a dot is
// found first.
type path struct {
	text  string // all of it
	head  string // up to the first dot
	rest  *path  // behind the first dot; nil: there is none
	index int    // head as a position in an array; -1: it is none
}

// parsePath reads a path; field names it in the fault.
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
	head, rest, dotted := strings.Cut(text, ".")
	p := &path{text: text, head: head, index: arrayPosition(head)}
	if dotted {
		p.rest = newPath(rest)
	}
	return p
}

// arrayPosition returns a position in an array, digits without zeros before them; -1 for anything else.
func arrayPosition(text string) int {
	i, err := strconv.Atoi(text)
	if err != nil || strconv.Itoa(i) != text {
		return -1
	}
	return max(i, -1)
}

// find returns the value of a row at the path.
func (p *path) find(r row) (json.RawMessage, bool) {
	from, to, ok := p.span(r)
	if !ok {
		return nil, false
	}
	return r[from:to:to], true
}

// span says where the value at the path is.
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
			if p.rest != nil && m.Is(p.head) {
				from, to, ok = m.From, m.To, true
			}
		}
	case v[0] == '[' && p.index >= 0:
		from, to, ok = elementAt(v, p.index)
		if p.rest == nil {
			return from, to, ok
		}
	}
	if !ok {
		return 0, 0, false
	}
	in, out, ok := p.rest.span(v[from:to])
	return from + in, from + out, ok
}

// elementAt says where an element of an array is.
func elementAt(array []byte, n int) (from, to int, ok bool) {
	for c := dataset.ElementsOf(array); ; n-- {
		from, to, ok = c.Next()
		if !ok || n == 0 {
			return from, to, ok
		}
	}
}

// objectRow returns a row that must be an object. Now and then it checks the context.
func objectRow(ctx context.Context, rows []row, i int) (row, error) {
	if err := checkContext(ctx, i); err != nil {
		return nil, err
	}
	r := rows[i]
	if len(r) == 0 || r[0] != '{' {
		return nil, invalid("", "row %d is %s, not an object", i, describe(r))
	}
	return r, nil
}

// noSuchField is the fault of a path that no row has; it names those that the first row has, so that a model can correct itself.
func noSuchField(field string, p *path, rows []row) error {
	return invalid(field, "no row has a field %q; the first row has %s", clip.Bytes(p.text, maxQuote), fieldsOf(rows))
}

// fieldsOf lists the fields of the first row.
func fieldsOf(rows []row) string {
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

// elementName names an element of a list.
func elementName(field string, i int) string { return fmt.Sprintf("%s[%d]", field, i) }

// cellFault returns the fault of one value: the argument that led there, the row, counted from 0, and its field.
func cellFault(argument string, i int, p *path, format string, args ...any) *fault {
	return invalid(argument, "row %d, field %q: %s", i, clip.Bytes(p.text, maxQuote), fmt.Sprintf(format, args...))
}
