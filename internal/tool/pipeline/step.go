package pipeline

import (
	"context"
	"encoding/json"

	"github.com/turnstone-run/turnstone/internal/dataset"
)

// row is one JSON value as its source wrote it.
type row = dataset.Row

// step is a step of a pipeline with its checked arguments. It is used for one call.
type step interface {
	run(ctx context.Context, r *run, rows []row) ([]row, error)
}

// primitive is a kind of step: the names of its fields, and the function that decodes them.
type primitive struct {
	name   string
	fields []string
	decode func(raw json.RawMessage) (step, error)
}

// primitives returns the primitives in the order of the schema.
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

// checkEvery is how many rows a step handles between two checks of the context.
const checkEvery = 1024

// checkContext returns an error if the context has ended. It checks only at every checkEvery-th row i.
func checkContext(ctx context.Context, i int) error {
	if i%checkEvery == 0 && ctx.Err() != nil {
		return contextError(ctx)
	}
	return nil
}
