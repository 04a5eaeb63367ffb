package pipeline

import (
	"context"
	"encoding/json"
	"time"

	"github.com/turnstone-run/turnstone/agent"
)

// stepReport says what a step has done.
type stepReport struct {
	Step    string `json:"step"`
	RowsIn  int    `json:"rows_in"`
	RowsOut int    `json:"rows_out"`
	MS      int64  `json:"ms"`
}

// run is the state of one call.
type run struct {
	cfg       Config
	inv       agent.Invocation
	composite string // the name of the composite that the model has called; empty: it has called execute_pipeline
	rows      []row
	done      []stepReport

	keepDocument bool            // the next step needs the whole document, not only its rows
	document     json.RawMessage // as the source has sent it, if keepDocument was set
}

// runSteps runs the steps of a pipeline one after the other.
func (r *run) runSteps(ctx context.Context, p *program) error {
	if p.inputRef != "" {
		r.keepDocument = p.wantsDocument(0)
		rows, err := r.openDataset(ctx, "input_ref", p.inputRef)
		if err != nil {
			return err
		}
		r.rows = rows
		r.inv.Report("input_ref: " + quantity(len(rows), "row"))
	}
	for i, s := range p.steps {
		if ctx.Err() != nil {
			return contextError(ctx)
		}
		_, isRequest := s.step.(*httpRequest)
		r.keepDocument = isRequest && p.wantsDocument(i+1)
		began, rowsIn := time.Now(), len(r.rows)
		rows, err := s.run(ctx, r, r.rows)
		if err != nil {
			return withStep(err, s.name, i)
		}
		if !isRequest {
			r.document = nil
		}
		r.rows = rows
		r.done = append(r.done, stepReport{Step: s.name, RowsIn: rowsIn, RowsOut: len(rows), MS: time.Since(began).Milliseconds()})
		r.inv.Report(s.name + ": " + quantity(len(rows), "row"))
	}
	return nil
}

// wantsDocument reports whether step i exists and reads whole documents.
func (p *program) wantsDocument(i int) bool {
	if i >= len(p.steps) {
		return false
	}
	_, ok := p.steps[i].step.(*jqTransform)
	return ok
}
