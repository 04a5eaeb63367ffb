package pipeline

import (
	"context"
	"encoding/json"
	"regexp"
	"slices"
	"strings"

	"github.com/turnstone-run/turnstone/internal/clip"
)

// groupBy makes one row of all rows that have the same values in some fields, in the order in which groups appear:
//
//	{"step":"groupby","by":["category"],"agg":"sum","field":"revenue"}             → {"category":…,"sum_revenue":…}
//	{"step":"groupby","by":["category"],"agg":"count"}                             → {"category":…,"count":…}
//	{"step":"groupby","by":["a","b"],"agg":"avg","fields":["price","stops"]}       → {"a":…,"b":…,"avg_price":…,"avg_stops":…}
//	{"step":"groupby","by":[],"agg":"max","fields":["price","count()","min(price) as low"]} → {"max_price":…,"count":…,"low":…}
//
// An empty "by" makes one group of all rows, also of none. Null and missing are one group, and are not aggregated.
type groupBy struct {
	by   []column
	aggs []aggregate
}

// aggregate is one column of results.
type aggregate struct {
	column // source is nil for a count of rows

	fn string
}

func aggregates() []string { return []string{"count", "sum", "avg", "min", "max"} }

func decodeGroupBy(raw json.RawMessage) (step, error) {
	var in struct {
		By     []string `json:"by"`
		Agg    *string  `json:"agg"`
		Field  *string  `json:"field"`
		Fields []string `json:"fields"`
	}
	if err := decodeStrictly(raw, &in); err != nil {
		return nil, err
	}
	switch {
	case in.By == nil:
		return nil, invalid("by", "is required: the fields to group by, or [] for all rows together")
	case in.Field != nil && in.Fields != nil:
		return nil, invalid("fields", "give field or fields, not both")
	case in.Agg != nil && !slices.Contains(aggregates(), *in.Agg):
		return nil, invalid("agg", "want count, sum, avg, min or max, got %q", clip.Bytes(*in.Agg, maxQuote))
	case len(in.Fields) > maxFields:
		return nil, invalid("fields", "has %d fields, at most %d", len(in.Fields), maxFields)
	}
	by, err := columns("by", in.By)
	if err != nil {
		return nil, err
	}
	s := &groupBy{by: by}
	fn := ""
	if in.Agg != nil {
		fn = *in.Agg
	}
	if err := s.aggregate(fn, in.Field, in.Fields); err != nil {
		return nil, err
	}
	all := slices.Clone(by)
	for _, a := range s.aggs {
		all = append(all, a.column)
	}
	return s, checkDuplicates(all)
}

// aggregate reads what to compute.
func (s *groupBy) aggregate(fn string, field *string, fields []string) error {
	switch {
	case field != nil:
		return s.add("field", fn, *field)
	case len(fields) > 0:
		for i, text := range fields {
			if err := s.add(elementName("fields", i), fn, text); err != nil {
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

// add reads an aggregate: "price", for fn, or "sum(price)", both with an optional "as total". Where there is an fn, "price(net)" is a
// field.
func (s *groupBy) add(at, fn, text string) error {
	var rename string
	m := callPattern.FindStringSubmatch(text)
	switch {
	case m == nil:
	case slices.Contains(aggregates(), m[1]):
		fn, text, rename = m[1], m[2], m[3]
	case fn == "":
		return invalid(at, "unknown function %q: want %s", clip.Bytes(m[1], maxQuote), strings.Join(aggregates(), ", "))
	}
	switch {
	case fn == "":
		return invalid("agg", "is required")
	case fn == "count" && (text == "" || text == "*"):
		c := column{field: at}
		name, err := aggregateName(at, "count", rename)
		if err == nil {
			err = c.rename(name)
		}
		s.aggs = append(s.aggs, aggregate{c, fn})
		return err
	}
	c, err := newColumn(at, text+rename)
	if err != nil {
		return err
	}
	if c.name == c.source.text {
		err = c.rename(fn + "_" + c.name)
	}
	s.aggs = append(s.aggs, aggregate{c, fn})
	return err
}

// aggregateName returns the name behind " as ", else name.
func aggregateName(at, name, rename string) (string, error) {
	if rename == "" {
		return name, nil
	}
	c, err := newColumn(at, name+rename)
	return c.name, err
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
		w.begin(64 * (len(s.by) + len(s.aggs)))
		for j, v := range g.keys[n*len(s.by) : (n+1)*len(s.by)] {
			w.appendMember(s.by[j].label, v)
		}
		for j, acc := range g.accumulators {
			var why string
			if result, why = acc.write(result[:0], n); why != "" {
				return nil, g.groupFault(n, &s.aggs[j], why)
			}
			w.appendMember(s.aggs[j].label, result)
		}
		w.close()
		if err := w.end(); err != nil {
			return nil, err
		}
	}
	return w.rows, nil
}
