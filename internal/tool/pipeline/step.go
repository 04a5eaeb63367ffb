package pipeline

import (
	"context"
	"encoding/json"

	"github.com/turnstone-run/turnstone/internal/dataset"
)

// row is one JSON value as its source wrote it.
type row = dataset.Row

// step is one primitive with its arguments, ready to run. One step value serves one call.
type step interface {
	run(ctx context.Context, r *run, rows []row) ([]row, error)
}

// primitive describes a primitive: the fields it takes, and how it reads them.
type primitive struct {
	name   string
	takes  []string
	decode func(raw json.RawMessage) (step, error)
}

// primitives lists the primitives in the order of the schema.
func primitives() []primitive {
	return []primitive{
		{"http_request", []string{"url", "method", "params"}, decodeHTTPRequest},
		{"table_sort", []string{"field", "fields", "order"}, decodeTableSort},
		{"table_filter", []string{"condition"}, decodeTableFilter},
		{"table_select", []string{"fields"}, decodeTableSelect},
		{"top_k", []string{"k"}, decodeTopK},
		{"groupby", []string{"by", "agg", "field", "fields"}, decodeGroupBy},
		{"join", []string{"left", "right", "on", "how"}, decodeJoin},
		{"jq_transform", []string{"query"}, decodeJQ},
		{"regex_extract", []string{"pattern", "field"}, decodeRegexExtract},
		{"parse_date", []string{"field", "format"}, decodeParseDate},
	}
}

// checkEvery is how many rows a step handles between two looks at the context.
const checkEvery = 1024

// checkContext returns an error if the context has ended. It looks on every checkEvery-th row.
func checkContext(ctx context.Context, i int) error {
	if i%checkEvery == 0 && ctx.Err() != nil {
		return contextError(ctx)
	}
	return nil
}
