package pipeline

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"

	"github.com/turnstone-run/turnstone/internal/clip"
)

// tableSort orders rows, keeping the order of equal ones: {"step":"table_sort","field":"price","order":"asc"}, or "fields" for
// several keys, the first one first. Null and missing values come last in both directions.
type tableSort struct {
	keys  []*path
	list  bool // given as fields
	order int  // 1 ascending, -1 descending
}

func decodeTableSort(raw json.RawMessage) (step, error) {
	var in struct {
		Field  *string  `json:"field"`
		Fields []string `json:"fields"`
		Order  string   `json:"order"`
	}
	if err := decodeStrictly(raw, &in); err != nil {
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
	keys, err := paths("fields", in.Fields)
	s.keys, s.list = keys, true
	return s, err
}

func (s *tableSort) run(ctx context.Context, _ *run, rows []row) ([]row, error) {
	table := make([][]value, len(s.keys))
	for j, key := range s.keys {
		values, err := s.read(ctx, j, key, rows)
		if err != nil {
			return nil, err
		}
		table[j] = values
	}
	ended := false
	order := make([]int32, len(rows))
	for i := range order {
		order[i] = int32(i)
	}
	steps := 0
	slices.SortFunc(order, func(a, b int32) int {
		if steps++; !ended && steps%checkEvery == 0 && ctx.Err() != nil {
			ended = true
		}
		if ended {
			return 0 // the sort ends soon
		}
		return cmp.Or(s.compare(table, int(a), int(b)), cmp.Compare(a, b))
	})
	if ended {
		return nil, contextError(ctx)
	}
	out := make([]row, len(rows))
	for i, from := range order {
		out[i] = rows[from]
	}
	return out, nil
}

// read returns the values of a key. Some row must have it; one that holds nothing but numbers, some of them as strings, is read as numbers.
func (s *tableSort) read(ctx context.Context, j int, key *path, rows []row) ([]value, error) {
	values := make([]value, len(rows))
	given, numeric := false, true
	for i := range rows {
		r, err := objectRow(ctx, rows, i)
		if err != nil {
			return nil, err
		}
		raw, ok := key.find(r)
		values[i] = valueOf(raw)
		given = given || ok
		numeric = numeric && (values[i].isAbsent() || values[i].isNumeric())
	}
	if !given && len(rows) > 0 {
		field := "field"
		if s.list {
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

func (s *tableSort) compare(table [][]value, a, b int) int {
	for _, values := range table {
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
