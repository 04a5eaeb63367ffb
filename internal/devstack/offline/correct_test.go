package offline

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestCorrect(t *testing.T) {
	t.Parallel()
	tests := []struct{ name, steps, field, message, want string }{
		{
			"from the failed step on",
			`{"step":"table_sort","field":"cost"},{"step":"table_filter","condition":{"or":[{"field":"cost","op":"<","value":1},{"not":{"field":"cost","op":"exists"}}]}},` +
				`{"step":"groupby","by":["cost"],"fields":["avg(cost)","count()"]},{"step":"table_select","fields":["cost as c","a"]}`,
			"pipeline[1].condition.or[0].field", `no row has a field "cost"; the first row has id, price`,
			`{"step":"table_sort","field":"cost"},{"step":"table_filter","condition":{"or":[{"field":"price","op":"<","value":1},{"not":{"field":"price","op":"exists"}}]}},` +
				`{"step":"groupby","by":["price"],"fields":["avg(price)","count()"]},{"step":"table_select","fields":["price as c","a"]}`,
		},
		{
			"the left side of a join, alone", `{"step":"join","right":"r","on":"cost"},{"step":"table_sort","field":"cost"}`, "pipeline[0].on",
			`join: no row of the left side has a field "cost"; the first row has price`, `{"step":"join","right":"r","on":"price=cost"},{"step":"table_sort","field":"cost"}`,
		},
		{
			"the right side of a join", `{"step":"join","right":"r","on":"cost"}`, "pipeline[0].on",
			`no row of the right side has a field "cost"; the first row has a, price`, `{"step":"join","right":"r","on":"cost=price"}`,
		},
		{
			"both keys become one", `{"step":"join","right":"r","on":"price=cost"}`, "pipeline[0].on",
			`no row of the right side has a field "cost"; the first row has price`, `{"step":"join","right":"r","on":"price"}`,
		},
		{"a typing mistake", `{"step":"table_sort","field":"airlne"}`, "pipeline[0].field", `no row has a field "airlne"; the first row has airline, id`, `{"step":"table_sort","field":"airline"}`},
		{"upper case", `{"step":"table_sort","field":"UnitPrice"}`, "pipeline[0].field", `no row has a field "UnitPrice"; the first row has unit_price, id`, `{"step":"table_sort","field":"unit_price"}`},
		{"nothing near", `{"step":"table_sort","field":"zebra"}`, "pipeline[0].field", `no row has a field "zebra"; the first row has airline, id`, ""},
		{"another error", `{"step":"table_sort","field":"cost"}`, "pipeline[0].field", `"cost" cannot be compared`, ""},
		{"no place", `{"step":"table_sort","field":"cost"}`, "input_ref", `no row has a field "cost"; the first row has price`, ""},
		{"no such step", `{"step":"table_sort","field":"cost"}`, "pipeline[7].field", `no row has a field "cost"; the first row has price`, ""},
		{"nothing to change", `{"step":"top_k","k":1}`, "pipeline[0].k", `no row has a field "cost"; the first row has price`, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			arguments := func(steps string) string { return `{"session_id":"s","pipeline":[` + steps + `]}` }
			c, ok := correct(arguments(tt.steps), failed{Message: tt.message, Field: tt.field})
			require.Equal(t, tt.want != "", ok)
			if ok {
				require.JSONEq(t, arguments(tt.want), string(c.args))
				require.True(t, json.Valid(c.args))
			}
		})
	}
}
