package pipeline

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/clip"
)

// groups holds the groups of the rows seen so far, numbered in the order in which they appear.
type groups struct {
	step         *groupBy
	index        map[string]int
	count        int
	keys         []json.RawMessage // the values of "by" in the first row of each group, one group behind the other
	accumulators []accumulator
	left, bound  int64  // bytes of keys
	seen         []bool // of the fields of "by": some row has it
	counted      []bool // of the aggregated fields

	// Of the present row.
	key    []byte
	values []json.RawMessage
	value  value
}

// group goes through the rows once.
func (s *groupBy) group(ctx context.Context, r *run, rows []row) (*groups, error) {
	accumulators, err := s.accumulators(ctx, rows)
	if err != nil {
		return nil, err
	}
	g := &groups{
		step: s, index: map[string]int{}, accumulators: accumulators, left: r.cfg.MaxBytes, bound: r.cfg.MaxBytes,
		seen: make([]bool, len(s.by)), counted: make([]bool, len(s.aggs)), values: make([]json.RawMessage, len(s.by)),
	}
	if len(s.by) == 0 && len(rows) == 0 {
		g.addGroup()
	}
	for i := range rows {
		from, err := objectRow(ctx, rows, i)
		if err != nil {
			return nil, err
		}
		n, err := g.groupOf(from)
		if err != nil {
			return nil, err
		}
		if err := g.add(i, from, n); err != nil {
			return nil, err
		}
	}
	return g, g.checkFields(rows)
}

// groupOf returns the number of the group of a row, a new one for the first row of a group.
func (g *groups) groupOf(from row) (int, error) {
	g.key = g.key[:0]
	for j := range g.step.by {
		raw, ok := g.step.by[j].source.find(from)
		g.seen[j] = g.seen[j] || ok
		if !ok {
			raw = null()
		}
		g.values[j] = raw
		g.value = valueOf(raw)
		g.key = appendPart(g.key, &g.value)
	}
	if n, known := g.index[string(g.key)]; known {
		return n, nil
	}
	if g.left -= int64(len(g.key)); g.left < 0 {
		return 0, faultf(agent.CodeOverflow, "by", "makes groups of more than %d bytes", g.bound)
	}
	return g.addGroup(), nil
}

// addGroup begins a group with the present key.
func (g *groups) addGroup() int {
	n := g.count
	g.count++
	g.index[string(g.key)] = n
	g.keys = append(g.keys, g.values...)
	for _, acc := range g.accumulators {
		acc.addGroup()
	}
	return n
}

// add adds row i to the accumulators of its group.
func (g *groups) add(i int, from row, group int) error {
	for j, acc := range g.accumulators {
		a := &g.step.aggs[j]
		if a.source == nil {
			g.counted[j] = true
			acc.add(group, nil, &g.value)
			continue
		}
		raw, ok := a.source.find(from)
		g.counted[j] = g.counted[j] || ok
		if g.value = valueOf(raw); g.value.isAbsent() {
			continue
		}
		if why := acc.add(group, raw, &g.value); why != "" {
			return cellFault(a.field, i, a.source, "%s", why)
		}
	}
	return nil
}

// checkFields returns the fault of a field that no row has.
func (g *groups) checkFields(rows []row) error {
	if len(rows) == 0 {
		return nil
	}
	if j := slices.Index(g.seen, false); j >= 0 {
		return noSuchField(g.step.by[j].field, g.step.by[j].source, rows)
	}
	if j := slices.Index(g.counted, false); j >= 0 {
		return noSuchField(g.step.aggs[j].field, g.step.aggs[j].source, rows)
	}
	return nil
}

// groupFault returns the fault of a result of group n.
func (g *groups) groupFault(n int, a *aggregate, why string) error {
	where := ""
	for j, raw := range g.keys[n*len(g.step.by) : (n+1)*len(g.step.by)] {
		v := valueOf(raw)
		where += fmt.Sprintf(", %s %s", clip.Bytes(g.step.by[j].name, maxQuote), v.shortQuote())
		if len(where) > 2*maxQuote {
			break
		}
	}
	if where != "" {
		where = " in the group" + where[1:]
	}
	return faultf(agent.CodeOverflow, a.field, "the %s of field %q%s %s", a.fn, clip.Bytes(a.source.text, maxQuote), where, why)
}

func (s *groupBy) accumulators(ctx context.Context, rows []row) ([]accumulator, error) {
	out := make([]accumulator, len(s.aggs))
	for j, a := range s.aggs {
		switch a.fn {
		case "count":
			out[j] = &counts{}
		case "sum", "avg":
			out[j] = &totals{mean: a.fn == "avg"}
		default:
			numeric, err := allNumeric(ctx, a.source, rows)
			if err != nil {
				return nil, err
			}
			sign := 1
			if a.fn == "max" {
				sign = -1
			}
			out[j] = &extremes{sign: sign, numeric: numeric}
		}
	}
	return out, nil
}
