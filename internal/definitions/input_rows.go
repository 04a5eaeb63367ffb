package definitions

import (
	"context"
	"strings"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/definitions/expr"
)

// rowSource is an output whose rows are read.
type rowSource struct {
	output any    // decoded JSON
	ref    string // the reference of its rows; empty if the rows are in output
}

// rows returns the rows in the output; ok is false if it has none.
func (s rowSource) rows() ([]any, bool) {
	d := expr.Data{Input: s.output}
	return d.Rows()
}

// rowSources returns the outputs in the input that have rows, in the order of the definition's edges.
func (v *nodeVisit) rowSources(in visitInput) []rowSource {
	if len(v.in.From) < 2 {
		return appendIfRows(nil, rowSource{decodeJSON(in.value), in.rowsRef})
	}
	var all []rowSource
	nodes := v.facts.definition.Nodes
	isPending := make(map[string]bool, len(v.in.From)) // by node ID
	for _, from := range v.in.From {
		isPending[nodes[from.Node].ID] = true // loadInput has checked the index
	}
	members, _ := decodeJSON(in.value).(map[string]any)
	for _, e := range v.facts.definition.Edges {
		if e.To == v.node.ID && isPending[e.From] {
			isPending[e.From] = false // two edges from one node are one source
			all = appendIfRows(all, rowSource{members[e.From], in.rowsRefs[e.From]})
		}
	}
	return all
}

// appendIfRows appends a source unless it has no rows.
func appendIfRows(all []rowSource, s rowSource) []rowSource {
	if _, ok := s.rows(); !ok && s.ref == "" {
		return all
	}
	return append(all, s)
}

// storeInputRows returns the reference of the rows in the input, empty if there are none. Rows that are already stored, of a single source, are not
// stored again. The rows of several sources are stored one after the other.
func (v *nodeVisit) storeInputRows(ctx context.Context, in visitInput) (string, error) {
	sources := v.rowSources(in)
	switch {
	case len(sources) == 0:
		return "", nil
	case len(sources) == 1 && sources[0].ref != "":
		return sources[0].ref, nil
	}
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	writer := v.newRowWriter(ctx)
	for _, s := range sources {
		if err := v.copyRows(ctx, s, writer); err != nil {
			stop(err)
			writer.abort(err)
			return "", err
		}
	}
	if writer.count == 0 {
		return v.runner.Rows.Put(ctx, v.facts.run.Tenant, strings.NewReader("[]"))
	}
	out, err := writer.finish()
	return out.Ref, err
}

// copyRows writes the rows of one source. It fails if the writer exceeds [maxInputRowsBytes].
func (v *nodeVisit) copyRows(ctx context.Context, s rowSource, writer *rowWriter) error {
	add := func(row any) error {
		if err := writer.add(row); err != nil {
			return err
		}
		if writer.size > maxInputRowsBytes {
			return asNodeError(agent.FieldErrorf(agent.CodeOverflow, "config.pipeline", "the rows that come in are more than %d bytes", maxInputRowsBytes))
		}
		return nil
	}
	if s.ref != "" {
		return v.forEachRow(ctx, s.ref, 0, add)
	}
	rows, _ := s.rows()
	for _, row := range rows {
		if err := add(row); err != nil {
			return err
		}
	}
	return nil
}
