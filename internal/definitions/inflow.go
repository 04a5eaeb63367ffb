package definitions

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/definitions/expr"
)

// inflow is what comes into a node: the run's input, or what the one visit that leads here gave out; an object by node id when there are
// several.
type inflow struct {
	output json.RawMessage
	ref    string            // of its rows
	refs   map[string]string // of the members' rows, when there are several
}

func (v *visit) inflow(ctx context.Context) (inflow, error) {
	if len(v.in.From) == 0 {
		return inflow{output: v.facts.run.Input}, nil
	}
	var (
		last  agent.RunStep
		many  = make(map[string]json.RawMessage, len(v.in.From))
		refs  = map[string]string{}
		nodes = v.facts.definition.Nodes
	)
	for _, source := range v.in.From {
		if source.Node < 0 || source.Node >= len(nodes) {
			return inflow{}, agent.Errorf(agent.CodeInternal, "run node", "there is no node %d", source.Node)
		}
		id := nodes[source.Node].ID
		step, ok, err := v.runner.Store.Step(ctx, v.in.RunID, id, source.Visit)
		switch {
		case err != nil:
			return inflow{}, fmt.Errorf("load what %s gave out: %w", id, err)
		case !ok:
			return inflow{}, agent.Errorf(agent.CodeInternal, "run node", "visit %d of node %q is not stored", source.Visit, id)
		}
		last, many[id] = step, orNull(step.Output)
		if step.Ref != "" {
			refs[id] = step.Ref
		}
	}
	if len(v.in.From) == 1 {
		return inflow{output: last.Output, ref: last.Ref}, nil
	}
	joined, err := json.Marshal(many)
	if err != nil {
		return inflow{}, err
	}
	return inflow{output: joined, refs: refs}, nil
}

func orNull(raw json.RawMessage) json.RawMessage {
	if len(raw) == 0 {
		return json.RawMessage("null")
	}
	return raw
}

// data is what an expression looks at; its rows are the first [maxRows], and no more than [maxRowBytes] of them.
func (v *visit) data(ctx context.Context, in inflow, texts ...string) (expr.Data, error) {
	d, err := v.bare(ctx, in, texts...)
	if err != nil {
		return d, err
	}
	if in.ref != "" {
		if d.Input, err = v.withRows(ctx, d.Input, in.ref); err != nil {
			return d, err
		}
	}
	members, _ := d.Input.(map[string]any)
	for id, ref := range in.refs {
		if members[id], err = v.withRows(ctx, members[id], ref); err != nil {
			return d, err
		}
	}
	return d, nil
}

// bare is data without the rows behind references. What the nodes before gave out is only loaded where one of the texts asks for it.
func (v *visit) bare(ctx context.Context, in inflow, texts ...string) (expr.Data, error) {
	run := &v.facts.run
	d := expr.Data{Run: map[string]any{
		"run_id": run.RunID, "workflow_tag": run.Tag, "workflow_owner": run.Owner, "workflow_id": run.WorkflowID,
		"version": run.Version, "user_id": run.UserID, "schedule": run.Schedule, "input": decoded(run.Input),
	}}
	d.Input = decoded(in.output)
	for _, text := range texts {
		if !strings.Contains(text, "steps") {
			continue
		}
		whole, err := v.runner.Store.Run(ctx, run.Tenant, run.RunID)
		if err != nil {
			return d, fmt.Errorf("load the steps: %w", err)
		}
		d.Steps = map[string]any{}
		newest := map[string]int{}
		for i := range whole.Steps {
			if s := &whole.Steps[i]; s.Visit > newest[s.NodeID] {
				newest[s.NodeID], d.Steps[s.NodeID] = s.Visit, decoded(s.Output)
			}
		}
		return d, nil
	}
	return d, nil
}

// decoded is JSON as expressions take it; numbers keep their digits.
func decoded(raw json.RawMessage) any {
	if len(raw) == 0 {
		return nil
	}
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	var v any
	if d.Decode(&v) != nil {
		return nil // what is stored parses
	}
	return v
}

func (v *visit) withRows(ctx context.Context, output any, ref string) (any, error) {
	rows, err := v.firstRows(ctx, ref)
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

func (v *visit) firstRows(ctx context.Context, ref string) ([]any, error) {
	rows := []any{}
	err := v.eachRow(ctx, ref, maxRowBytes, func(row any) error {
		if rows = append(rows, row); len(rows) >= maxRows {
			return errEnough
		}
		return nil
	})
	return rows, err
}

// errEnough ends the reading of rows.
var errEnough = errors.New("enough")

// eachRow hands over the rows behind a reference, one by one; with a bound, those that begin and end within so many bytes.
func (v *visit) eachRow(ctx context.Context, ref string, bound int64, each func(row any) error) error {
	content, err := v.runner.Rows.Open(ctx, v.facts.run.Tenant, ref)
	if err != nil {
		return fmt.Errorf("open %s: %w", ref, err)
	}
	defer func() { _ = content.Close() }() // it was only read
	var r io.Reader = content
	if bound > 0 {
		r = io.LimitReader(content, bound)
	}
	d := json.NewDecoder(r)
	d.UseNumber()
	first, err := d.Token()
	if err != nil {
		return unreadable(ref, err)
	}
	if first != json.Delim('[') {
		return agent.Errorf(agent.CodeInvalid, "read rows", "%s holds no list of rows", ref)
	}
	for d.More() {
		var row any
		if err := d.Decode(&row); err != nil {
			if bound > 0 && errors.Is(err, io.ErrUnexpectedEOF) {
				return nil // the bound is reached
			}
			return unreadable(ref, err)
		}
		switch err := each(row); {
		case errors.Is(err, errEnough):
			return nil
		case err != nil:
			return err
		}
	}
	return nil
}

// unreadable tells content that is no JSON from a store that went away.
func unreadable(ref string, err error) error {
	if _, ok := errors.AsType[*json.SyntaxError](err); ok {
		return agent.Errorf(agent.CodeInvalid, "read rows", "%s is no JSON: %w", ref, err)
	}
	return agent.Errorf(agent.CodeUnavailable, "read rows", "%s: %w", ref, err)
}
