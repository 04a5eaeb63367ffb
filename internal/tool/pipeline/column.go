package pipeline

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/turnstone-run/turnstone/internal/clip"
)

const maxFields = 100

// column is a field of the rows that a step returns.
type column struct {
	field  string // the argument that names the column
	source *path
	name   string
	label  []byte // the name as JSON, followed by a colon
}

// parseColumn parses "price.total" or "price.total as total". Without a name, the path is the name of the column.
func parseColumn(field, text string) (column, error) {
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
	c.name, c.label = name, memberLabel(name)
	return nil
}

// memberLabel returns the name of a member as JSON, followed by a colon.
func memberLabel(name string) []byte {
	quoted, _ := jsontext.AppendQuote(nil, name) // names in arguments and rows are valid UTF-8
	return append(quoted, ':')
}

// parseColumns parses a list of columns. Two columns with the same name are a fault.
func parseColumns(field string, list []string) ([]column, error) {
	if len(list) > maxFields {
		return nil, invalid(field, "has %d fields, at most %d", len(list), maxFields)
	}
	out := make([]column, len(list))
	for i, text := range list {
		c, err := parseColumn(elementName(field, i), text)
		if err != nil {
			return nil, err
		}
		out[i] = c
	}
	return out, checkDuplicates(out)
}

// checkDuplicates returns a fault if two columns have the same name.
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

// parsePaths parses a list of paths. A path that is given twice is a fault.
func parsePaths(field string, list []string) ([]*path, error) {
	switch {
	case len(list) == 0:
		return nil, invalid(field, "want at least one")
	case len(list) > maxFields:
		return nil, invalid(field, "has %d fields, at most %d", len(list), maxFields)
	}
	out := make([]*path, len(list))
	for i, text := range list {
		p, err := parsePath(elementName(field, i), text)
		if err != nil {
			return nil, err
		}
		if slices.Contains(list[:i], text) {
			return nil, invalid(elementName(field, i), "%q is given twice", clip.Bytes(text, maxQuote))
		}
		out[i] = p
	}
	return out, nil
}

// null returns the value of a missing field.
func null() json.RawMessage { return json.RawMessage("null") }
