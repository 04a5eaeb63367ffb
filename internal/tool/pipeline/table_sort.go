package pipeline

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"

	"github.com/turnstone-run/turnstone/internal/clip"
)

// tableSort sorts rows by one field, {"step":"table_sort","field":"price","order":"asc"}, or by several in "fields". Equal rows keep their
// order. Null and missing values come last in both directions.
type tableSort struct {
	keys   []*path
	isList bool // the keys are given as "fields"
	order  int  // 1 ascending, -1 descending
}

func decodeTableSort(raw json.RawMessage) (step, error) {
	var in struct {
		Field  *string  `json:"field"`
		Fields []string `json:"fields"`
		Order  string   `json:"order"`
	}
	if err := decodeFields(raw, &in); err != nil {
		return nil, err
	}
	s := &tableSort{order: 1}
	switch in.Order {
	case "", "asc":
	case "desc":
		s.order = -1
	default:
		return nil, invalid("order", "want asc or desc, got %q", clip.Bytes(in.Order, maxQuote))
	}
	switch {
	case in.Field == nil && in.Fields == nil:
		return nil, invalid("field", "is required")
	case in.Field != nil && in.Fields != nil:
		return nil, invalid("fields", "give field or fields, not both")
	case in.Field != nil:
		key, err := parsePath("field", *in.Field)
		s.keys = []*path{key}
		return s, err
	}
	keys, err := parsePaths("fields", in.Fields)
	s.keys, s.isList = keys, true
	return s, err
}

func (s *tableSort) run(ctx context.Context, _ *run, rows []row) ([]row, error) {
	columns := make([][]value, len(s.keys))
	for j, key := range s.keys {
		values, err := s.keyValues(ctx, j, key, rows)
		if err != nil {
			return nil, err
		}
		columns[j] = values
	}
	hasEnded := false
	order := make([]int32, len(rows))
	for i := range order {
		order[i] = int32(i)
	}
	comparisons := 0
	slices.SortFunc(order, func(a, b int32) int {
		if comparisons++; !hasEnded && comparisons%checkEvery == 0 && ctx.Err() != nil {
			hasEnded = true
		}
		if hasEnded {
			return 0 // makes the sort end soon
		}
		return cmp.Or(s.compareRows(columns, int(a), int(b)), cmp.Compare(a, b))
	})
	if hasEnded {
		return nil, contextError(ctx)
	}
	out := make([]row, len(rows))
	for i, from := range order {
		out[i] = rows[from]
	}
	return out, nil
}

// keyValues returns the values of key j. If all of them are numbers or numeric strings, it returns numbers. A key that no row has is a fault.
func (s *tableSort) keyValues(ctx context.Context, j int, key *path, rows []row) ([]value, error) {
	values := make([]value, len(rows))
	found, numeric := false, true
	for i := range rows {
		r, err := objectRow(ctx, rows, i)
		if err != nil {
			return nil, err
		}
		raw, ok := key.find(r)
		values[i] = valueOf(raw)
		found = found || ok
		numeric = numeric && (values[i].isAbsent() || values[i].isNumeric())
	}
	if !found && len(rows) > 0 {
		field := "field"
		if s.isList {
			field = elementName("fields", j)
		}
		return nil, noSuchField(field, key, rows)
	}
	if numeric {
		for i := range values {
			values[i].toNumber()
		}
	}
	return values, nil
}

// compareRows compares rows a and b by their values in the columns.
func (s *tableSort) compareRows(columns [][]value, a, b int) int {
	for _, values := range columns {
		x, y := &values[a], &values[b]
		switch {
		case x.isAbsent() && y.isAbsent():
		case x.isAbsent():
			return 1
		case y.isAbsent():
			return -1
		default:
			if c := compareValues(x, y); c != 0 {
				return s.order * c
			}
		}
	}
	return 0
}
