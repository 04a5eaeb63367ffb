package pipeline

import (
	"context"
	"encoding/json"
	"regexp"
	"slices"
	"strings"

	"github.com/turnstone-run/turnstone/internal/clip"
)

// groupBy turns all rows with the same values in some fields into one row, in the order in which the groups appear:
//
//	{"step":"groupby","by":["category"],"agg":"sum","field":"revenue"}             → {"category":…,"sum_revenue":…}
//	{"step":"groupby","by":["category"],"agg":"count"}                             → {"category":…,"count":…}
//	{"step":"groupby","by":["a","b"],"agg":"avg","fields":["price","stops"]}       → {"a":…,"b":…,"avg_price":…,"avg_stops":…}
//	{"step":"groupby","by":[],"agg":"max","fields":["price","count()","min(price) as low"]} → {"max_price":…,"count":…,"low":…}
//
// An empty "by" makes one group of all rows, even if there are none. Null and missing values form one group, and are not aggregated.
type groupBy struct {
	by   []column
	aggs []aggregate
}

// aggregate is a column of results.
type aggregate struct {
	column // source is nil for a count of rows

	fn string // one of aggregateFunctions
}

func aggregateFunctions() []string { return []string{"count", "sum", "avg", "min", "max"} }

func decodeGroupBy(raw json.RawMessage) (step, error) {
	var in struct {
		By     []string `json:"by"`
		Agg    *string  `json:"agg"`
		Field  *string  `json:"field"`
		Fields []string `json:"fields"`
	}
	if err := decodeFields(raw, &in); err != nil {
		return nil, err
	}
	switch {
	case in.By == nil:
		return nil, invalid("by", "is required: the fields to group by, or [] for all rows together")
	case in.Field != nil && in.Fields != nil:
		return nil, invalid("fields", "give field or fields, not both")
	case in.Agg != nil && !slices.Contains(aggregateFunctions(), *in.Agg):
		return nil, invalid("agg", "want count, sum, avg, min or max, got %q", clip.Bytes(*in.Agg, maxQuote))
	case len(in.Fields) > maxFields:
		return nil, invalid("fields", "has %d fields, at most %d", len(in.Fields), maxFields)
	}
	by, err := parseColumns("by", in.By)
	if err != nil {
		return nil, err
	}
	s := &groupBy{by: by}
	fn := ""
	if in.Agg != nil {
		fn = *in.Agg
	}
	if err := s.parseAggregates(fn, in.Field, in.Fields); err != nil {
		return nil, err
	}
	all := slices.Clone(by)
	for _, a := range s.aggs {
		all = append(all, a.column)
	}
	return s, checkDuplicates(all)
}

// parseAggregates parses the aggregates of a step with a function, a field and a list of fields, each of which may be missing.
func (s *groupBy) parseAggregates(fn string, field *string, fields []string) error {
	switch {
	case field != nil:
		return s.parseAggregate("field", fn, *field)
	case len(fields) > 0:
		for i, text := range fields {
			if err := s.parseAggregate(elementName("fields", i), fn, text); err != nil {
				return err
			}
		}
		return nil
	case fn == "":
		return invalid("agg", "is required")
	case fn != "count":
		return invalid("field", "is required: what to take the %s of", fn)
	default:
		c := column{field: "agg"}
		err := c.rename("count")
		s.aggs = []aggregate{{c, fn}}
		return err
	}
}

// callPattern matches "sum(price)", "count()" and "sum(price) as total".
var callPattern = regexp.MustCompile(`^\s*(\w+)\(\s*(.*?)\s*\)(\s+as\s+.+)?$`)

// parseAggregate parses "price", to which fn applies, or "sum(price)", each with an optional " as total". If fn is given, a text such as
// "price(net)" is a field and not a call.
func (s *groupBy) parseAggregate(argument, fn, text string) error {
	var suffix string // " as total"
	m := callPattern.FindStringSubmatch(text)
	switch {
	case m == nil:
	case slices.Contains(aggregateFunctions(), m[1]):
		fn, text, suffix = m[1], m[2], m[3]
	case fn == "":
		return invalid(argument, "unknown function %q: want %s", clip.Bytes(m[1], maxQuote), strings.Join(aggregateFunctions(), ", "))
	}
	if fn == "" {
		return invalid("agg", "is required")
	}
	isRowCount := fn == "count" && (text == "" || text == "*")
	if isRowCount {
		text = "count"
	}
	c, err := parseColumn(argument, text+suffix)
	if err != nil {
		return err
	}
	if isRowCount {
		c.source = nil
	} else if c.name == c.source.text {
		err = c.rename(fn + "_" + c.name)
	}
	s.aggs = append(s.aggs, aggregate{c, fn})
	return err
}

func (s *groupBy) run(ctx context.Context, r *run, rows []row) ([]row, error) {
	g, err := s.group(ctx, r, rows)
	if err != nil {
		return nil, err
	}
	w := r.newWriter(g.count)
	var result []byte
	for n := range g.count {
		if err := checkContext(ctx, n); err != nil {
			return nil, err
		}
		w.beginRow(64 * (len(s.by) + len(s.aggs)))
		for j, v := range g.keyOf(n) {
			w.appendMember(s.by[j].label, v)
		}
		for j, acc := range g.accumulators {
			var problem string
			if result, problem = acc.write(result[:0], n); problem != "" {
				return nil, g.groupFault(n, &s.aggs[j], problem)
			}
			w.appendMember(s.aggs[j].label, result)
		}
		w.closeObject()
		if err := w.endRow(); err != nil {
			return nil, err
		}
	}
	return w.rows, nil
}
