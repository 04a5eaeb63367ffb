package pipeline

import (
	"context"
	"encoding/json"
	"strconv"
	"strings"
	"time"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/dataset"
	"github.com/turnstone-run/turnstone/internal/jq"
)

// The bounds of a program besides those of rows and bytes.
const (
	jqTime    = 5 * time.Second
	jqRowTime = 25 * time.Microsecond // added for each row
	jqMemory  = 512 << 20             // bytes of the decoded input and of everything that the program makes
)

// jqTransform runs a jq program: {"step":"jq_transform","query":".items[] | select(.price < 100)"}. Directly after an http_request or
// input_ref with JSON, its input is the whole document. Otherwise it is the array of the rows. If the only output is an array, its elements
// are the new rows; otherwise each output is a row of any type.
type jqTransform struct{ program *jq.Program }

func decodeJQ(raw json.RawMessage) (step, error) {
	var in struct {
		Query *string `json:"query"`
	}
	if err := decodeFields(raw, &in); err != nil {
		return nil, err
	}
	if in.Query == nil {
		return nil, invalid("query", "is required")
	}
	program, err := jq.Compile(*in.Query)
	if err != nil {
		return nil, faultOf(err, "query")
	}
	return &jqTransform{program: program}, nil
}

func (s *jqTransform) run(ctx context.Context, r *run, rows []row) ([]row, error) {
	bounds := jq.Bounds{Tenant: r.inv.Tenant, Time: jqTime + time.Duration(len(rows))*jqRowTime, Memory: jqMemory, Outputs: r.cfg.MaxRows, Bytes: r.cfg.MaxBytes}
	var outputs []row
	var err error
	if r.document != nil {
		outputs, err = s.program.Run(ctx, r.document, bounds)
	} else {
		outputs, err = s.program.RunRows(ctx, rows, bounds)
	}
	switch {
	case err == nil:
	case ctx.Err() != nil:
		return nil, contextError(ctx)
	default:
		f := faultOf(err, "query")
		if r.document == nil && strings.Contains(f.failure.Message, "expected an object but got: array") {
			f.failure.Message += "; the input is the array of rows: begin with .[]"
		}
		return nil, f
	}
	if len(outputs) == 1 && outputs[0][0] == '[' {
		if outputs, err = splitArray(outputs[0], r.cfg.MaxRows); err != nil {
			return nil, faultf(agent.CodeOverflow, "query", "makes more than %d rows", r.cfg.MaxRows)
		}
	}
	return outputs, checkOutputs(ctx, outputs)
}

// checkOutputs returns a fault for an output that a dataset cannot hold: one with a number beyond float64, or nested too deep.
func checkOutputs(ctx context.Context, outputs []row) error {
	for i, out := range outputs {
		if err := checkContext(ctx, i); err != nil {
			return err
		}
		if err := dataset.Check(out); err != nil {
			return contentFault(err, "query", "makes row "+strconv.Itoa(i)+", which cannot be kept")
		}
	}
	return nil
}
