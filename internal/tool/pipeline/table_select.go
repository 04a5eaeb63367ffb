package pipeline

import (
	"bytes"
	"context"
	"encoding/json"
	"slices"
)

const maxFields = 100

// tableSelect keeps some fields, in the order asked for: {"step":"table_select","fields":["id","price.total"]}. A path keeps its
// name: the result has a field "price.total". A row without a field gets null, so that all rows have the same shape.
type tableSelect struct {
	fields []path
	names  []json.RawMessage // the fields' names as JSON
}

func (*tableSelect) name() string { return "table_select" }

func decodeTableSelect(raw json.RawMessage) (step, error) {
	var in struct {
		Fields []string `json:"fields"`
	}
	if err := decodeInto(raw, &in); err != nil {
		return nil, err
	}
	fields, err := paths(in.Fields)
	if err != nil {
		return nil, err
	}
	s := &tableSelect{fields: fields}
	for _, f := range fields {
		name, err := marshal(string(f))
		if err != nil {
			return nil, err
		}
		s.names = append(s.names, name)
	}
	return s, nil
}

// paths checks the list "fields".
func paths(list []string) ([]path, error) {
	switch {
	case len(list) == 0:
		return nil, invalid("fields", "want at least one")
	case len(list) > maxFields:
		return nil, invalid("fields", "has %d fields, at most %d", len(list), maxFields)
	}
	out := make([]path, len(list))
	for i, f := range list {
		if err := checkPath(indexed("fields", i), f); err != nil {
			return nil, err
		}
		if slices.Contains(list[:i], f) {
			return nil, invalid(indexed("fields", i), "%q is given twice", clip(f))
		}
		out[i] = path(f)
	}
	return out, nil
}

func (s *tableSelect) run(ctx context.Context, _ *run, rows []row) ([]row, error) {
	seen := make([]bool, len(s.fields))
	out := make([]row, len(rows))
	for i, r := range rows {
		if err := alive(ctx, i); err != nil {
			return nil, err
		}
		var b bytes.Buffer
		for j, f := range s.fields {
			v, ok, err := f.find(r)
			if err != nil {
				return nil, err
			}
			seen[j] = seen[j] || ok
			if !ok {
				v = json.RawMessage("null")
			}
			b.WriteByte("{,"[min(j, 1)])
			b.Write(s.names[j])
			b.WriteByte(':')
			b.Write(v)
		}
		b.WriteByte('}')
		out[i] = b.Bytes()
	}
	if i := slices.Index(seen, false); i >= 0 && len(rows) > 0 {
		return nil, noSuchField(indexed("fields", i), s.fields[i], rows)
	}
	return out, nil
}
