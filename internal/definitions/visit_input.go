package definitions

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"strings"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/definitions/expr"
)

// visitInput is the input of a visit: the input of the run, or the output of the preceding visit. After several visits it is an object with their
// outputs by node ID.
type visitInput struct {
	value    json.RawMessage
	rowsRef  string            // the reference of stored rows; may be empty
	rowsRefs map[string]string // the references of several outputs, by node ID
}

// loadInput reads the input of the visit.
func (v *nodeVisit) loadInput(ctx context.Context) (visitInput, error) {
	if len(v.in.From) == 0 {
		return visitInput{value: v.facts.run.Input}, nil
	}
	var (
		last     agent.RunStep
		outputs  = make(map[string]json.RawMessage, len(v.in.From))
		rowsRefs = map[string]string{}
		nodes    = v.facts.definition.Nodes
	)
	for _, source := range v.in.From {
		if source.Node < 0 || source.Node >= len(nodes) {
			return visitInput{}, agent.Errorf(agent.CodeInternal, "run node", "there is no node %d", source.Node)
		}
		id := nodes[source.Node].ID
		step, stored, err := v.runner.Store.Step(ctx, v.in.RunID, id, source.Visit)
		switch {
		case err != nil:
			return visitInput{}, fmt.Errorf("load what %s gave out: %w", id, err)
		case !stored:
			return visitInput{}, agent.Errorf(agent.CodeInternal, "run node", "visit %d of node %q is not stored", source.Visit, id)
		}
		last, outputs[id] = step, nullIfEmpty(step.Output)
		if step.Ref != "" {
			rowsRefs[id] = step.Ref
		}
	}
	if len(v.in.From) == 1 {
		return visitInput{value: last.Output, rowsRef: last.Ref}, nil
	}
	joined, err := json.Marshal(outputs)
	if err != nil {
		return visitInput{}, err
	}
	return visitInput{value: joined, rowsRefs: rowsRefs}, nil
}

// nullIfEmpty returns JSON null for no output.
func nullIfEmpty(raw json.RawMessage) json.RawMessage {
	if len(raw) == 0 {
		return json.RawMessage("null")
	}
	return raw
}

// loadData returns the variables of expressions, including at most [maxRows] rows or [maxRowBytes] bytes of the rows of each reference.
func (v *nodeVisit) loadData(ctx context.Context, in visitInput, texts ...string) (expr.Data, error) {
	d, err := v.loadDataWithoutRows(ctx, in, texts...)
	if err != nil {
		return d, err
	}
	if in.rowsRef != "" {
		if d.Input, err = v.withRows(ctx, d.Input, in.rowsRef); err != nil {
			return d, err
		}
	}
	members, _ := d.Input.(map[string]any)
	for id, ref := range in.rowsRefs {
		if members[id], err = v.withRows(ctx, members[id], ref); err != nil {
			return d, err
		}
	}
	return d, nil
}

// loadDataWithoutRows returns the variables of expressions without stored rows. It reads the outputs of earlier nodes only if one of the texts
// mentions "steps".
func (v *nodeVisit) loadDataWithoutRows(ctx context.Context, in visitInput, texts ...string) (expr.Data, error) {
	run := &v.facts.run
	d := expr.Data{Run: map[string]any{
		"run_id": run.RunID, "workflow_tag": run.Tag, "workflow_owner": run.Owner, "workflow_id": run.WorkflowID,
		"version": run.Version, "user_id": run.UserID, "schedule": run.Schedule, "input": decodeJSON(run.Input),
	}}
	d.Input = decodeJSON(in.value)
	for _, text := range texts {
		if !strings.Contains(text, "steps") {
			continue
		}
		stored, err := v.runner.Store.Run(ctx, run.Tenant, run.RunID)
		if err != nil {
			return d, fmt.Errorf("load the steps: %w", err)
		}
		d.Steps = map[string]any{}
		newest := map[string]int{}
		for i := range stored.Steps {
			if s := &stored.Steps[i]; s.Visit > newest[s.NodeID] {
				newest[s.NodeID], d.Steps[s.NodeID] = s.Visit, decodeJSON(s.Output)
			}
		}
		return d, nil
	}
	return d, nil
}

// decodeJSON decodes JSON for expressions. Numbers are [json.Number]. It returns nil for empty input.
func decodeJSON(raw json.RawMessage) any {
	if len(raw) == 0 {
		return nil
	}
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	var v any
	if d.Decode(&v) != nil {
		return nil // unreachable: stored outputs are valid JSON
	}
	return v
}

// withRows returns an output with the rows of its reference as member "rows". An output that is not an object is replaced by the rows.
func (v *nodeVisit) withRows(ctx context.Context, output any, ref string) (any, error) {
	rows, err := v.loadFirstRows(ctx, ref)
	if err != nil {
		return nil, err
	}
	members, ok := output.(map[string]any)
	if !ok {
		return rows, nil
	}
	members["rows"] = rows
	return members, nil
}

// loadFirstRows reads at most [maxRows] rows and [maxRowBytes] bytes.
func (v *nodeVisit) loadFirstRows(ctx context.Context, ref string) ([]any, error) {
	rows := []any{}
	err := v.forEachRow(ctx, ref, maxRowBytes, func(row any) error {
		rows = append(rows, row)
		if len(rows) >= maxRows {
			return errStopReading
		}
		return nil
	})
	return rows, err
}

// errStopReading makes [nodeVisit.forEachRow] stop without an error.
var errStopReading = errors.New("enough")

// forEachRow calls handle for each row of a reference. If maxBytes is positive, it stops after that many bytes and drops a row that is cut off
// there.
func (v *nodeVisit) forEachRow(ctx context.Context, ref string, maxBytes int64, handle func(row any) error) error {
	content, err := v.runner.Rows.Open(ctx, v.facts.run.Tenant, ref)
	if err != nil {
		return fmt.Errorf("open %s: %w", ref, err)
	}
	defer func() { _ = content.Close() }() // it was only read
	limited := &io.LimitedReader{R: content, N: cmp.Or(maxBytes, math.MaxInt64)}
	decoder := json.NewDecoder(limited)
	decoder.UseNumber()
	first, err := decoder.Token()
	if err != nil {
		return rowsError(ref, err)
	}
	if first != json.Delim('[') {
		return agent.Errorf(agent.CodeInvalid, "read rows", "%s holds no list of rows", ref)
	}
	for decoder.More() {
		var row any
		if err := decoder.Decode(&row); err != nil {
			if limited.N <= 0 && errors.Is(err, io.ErrUnexpectedEOF) {
				return nil
			}
			return rowsError(ref, err)
		}
		switch err := handle(row); {
		case errors.Is(err, errStopReading):
			return nil
		case err != nil:
			return err
		}
	}
	if _, err := decoder.Token(); err != nil && limited.N > 0 { // More also returns false after an error
		return rowsError(ref, err)
	}
	return nil
}

// rowsError returns [agent.CodeInvalid] for content that is not JSON, [agent.CodeUnavailable] for other errors.
func rowsError(ref string, err error) error {
	if _, ok := errors.AsType[*json.SyntaxError](err); ok {
		return agent.Errorf(agent.CodeInvalid, "read rows", "%s is no JSON: %w", ref, err)
	}
	return agent.Errorf(agent.CodeUnavailable, "read rows", "%s: %w", ref, err)
}
