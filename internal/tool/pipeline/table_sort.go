package pipeline

import (
	"context"
	"encoding/json"
	"slices"
)

// tableSort orders rows, keeping the order of equal ones: {"step":"table_sort","field":"price","order":"asc"}, or "fields" for
// several keys, the first one first. Null and missing values come last in both directions.
type tableSort struct {
	keys  []path
	list  bool // given as fields
	order int  // 1 ascending, -1 descending
}

func (*tableSort) name() string { return "table_sort" }

func decodeTableSort(raw json.RawMessage) (step, error) {
	var in struct {
		Field  *string  `json:"field"`
		Fields []string `json:"fields"`
		Order  string   `json:"order"`
	}
	if err := decodeInto(raw, &in); err != nil {
		return nil, err
	}
	s := &tableSort{order: 1}
	switch in.Order {
	case "", "asc":
	case "desc":
		s.order = -1
	default:
		return nil, invalid("order", "want asc or desc, got %q", clip(in.Order))
	}
	switch {
	case in.Field == nil && in.Fields == nil:
		return nil, invalid("field", "is required")
	case in.Field != nil && in.Fields != nil:
		return nil, invalid("fields", "give field or fields, not both")
	case in.Field != nil:
		s.keys = []path{path(*in.Field)}
		return s, checkPath("field", *in.Field)
	}
	keys, err := paths(in.Fields)
	s.keys, s.list = keys, true
	return s, err
}

// sortable is a row with its keys read.
type sortable struct {
	row  row
	keys []value
}

func (s *tableSort) run(ctx context.Context, _ *run, rows []row) ([]row, error) {
	decorated := make([]sortable, len(rows))
	values := make([]value, len(rows)*len(s.keys))
	for i, r := range rows {
		if err := alive(ctx, i); err != nil {
			return nil, err
		}
		keys := values[i*len(s.keys) : (i+1)*len(s.keys)]
		for j, k := range s.keys {
			raw, _, err := k.find(r)
			if err != nil {
				return nil, err
			}
			keys[j] = valueOf(raw)
		}
		decorated[i] = sortable{row: r, keys: keys}
	}
	for j, k := range s.keys {
		if err := s.prepare(decorated, j, k, rows); err != nil {
			return nil, err
		}
	}
	if ctx.Err() != nil {
		return nil, ended(ctx)
	}
	slices.SortStableFunc(decorated, s.compare)
	out := make([]row, len(rows))
	for i := range decorated {
		out[i] = decorated[i].row
	}
	return out, nil
}

// prepare checks that some row has the key, and reads a column that holds nothing but numbers, some of them as strings, as numbers.
func (s *tableSort) prepare(rows []sortable, j int, key path, all []row) error {
	given, numeric := false, true
	for i := range rows {
		v := &rows[i].keys[j]
		given = given || v.kind != kindMissing
		numeric = numeric && (v.absent() || v.isNumeric())
	}
	if !given && len(rows) > 0 {
		field := "field"
		if s.list {
			field = indexed("fields", j)
		}
		return noSuchField(field, key, all)
	}
	if numeric {
		for i := range rows {
			rows[i].keys[j].toNumber()
		}
	}
	return nil
}

func (s *tableSort) compare(a, b sortable) int {
	for j := range a.keys {
		x, y := &a.keys[j], &b.keys[j]
		switch {
		case x.absent() && y.absent():
		case x.absent():
			return 1
		case y.absent():
			return -1
		default:
			if c := order(x, y); c != 0 {
				return s.order * c
			}
		}
	}
	return 0
}
