package definitions

import (
	"context"
	"strings"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/definitions/expr"
)

// source is one that rows come from.
type source struct {
	output any    // decoded
	ref    string // of its rows; empty: they are in output
}

func (s source) rows() ([]any, bool) {
	d := expr.Data{Input: s.output}
	return d.Rows()
}

// sources are those that rows came in from, in the order of the edges.
func (v *visit) sources(in inflow) []source {
	if len(v.in.From) < 2 {
		return withRows(source{decoded(in.output), in.ref})
	}
	var all []source
	nodes := v.facts.definition.Nodes
	fired := make(map[string]bool, len(v.in.From))
	for _, from := range v.in.From {
		fired[nodes[from.Node].ID] = true // inflow has looked at them
	}
	members, _ := decoded(in.output).(map[string]any)
	for _, e := range v.facts.definition.Edges {
		if e.To == v.node.ID && fired[e.From] {
			fired[e.From] = false // two edges of one node are one source
			all = append(all, withRows(source{members[e.From], in.refs[e.From]})...)
		}
	}
	return all
}

func withRows(s source) []source {
	if _, ok := s.rows(); !ok && s.ref == "" {
		return nil
	}
	return []source{s}
}

// pooled is the reference of the rows that came in: as it is where one node gave it, else they are stored, one node's after the other's. Empty:
// none came in.
func (v *visit) pooled(ctx context.Context, in inflow) (string, error) {
	all := v.sources(in)
	switch {
	case len(all) == 0:
		return "", nil
	case len(all) == 1 && all[0].ref != "":
		return all[0].ref, nil
	}
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	pool := v.newKept(ctx)
	for _, s := range all {
		if err := v.pour(ctx, s, pool); err != nil {
			stop(err)
			pool.abandon(err)
			return "", err
		}
	}
	if pool.count == 0 {
		return v.runner.Rows.Put(ctx, v.facts.run.Tenant, strings.NewReader("[]"))
	}
	out, err := pool.finish()
	return out.Ref, err
}

// pour adds the rows of one source.
func (v *visit) pour(ctx context.Context, s source, pool *kept) error {
	add := func(row any) error {
		if err := pool.add(row); err != nil {
			return err
		}
		if pool.bytes > maxPooledBytes {
			return fault(agent.FieldErrorf(agent.CodeOverflow, "config.pipeline", "the rows that come in are more than %d bytes", maxPooledBytes))
		}
		return nil
	}
	if s.ref != "" {
		return v.eachRow(ctx, s.ref, 0, add)
	}
	rows, _ := s.rows()
	for _, row := range rows {
		if err := add(row); err != nil {
			return err
		}
	}
	return nil
}
