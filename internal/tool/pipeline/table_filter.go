package pipeline

import (
	"context"
	"encoding/json"
)

// tableFilter keeps the rows for which its condition holds: {"step":"table_filter","condition":{"field":"price","op":"<","value":500}}.
type tableFilter struct{ condition condition }

func decodeTableFilter(raw json.RawMessage) (step, error) {
	var in struct {
		Condition json.RawMessage `json:"condition"`
	}
	if err := decodeFields(raw, &in); err != nil {
		return nil, err
	}
	if in.Condition == nil {
		return nil, invalid("condition", "is required")
	}
	c, err := parseCondition(in.Condition)
	return &tableFilter{condition: c}, err
}

func (s *tableFilter) run(ctx context.Context, _ *run, rows []row) ([]row, error) {
	kept := make([]row, 0, min(len(rows), checkEvery))
	for i := range rows {
		r, err := objectRow(ctx, rows, i)
		if err != nil {
			return nil, err
		}
		ok, err := s.condition.holds(ctx, i, r)
		if err != nil {
			return nil, err
		}
		if ok {
			kept = append(kept, r)
		}
	}
	return kept, s.condition.check(ctx, rows)
}
