package pipeline

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/go-json-experiment/json/jsontext"
)

const maxGroups = 100

// regexExtract adds what the groups of a pattern match to each row: {"step":"regex_extract","pattern":"(?P<area>\\d{3})-(\\d{4})",
// "field":"phone"} adds area and phone_2. A group without a name is called field_n, by its number from 1; a pattern without groups
// gives all that it matched as field_match. Where nothing matches they are null. A field of that name that a row has is replaced.
type regexExtract struct {
	field   *path
	pattern *pattern
	groups  []int // of the pattern's match
	names   []column
}

func decodeRegexExtract(raw json.RawMessage) (step, error) {
	var in struct {
		Pattern *string `json:"pattern"`
		Field   *string `json:"field"`
	}
	if err := decodeStrictly(raw, &in); err != nil {
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
	p, err := compile("pattern", *in.Pattern)
	if err != nil {
		return nil, err
	}
	s := &regexExtract{field: field, pattern: p}
	return s, s.nameGroups()
}

func (s *regexExtract) nameGroups() error {
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
		s.groups, s.names = append(s.groups, i), append(s.names, c)
	}
	return checkDuplicates(s.names)
}

func (s *regexExtract) run(ctx context.Context, r *run, rows []row) ([]row, error) {
	seen := false
	w := r.newWriter(len(rows))
	values := make([]json.RawMessage, len(s.names))
	var quoted []byte
	for i := range rows {
		from, err := objectRow(ctx, rows, i)
		if err != nil {
			return nil, err
		}
		raw, ok := s.field.find(from)
		seen = seen || ok
		text, err := s.text(i, raw)
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
			quoted, _ = jsontext.AppendQuote(quoted, text[match[2*g]:match[2*g+1]]) // invalid UTF-8 is replaced: a row has none
			values[j] = quoted[start:]
		}
		if err := w.setMembers(from, s.names, values); err != nil {
			return nil, err
		}
	}
	if !seen && len(rows) > 0 {
		return nil, noSuchField("field", s.field, rows)
	}
	return w.rows, nil
}

// text is what the pattern is matched against: a string's content, or how a number or boolean is written; nil for null and nothing.
func (s *regexExtract) text(i int, raw json.RawMessage) ([]byte, error) {
	switch describe(raw) {
	case "nothing", "null":
		return nil, nil
	case "a string":
		return unquote(raw), nil
	case "a number", "a boolean":
		return raw, nil
	default:
		return nil, cellFault("field", i, s.field, "is %s, not a text", describe(raw))
	}
}
