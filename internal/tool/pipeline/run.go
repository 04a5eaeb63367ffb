package pipeline

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/turnstone-run/turnstone/agent"
)

// stepReport is the report of one step.
type stepReport struct {
	Step    string `json:"step"`
	RowsIn  int    `json:"rows_in"`
	RowsOut int    `json:"rows_out"`
	MS      int64  `json:"ms"`
}

// run is the state of one call.
type run struct {
	cfg  Config
	inv  agent.Invocation
	rows []row
	done []stepReport

	// keepDocument tells a source that the next step wants the document as it was sent, which it leaves in document.
	keepDocument bool
	document     json.RawMessage
}

// runSteps runs the program's steps one after the other.
func (r *run) runSteps(ctx context.Context, p *program) error {
	if p.inputRef != "" {
		r.keepDocument = p.wantsDocument(0)
		rows, err := r.openDataset(ctx, "input_ref", p.inputRef)
		if err != nil {
			return err
		}
		r.rows = rows
		r.inv.Report("input_ref: " + count(len(rows)))
	}
	for i, s := range p.steps {
		if ctx.Err() != nil {
			return contextError(ctx)
		}
		_, isRequest := s.step.(*httpRequest)
		r.keepDocument = isRequest && p.wantsDocument(i+1)
		began, in := time.Now(), len(r.rows)
		rows, err := s.run(ctx, r, r.rows)
		if err != nil {
			return locate(err, s.name, i)
		}
		if !isRequest {
			r.document = nil
		}
		r.rows = rows
		r.done = append(r.done, stepReport{Step: s.name, RowsIn: in, RowsOut: len(rows), MS: time.Since(began).Milliseconds()})
		r.inv.Report(s.name + ": " + count(len(rows)))
	}
	return nil
}

// wantsDocument reports whether step i reads whole documents.
func (p *program) wantsDocument(i int) bool {
	if i >= len(p.steps) {
		return false
	}
	_, ok := p.steps[i].step.(*jqTransform)
	return ok
}

func count(n int) string {
	if n == 1 {
		return "1 row"
	}
	return fmt.Sprintf("%d rows", n)
}
