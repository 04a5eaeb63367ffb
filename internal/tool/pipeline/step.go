package pipeline

import (
	"context"
	"encoding/json"
)

// row is one JSON value as its source wrote it.
type row = json.RawMessage

// step is one primitive with its arguments, ready to run. One step value serves one call.
type step interface {
	name() string
	run(ctx context.Context, r *run, rows []row) ([]row, error)
}

// kind describes a primitive: the fields it takes, and how it reads them. A kind without decode is in the schema but not built yet.
type kind struct {
	name   string
	takes  []string
	decode func(raw json.RawMessage) (step, error)
}

// kinds lists the primitives in the order of the schema.
func kinds() []kind {
	return []kind{
		{"http_request", []string{"url", "method", "params"}, decodeHTTPRequest},
		{"table_sort", []string{"field", "fields", "order"}, decodeTableSort},
		{"table_filter", []string{"condition"}, decodeTableFilter},
		{"table_select", []string{"fields"}, decodeTableSelect},
		{"top_k", []string{"k"}, decodeTopK},
		{name: "groupby"},
		{name: "join"},
		{name: "jq_transform"},
		{name: "regex_extract"},
		{name: "parse_date"},
	}
}

// checkEvery is how many rows a step handles between two looks at the context.
const checkEvery = 1024

// alive reports the end of the context, on every checkEvery-th row.
func alive(ctx context.Context, i int) error {
	if i%checkEvery == 0 && ctx.Err() != nil {
		return ended(ctx)
	}
	return nil
}
