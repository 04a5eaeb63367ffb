package activities

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

// result is what a reference resolves to. The data stands last, so that it need not be encoded with the rest.
type result struct {
	Output     string          `json:"output"`
	Structured json.RawMessage `json:"structured,omitempty"`
	Blocks     []agent.Block   `json:"blocks"`
	DataRef    string          `json:"data_ref,omitempty"` // cas:// reference of the data as it was made; JSONB keeps neither order nor digits
	Data       json.RawMessage `json:"-"`                  // the member "data"; empty: there is none
}

// parts are the pieces of the result's JSON in order. The data, which is most of it, is not copied.
func (r *result) parts() ([][]byte, error) {
	head, err := json.Marshal(r)
	if err != nil {
		return nil, fmt.Errorf("encode result: %w", err)
	}
	if len(r.Data) == 0 {
		return [][]byte{head}, nil
	}
	return [][]byte{bytes.TrimSuffix(head, []byte("}")), []byte(`,"data":`), r.Data, []byte("}")}, nil
}

// keepResult fills in the result: inline below the bound of seed 004 §1.4, else in the blob store. The data is that of the last tool
// that has a preview.
func (a *Activities) keepResult(ctx context.Context, record *agent.FinishRecord, out *agent.AgentStepOutput, tools []agent.ToolStep) error {
	r := result{Output: out.Output, Blocks: out.Blocks, Structured: out.Structured}
	for i := range slices.Backward(tools) {
		if t := &tools[i]; len(t.Preview) > 0 {
			r.Data = t.Data
			if t.Dataset != nil || len(r.Data) == 0 {
				r.DataRef = t.Result.Ref
			}
			break
		}
	}
	if err := a.fetchData(ctx, record.Tenant, &r); err != nil {
		return err
	}
	parts, err := r.parts()
	if err != nil {
		return err
	}
	if sizeOf(parts) < a.MaxInlineBytes {
		record.Result = bytes.Join(parts, nil)
		return nil
	}
	if r.DataRef != "" { // it is stored already
		if r.Data = nil; sizeOf(parts[:1]) < a.MaxInlineBytes {
			record.Result, err = json.Marshal(&r)
			return err
		}
		if parts, err = r.parts(); err != nil {
			return err
		}
	}
	readers := make([]io.Reader, len(parts))
	for i, part := range parts {
		readers[i] = bytes.NewReader(part)
	}
	ref, err := a.Blobs.Put(ctx, record.Tenant, io.MultiReader(readers...))
	if err != nil {
		return fmt.Errorf("store result: %w", err)
	}
	record.CASID = strings.TrimPrefix(ref, contentScheme)
	return nil
}

func sizeOf(parts [][]byte) (n int) {
	for _, part := range parts {
		n += len(part)
	}
	return n
}

// fetchData takes the data that a tool has stored into the result, where it is small enough to stand in a row (seed 004 §3.2).
func (a *Activities) fetchData(ctx context.Context, tenant string, r *result) error {
	if r.DataRef == "" || len(r.Data) > 0 {
		return nil
	}
	stored, err := a.Blobs.Open(ctx, tenant, r.DataRef)
	if agent.CodeOf(err) == agent.CodeNotFound {
		return nil // whoever follows the reference is told
	}
	if err != nil {
		return fmt.Errorf("open the result's data: %w", err)
	}
	defer stored.Close() //nolint:errcheck // it was read
	data, err := io.ReadAll(io.LimitReader(stored, int64(a.MaxInlineBytes)))
	switch {
	case err != nil:
		return fmt.Errorf("read the result's data: %w", err)
	case len(data) < a.MaxInlineBytes && json.Valid(data):
		r.Data = data
	}
	return nil
}
