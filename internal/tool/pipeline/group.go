package pipeline

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/clip"
)

// groups holds the groups of the rows that were added, numbered in the order in which they appear.
type groups struct {
	step         *groupBy
	index        map[string]int // the number of a group by its key
	count        int
	keys         []json.RawMessage // the values of "by" in the first row of each group, group after group
	accumulators []accumulator
	remaining    int64 // bytes of keys
	maxBytes     int64
	byFound      []bool // whether some row has a field of "by"
	aggFound     []bool // whether some row has an aggregated field

	// The values of the current row, and a value that is reused.
	key    []byte
	values []json.RawMessage
	value  value
}

// group adds all rows to their groups.
func (s *groupBy) group(ctx context.Context, r *run, rows []row) (*groups, error) {
	accumulators, err := s.accumulators(ctx, rows)
	if err != nil {
		return nil, err
	}
	g := &groups{
		step: s, index: map[string]int{}, accumulators: accumulators, remaining: r.cfg.MaxBytes, maxBytes: r.cfg.MaxBytes,
		byFound: make([]bool, len(s.by)), aggFound: make([]bool, len(s.aggs)), values: make([]json.RawMessage, len(s.by)),
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

// groupOf returns the number of a row's group, which it adds if it is new.
func (g *groups) groupOf(from row) (int, error) {
	g.key = g.key[:0]
	for j := range g.step.by {
		raw, ok := g.step.by[j].source.find(from)
		g.byFound[j] = g.byFound[j] || ok
		if !ok {
			raw = null()
		}
		g.values[j] = raw
		g.value = valueOf(raw)
		g.key = appendKeyPart(g.key, &g.value)
	}
	if n, ok := g.index[string(g.key)]; ok {
		return n, nil
	}
	if g.remaining -= int64(len(g.key)); g.remaining < 0 {
		return 0, faultf(agent.CodeOverflow, "by", "makes groups of more than %d bytes", g.maxBytes)
	}
	return g.addGroup(), nil
}

// addGroup adds a group with the key of the current row, and returns its number.
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
			g.aggFound[j] = true
			acc.add(group, nil, &g.value)
			continue
		}
		raw, ok := a.source.find(from)
		g.aggFound[j] = g.aggFound[j] || ok
		if g.value = valueOf(raw); g.value.isAbsent() {
			continue
		}
		if problem := acc.add(group, raw, &g.value); problem != "" {
			return valueFault(a.field, i, a.source, "%s", problem)
		}
	}
	return nil
}

// checkFields returns a fault if no row has one of the fields.
func (g *groups) checkFields(rows []row) error {
	if len(rows) == 0 {
		return nil
	}
	if j := slices.Index(g.byFound, false); j >= 0 {
		return noSuchField(g.step.by[j].field, g.step.by[j].source, rows)
	}
	if j := slices.Index(g.aggFound, false); j >= 0 {
		return noSuchField(g.step.aggs[j].field, g.step.aggs[j].source, rows)
	}
	return nil
}

// keyOf returns the values of "by" of group n.
func (g *groups) keyOf(n int) []json.RawMessage {
	return g.keys[n*len(g.step.by) : (n+1)*len(g.step.by)]
}

// groupFault returns the fault of an aggregate of group n.
func (g *groups) groupFault(n int, a *aggregate, problem string) error {
	group := ""
	for j, raw := range g.keyOf(n) {
		v := valueOf(raw)
		group += fmt.Sprintf(", %s %s", clip.Bytes(g.step.by[j].name, maxQuote), v.quote())
		if len(group) > 2*maxQuote {
			break
		}
	}
	if group != "" {
		group = " in the group" + group[1:]
	}
	return faultf(agent.CodeOverflow, a.field, "the %s of field %q%s %s", a.fn, clip.Bytes(a.source.text, maxQuote), group, problem)
}

func (s *groupBy) accumulators(ctx context.Context, rows []row) ([]accumulator, error) {
	out := make([]accumulator, len(s.aggs))
	for j, a := range s.aggs {
		switch a.fn {
		case "count":
			out[j] = &counts{}
		case "sum", "avg":
			out[j] = &sums{isMean: a.fn == "avg"}
		default:
			numeric, err := allNumeric(ctx, a.source, rows)
			if err != nil {
				return nil, err
			}
			sign := 1
			if a.fn == "max" {
				sign = -1
			}
			out[j] = &extremes{sign: sign, isNumeric: numeric}
		}
	}
	return out, nil
}
