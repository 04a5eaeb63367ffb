package pipeline

import (
	"context"
	"encoding/json"
	"slices"
)

// tableSelect keeps some fields in the given order: {"step":"table_select","fields":["id","price.total as total"]}. Without "as", the path
// is the name of the field: "price.total". A missing field becomes null, so that all rows have the same fields.
type tableSelect struct{ columns []column }

func decodeTableSelect(raw json.RawMessage) (step, error) {
	var in struct {
		Fields []string `json:"fields"`
	}
	if err := decodeFields(raw, &in); err != nil {
		return nil, err
	}
	if len(in.Fields) == 0 {
		return nil, invalid("fields", "want at least one")
	}
	list, err := parseColumns("fields", in.Fields)
	return &tableSelect{columns: list}, err
}

func (s *tableSelect) run(ctx context.Context, r *run, rows []row) ([]row, error) {
	found := make([]bool, len(s.columns)) // whether some row has the field
	w := r.newWriter(len(rows))
	labelBytes := 0
	for j := range s.columns {
		labelBytes += len(s.columns[j].label)
	}
	for i := range rows {
		from, err := objectRow(ctx, rows, i)
		if err != nil {
			return nil, err
		}
		w.beginRow(labelBytes + len(from))
		for j := range s.columns {
			v, ok := s.columns[j].source.find(from)
			found[j] = found[j] || ok
			if !ok {
				v = null()
			}
			w.appendMember(s.columns[j].label, v)
		}
		w.closeObject()
		if err := w.endRow(); err != nil {
			return nil, err
		}
	}
	if i := slices.Index(found, false); i >= 0 && len(rows) > 0 {
		return nil, noSuchField(s.columns[i].field, s.columns[i].source, rows)
	}
	return w.rows, nil
}
