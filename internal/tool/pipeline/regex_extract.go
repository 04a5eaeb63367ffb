package pipeline

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/go-json-experiment/json/jsontext"
)

const maxGroups = 100

// regexExtract adds the groups of a match as fields: {"step":"regex_extract","pattern":"(?P<area>\\d{3})-(\\d{4})","field":"phone"} adds area
// and phone_2. A group without a name gets the name of the field and its number, counted from 1. A pattern without groups adds the whole match
// as phone_match. Without a match the fields are null. Existing fields of the same names are replaced.
type regexExtract struct {
	field   *path
	pattern *pattern
	groups  []int    // the numbers of the groups to add; 0 is the whole match
	columns []column // their columns
}

func decodeRegexExtract(raw json.RawMessage) (step, error) {
	var in struct {
		Pattern *string `json:"pattern"`
		Field   *string `json:"field"`
	}
	if err := decodeFields(raw, &in); err != nil {
		return nil, err
	}
	switch {
	case in.Field == nil:
		return nil, invalid("field", "is required")
	case in.Pattern == nil:
		return nil, invalid("pattern", "is required")
	}
	field, err := parsePath("field", *in.Field)
	if err != nil {
		return nil, err
	}
	p, err := compilePattern("pattern", *in.Pattern)
	if err != nil {
		return nil, err
	}
	s := &regexExtract{field: field, pattern: p}
	return s, s.addColumns()
}

// addColumns sets the groups and their columns.
func (s *regexExtract) addColumns() error {
	if n := s.pattern.re.NumSubexp(); n > maxGroups {
		return invalid("pattern", "has %d groups, at most %d", n, maxGroups)
	}
	for i, name := range s.pattern.re.SubexpNames() {
		switch {
		case i == 0 && s.pattern.re.NumSubexp() > 0:
			continue
		case i == 0:
			name = s.field.text + "_match"
		case name == "":
			name = fmt.Sprintf("%s_%d", s.field.text, i)
		}
		c := column{field: "pattern"}
		if err := c.rename(name); err != nil {
			return err
		}
		s.groups, s.columns = append(s.groups, i), append(s.columns, c)
	}
	return checkDuplicates(s.columns)
}

func (s *regexExtract) run(ctx context.Context, r *run, rows []row) ([]row, error) {
	found := false
	w := r.newWriter(len(rows))
	values := make([]json.RawMessage, len(s.columns))
	var quoted []byte
	for i := range rows {
		from, err := objectRow(ctx, rows, i)
		if err != nil {
			return nil, err
		}
		raw, ok := s.field.find(from)
		found = found || ok
		text, err := s.matchText(i, raw)
		if err != nil {
			return nil, err
		}
		var match []int
		if text != nil {
			if err := s.pattern.checkCost(ctx, "field", i, s.field, text); err != nil {
				return nil, err
			}
			match = s.pattern.re.FindSubmatchIndex(text)
		}
		quoted = quoted[:0]
		for j, g := range s.groups {
			values[j] = null()
			if match == nil || match[2*g] < 0 {
				continue
			}
			start := len(quoted)
			quoted, _ = jsontext.AppendQuote(quoted, text[match[2*g]:match[2*g+1]]) // rows are valid UTF-8
			values[j] = quoted[start:]
		}
		if err := w.setMembers(from, s.columns, values); err != nil {
			return nil, err
		}
	}
	if !found && len(rows) > 0 {
		return nil, noSuchField("field", s.field, rows)
	}
	return w.rows, nil
}

// matchText returns the text that the pattern is matched against: the content of a string, or the literal of a number or boolean. It is nil
// for a null or missing value.
func (s *regexExtract) matchText(i int, raw json.RawMessage) ([]byte, error) {
	switch kindName(raw) {
	case "nothing", "null":
		return nil, nil
	case "a string":
		return unquote(raw), nil
	case "a number", "a boolean":
		return raw, nil
	default:
		return nil, valueFault("field", i, s.field, "is %s, not a text", kindName(raw))
	}
}
