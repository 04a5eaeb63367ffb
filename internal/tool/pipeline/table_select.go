package pipeline

import (
	"context"
	"encoding/json"
	"slices"
)

// tableSelect keeps some fields, in the order asked for: {"step":"table_select","fields":["id","price.total as total"]}. Without "as"
// a path keeps its name: the result has a field "price.total". A row without a field gets null, so that all rows have the same shape.
type tableSelect struct{ columns []column }

func decodeTableSelect(raw json.RawMessage) (step, error) {
	var in struct {
		Fields []string `json:"fields"`
	}
	if err := decodeStrictly(raw, &in); err != nil {
		return nil, err
	}
	if len(in.Fields) == 0 {
		return nil, invalid("fields", "want at least one")
	}
	list, err := columns("fields", in.Fields)
	return &tableSelect{columns: list}, err
}

func (s *tableSelect) run(ctx context.Context, r *run, rows []row) ([]row, error) {
	seen := make([]bool, len(s.columns))
	w := r.newWriter(len(rows))
	names := 0 // bytes
	for j := range s.columns {
		names += len(s.columns[j].label)
	}
	for i := range rows {
		from, err := objectRow(ctx, rows, i)
		if err != nil {
			return nil, err
		}
		w.begin(names + len(from))
		for j := range s.columns {
			v, ok := s.columns[j].source.find(from)
			seen[j] = seen[j] || ok
			if !ok {
				v = null()
			}
			w.appendMember(s.columns[j].label, v)
		}
		w.close()
		if err := w.end(); err != nil {
			return nil, err
		}
	}
	if i := slices.Index(seen, false); i >= 0 && len(rows) > 0 {
		return nil, noSuchField(s.columns[i].field, s.columns[i].source, rows)
	}
	return w.rows, nil
}
