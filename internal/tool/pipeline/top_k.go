package pipeline

import (
	"context"
	"encoding/json"
	"math"
)

// topK keeps the first k rows: {"step":"top_k","k":3}.
type topK struct{ k int }

func decodeTopK(raw json.RawMessage) (step, error) {
	var in struct {
		K *float64 `json:"k"` // 3.0 is an integer in JSON Schema
	}
	if err := decodeFields(raw, &in); err != nil {
		return nil, err
	}
	switch {
	case in.K == nil:
		return nil, invalid("k", "is required")
	case *in.K != math.Trunc(*in.K):
		return nil, invalid("k", "want a whole number, got %v", *in.K)
	case *in.K < 1:
		return nil, invalid("k", "want at least 1, got %v", *in.K)
	}
	return &topK{k: int(min(*in.K, math.MaxInt32))}, nil
}

func (s *topK) run(_ context.Context, _ *run, rows []row) ([]row, error) {
	return rows[:min(s.k, len(rows))], nil
}
