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
	jqTime    = 5 * time.Second // and for each row
	jqRowTime = 25 * time.Microsecond
	jqMemory  = 512 << 20 // bytes: the decoded input, and what the program makes of it
)

// jqTransform runs a jq program: {"step":"jq_transform","query":".items[] | select(.price < 100)"}. As the step behind an http_request or
// input_ref it has the document as it was sent, of whatever form; anywhere else, and where that is CSV or NDJSON, the array of the rows.
// A single output that is an array gives its elements as rows; else each output is a row, of any type.
type jqTransform struct{ program *jq.Program }

func decodeJQ(raw json.RawMessage) (step, error) {
	var in struct {
		Query *string `json:"query"`
	}
	if err := decodeStrictly(raw, &in); err != nil {
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
		if outputs, err = listOf(outputs[0], r.cfg.MaxRows); err != nil {
			return nil, faultf(agent.CodeOverflow, "query", "makes more than %d rows", r.cfg.MaxRows)
		}
	}
	return outputs, readable(ctx, outputs)
}

// readable refuses what jq can count with and no dataset holds: integers beyond float64, and what is nested too deep.
func readable(ctx context.Context, outputs []row) error {
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
