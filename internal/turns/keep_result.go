package turns

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/turnstone-run/turnstone/agent"
)

// resultAnswer is the answer of an agent with a reference to its rows. Without rows it is the stored result.
type resultAnswer struct {
	Output     string          `json:"output"`
	Structured json.RawMessage `json:"structured,omitempty"`
	Blocks     []agent.Block   `json:"blocks"`
	DataRef    string          `json:"data_ref,omitempty"` // cas:// reference of the original rows: JSONB preserves neither order nor digits
}

// keepResult sets the result of a record: the rows of the last tool call that has a preview, or the answer if there are no rows. A result of
// MaxInlineBytes or more goes to the blob store.
func (ts *Turns) keepResult(ctx context.Context, record *agent.FinishRecord, out *agent.AgentStepOutput, tools []agent.ToolStep) error {
	answer := resultAnswer{Output: out.Output, Blocks: out.Blocks, Structured: out.Structured}
	var content json.RawMessage
	for i := range slices.Backward(tools) {
		if t := &tools[i]; len(t.Preview) > 0 {
			content = t.Data
			if t.Dataset != nil || len(content) == 0 {
				answer.DataRef = t.Result.Ref
			}
			break
		}
	}
	if len(content) == 0 && answer.DataRef != "" {
		var err error
		if content, err = ts.fetchRows(ctx, record.Tenant, answer.DataRef); err != nil {
			return err
		}
	}
	document, err := json.Marshal(answer)
	switch {
	case err != nil:
		return fmt.Errorf("encode result: %w", err)
	case len(content) == 0 && answer.DataRef == "":
		content = document
	default:
		record.Answer = document
	}
	ref := answer.DataRef
	switch {
	case len(content) > 0 && len(content) < ts.MaxInlineBytes:
		record.Result = content
		return nil
	case ref == "":
		if ref, err = ts.Blobs.Put(ctx, record.Tenant, bytes.NewReader(content)); err != nil {
			return fmt.Errorf("store result: %w", err)
		}
	}
	record.CASID, record.S3Ref = strings.TrimPrefix(ref, contentScheme), ts.Blobs.S3Ref(record.Tenant, ref)
	return nil
}

// fetchRows returns the rows that a tool has stored, or nil if they are too large for a row of the database.
func (ts *Turns) fetchRows(ctx context.Context, tenant, ref string) (json.RawMessage, error) {
	stored, err := ts.Blobs.Open(ctx, tenant, ref)
	if agent.CodeOf(err) == agent.CodeNotFound {
		return nil, nil // whoever reads the reference gets the error
	}
	if err != nil {
		return nil, fmt.Errorf("open the result's rows: %w", err)
	}
	defer stored.Close() //nolint:errcheck // only read
	rows, err := io.ReadAll(io.LimitReader(stored, int64(ts.MaxInlineBytes)))
	switch {
	case err != nil:
		return nil, fmt.Errorf("read the result's rows: %w", err)
	case len(rows) < ts.MaxInlineBytes && json.Valid(rows):
		return rows, nil
	}
	return nil, nil
}
