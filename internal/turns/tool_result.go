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
	maxFields     = 50  // in the description of a dataset
	maxFieldName  = 256 // bytes; fields with longer names are left out
)

// newStep returns the step to store for a result. It moves a large output to the blob store and replaces it by a reference and a preview.
func (r *toolRun) newStep(ctx context.Context, fence agent.Fence, result agent.ToolResult, took time.Duration) (agent.ToolStep, error) {
	block := agent.Block{Type: agent.BlockToolResult, ToolCallID: r.key.CallID, Name: r.block.Name, Status: agent.ResultSuccess}
	if result.Failure != nil {
		output, err := json.Marshal(map[string]*agent.Failure{"error": result.Failure})
		if err != nil {
			return agent.ToolStep{}, err
		}
		block.Status = agent.ResultError
		result = agent.ToolResult{Output: output, Failure: result.Failure} // a failed call has no data
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
		verdict.Ref = block.Ref // an output that is not offloaded contains its own reference
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

// maxRepeatedMS bounds the duration of a call whose result is stored later: if the process dies, the call has to be repeated.
const maxRepeatedMS = 1000

// saveStep stores a finished call and logs it with its input and output, which the logger redacts and shortens.
func (r *toolRun) saveStep(ctx context.Context, s agent.ToolStep) error {
	var err error
	if s.Later = r.in.Later && s.DurationMS < maxRepeatedMS && (r.tool == nil || r.noEffects || isEffectFree(r.tool, s.Args)); s.Later {
		err = r.ts.Store.SaveToolStep(ctx, s) // the log stores the events
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

// boundDataset returns a tool's description of a dataset with at most maxFields fields. It returns nil if the dataset does not refer to stored content.
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

// previewOf returns the preview of a result. If the tool has given none for a dataset, it makes one.
func previewOf(result *agent.ToolResult, d *agent.Dataset) (json.RawMessage, error) {
	if len(result.Preview) > 0 || d == nil {
		return result.Preview, nil
	}
	return json.Marshal(struct {
		Type     string `json:"type"`
		RowCount int    `json:"row_count"`
	}{"dataset", d.RowCount})
}

// offload replaces a large output by a reference and a preview. The reference is to the result's data, if there is any, so that it can be the input of
// another pipeline; otherwise to the output. A dataset is already stored.
func (r *toolRun) offload(ctx context.Context, block *agent.Block, result *agent.ToolResult, preview json.RawMessage) error {
	content := result.Data
	if len(content) == 0 {
		content = block.Output
	}
	var err error
	if block.Ref == "" {
		if block.Ref, err = r.ts.Blobs.Put(ctx, r.turn.Tenant, bytes.NewReader(content)); err != nil {
			return fmt.Errorf("store output of %s: %w", r.block.Name, err)
		}
	}
	if len(preview) == 0 || len(preview) > r.ts.InlineBytes {
		if preview, err = json.Marshal(map[string]any{"type": "json", "bytes": len(content)}); err != nil {
			return err
		}
	}
	block.Output, err = json.Marshal(map[string]json.RawMessage{"ref": json.RawMessage(`"` + block.Ref + `"`), "preview": preview})
	return err
}
