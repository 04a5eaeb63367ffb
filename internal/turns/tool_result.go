package turns

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"go.uber.org/zap"

	"github.com/turnstone-run/turnstone/agent"
)

const (
	contentScheme = "cas://"
	maxFields     = 50  // of a dataset, in its description
	maxFieldName  = 256 // bytes; a field with a longer name is left out of the description
)

// newStep returns a result in the form that is stored: bounded for the model, and whole in the blob store if it is too large.
func (r *toolRun) newStep(ctx context.Context, fence agent.Fence, result agent.ToolResult, took time.Duration) (agent.ToolStep, error) {
	block := agent.Block{Type: agent.BlockToolResult, ToolCallID: r.key.CallID, Name: r.block.Name, Status: agent.ResultSuccess}
	if result.Failure != nil {
		output, err := json.Marshal(map[string]*agent.Failure{"error": result.Failure})
		if err != nil {
			return agent.ToolStep{}, err
		}
		block.Status = agent.ResultError
		result = agent.ToolResult{Output: output, Failure: result.Failure} // a failed call has made nothing
	}
	if block.Output = result.Output; len(block.Output) == 0 {
		block.Output = json.RawMessage(null)
	}
	dataset := boundDataset(result.Dataset)
	preview, err := previewOf(&result, dataset)
	if err != nil {
		return agent.ToolStep{}, err
	}
	if dataset != nil {
		block.Ref = dataset.Ref
	}
	verdict := agent.ToolVerdict{ID: r.key.CallID, Failed: result.Failure != nil, Refused: r.in.Refused != ""}
	if len(block.Output) > r.ts.InlineBytes {
		if err := r.offload(ctx, &block, &result, preview); err != nil {
			return agent.ToolStep{}, err
		}
		verdict.Ref = block.Ref // only of an offloaded output: another one contains its reference itself
	}
	s := agent.ToolStep{
		Key: r.key, Fence: fence, Tenant: r.turn.Tenant, Name: r.block.Name, Args: r.block.Args, Result: block, Data: result.Data, Preview: preview,
		Dataset: dataset, CacheHit: result.CacheHit, Verdict: verdict, DurationMS: took.Milliseconds(),
	}
	if len(s.Data) > r.ts.MaxInlineBytes {
		s.Data = nil
	}
	return s, nil
}

// maxRepeatedMS bounds the time of a call whose result may be lost with the process, so that the call is made again.
const maxRepeatedMS = 1000

// saveStep stores a finished call and writes its log entry, with input and output as stored. The logger redacts and shortens both.
func (r *toolRun) saveStep(ctx context.Context, s agent.ToolStep) error {
	var err error
	if s.Later = r.in.Later && s.DurationMS < maxRepeatedMS && (r.tool == nil || r.free || effectFree(r.tool, s.Args)); s.Later {
		err = r.ts.Store.SaveToolStep(ctx, s) // its events are the log's to store
	} else {
		err = r.ts.saveWithEvents(ctx, s.Fence, func(events agent.UnstoredEvents) error {
			s.Events = events
			return r.ts.Store.SaveToolStep(ctx, s)
		})
	}
	if err != nil {
		return err
	}
	r.ts.log(ctx).Info("tool call finished", zap.String("tool", s.Name), zap.String("toolkit", r.grant.SourceNodeName), zap.Int("step", s.Key.Step),
		zap.String("call", string(s.Key.CallID)), zap.Int64("attempt", int64(s.Fence.Epoch)), zap.Int64("duration_ms", s.DurationMS),
		zap.String("status", s.Result.Status), zap.ByteString("input", s.Args), zap.ByteString("output", s.Result.Output),
		zap.String("output_ref", s.Result.Ref))
	return nil
}

// boundDataset bounds a tool's description of a dataset. It returns nil if the dataset refers to no stored content.
func boundDataset(d *agent.Dataset) *agent.Dataset {
	if d == nil || !strings.HasPrefix(d.Ref, contentScheme) {
		return nil
	}
	out := agent.Dataset{Ref: d.Ref, RowCount: d.RowCount}
	for _, f := range d.Fields {
		if len(out.Fields) == maxFields {
			break
		}
		if len(f.Name) <= maxFieldName {
			out.Fields = append(out.Fields, f)
		}
	}
	return &out
}

// previewOf returns the preview of a result. A dataset has one even if its tool gave none.
func previewOf(result *agent.ToolResult, d *agent.Dataset) (json.RawMessage, error) {
	if len(result.Preview) > 0 || d == nil {
		return result.Preview, nil
	}
	return json.Marshal(struct {
		Type     string `json:"type"`
		RowCount int    `json:"row_count"`
	}{"dataset", d.RowCount})
}

// offload replaces a large output by a reference and a preview. It stores the result's data if there is any, so that the reference can be the
// input of another pipeline; a dataset is stored already.
func (r *toolRun) offload(ctx context.Context, block *agent.Block, result *agent.ToolResult, preview json.RawMessage) error {
	whole := result.Data
	if len(whole) == 0 {
		whole = block.Output
	}
	var err error
	if block.Ref == "" {
		if block.Ref, err = r.ts.Blobs.Put(ctx, r.turn.Tenant, bytes.NewReader(whole)); err != nil {
			return fmt.Errorf("store output of %s: %w", r.block.Name, err)
		}
	}
	if len(preview) == 0 || len(preview) > r.ts.InlineBytes {
		if preview, err = json.Marshal(map[string]any{"type": "json", "bytes": len(whole)}); err != nil {
			return err
		}
	}
	block.Output, err = json.Marshal(map[string]json.RawMessage{"ref": json.RawMessage(`"` + block.Ref + `"`), "preview": preview})
	return err
}
