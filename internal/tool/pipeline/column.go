package pipeline

import (
	"encoding/json"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/turnstone-run/turnstone/internal/clip"
)

const maxFields = 100

// column is a field that a step gives to its result.
type column struct {
	field  string // where the arguments name it
	source *path
	name   string
	label  []byte // the name as JSON, with the colon behind it
}

// newColumn reads "price.total" or "price.total as total". Without a name the column is named like the path.
func newColumn(field, text string) (column, error) {
	name := text
	if i := strings.LastIndex(text, " as "); i > 0 {
		text, name = strings.TrimSpace(text[:i]), strings.TrimSpace(text[i+len(" as "):])
		if name == "" {
			return column{}, invalid(field, "gives no name behind as")
		}
	}
	source, err := parsePath(field, text)
	if err != nil {
		return column{}, err
	}
	c := column{field: field, source: source}
	return c, c.rename(name)
}

func (c *column) rename(name string) error {
	if len(name) > maxPath {
		return invalid(c.field, "gives a name of %d bytes, at most %d", len(name), maxPath)
	}
	c.name, c.label = name, label(name)
	return nil
}

// label is a member's name as JSON, with the colon.
func label(name string) []byte {
	quoted, _ := jsontext.AppendQuote(nil, name) // invalid UTF-8 is replaced; the arguments had none
	return append(quoted, ':')
}

// columns reads a list of columns; two of one name are a fault.
func columns(field string, list []string) ([]column, error) {
	if len(list) > maxFields {
		return nil, invalid(field, "has %d fields, at most %d", len(list), maxFields)
	}
	out := make([]column, len(list))
	for i, text := range list {
		c, err := newColumn(elementName(field, i), text)
		if err != nil {
			return nil, err
		}
		out[i] = c
	}
	return out, checkDuplicates(out)
}

// checkDuplicates refuses two columns of one name.
func checkDuplicates(list []column) error {
	seen := make(map[string]bool, len(list))
	for _, c := range list {
		if seen[c.name] {
			return invalid(c.field, "%q is given twice", clip.Bytes(c.name, maxQuote))
		}
		seen[c.name] = true
	}
	return nil
}

// paths reads a list of paths, none twice.
func paths(field string, list []string) ([]*path, error) {
	switch {
	case len(list) == 0:
		return nil, invalid(field, "want at least one")
	case len(list) > maxFields:
		return nil, invalid(field, "has %d fields, at most %d", len(list), maxFields)
	}
	out := make([]*path, len(list))
	seen := make(map[string]bool, len(list))
	for i, text := range list {
		p, err := parsePath(elementName(field, i), text)
		if err != nil {
			return nil, err
		}
		if seen[text] {
			return nil, invalid(elementName(field, i), "%q is given twice", clip.Bytes(text, maxQuote))
		}
		seen[text] = true
		out[i] = p
	}
	return out, nil
}

// null is the value of a field that is not there.
func null() json.RawMessage { return json.RawMessage("null") }
