package results

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/postgres"
)

const (
	opOpen         = "open dataset"
	casScheme      = "cas://"
	artifactScheme = "artifact://"
)

// Rows finds stored results; postgres.Store does.
type Rows interface {
	Result(ctx context.Context, tenant, ref string) (postgres.ResultRow, error)
}

// Blobs opens stored content; blob.Store does.
type Blobs interface {
	Open(ctx context.Context, tenant, ref string) (io.ReadCloser, error)
}

// Reader opens datasets: it is the [tool.Datasets] of results and content.
type Reader struct {
	Store Rows
	Blobs Blobs
}

// Open returns what a reference names: for cas://sha256:<hex> the content, for artifact://<result id> the rows of the result, as they were made
// where they are still stored; for a result without rows the document {output, blocks, structured} as the one row. A result that
// lies in the blob store is read as a stream. Whole content was read, and is proven, once Read has answered io.EOF. ctx must live until the
// reader is closed.
//
// [agent.CodeInvalid] for what is neither reference, [agent.CodeNotFound] for one that the tenant does not have or whose content is gone,
// in the same words.
func (r Reader) Open(ctx context.Context, tenant, ref string) (io.ReadCloser, error) {
	if !agent.ValidName(tenant) { // the store knows one that is all of them
		return nil, agent.Invalid("tenant", "%.150q is no tenant", tenant)
	}
	var (
		body io.ReadCloser
		err  error
	)
	switch {
	case strings.HasPrefix(ref, casScheme):
		body, err = r.Blobs.Open(ctx, tenant, ref)
	case strings.HasPrefix(ref, artifactScheme):
		body, err = r.result(ctx, tenant, ref)
	default:
		return nil, agent.Invalid("ref", "want cas://sha256:<digest> or artifact://<result id>, got %.100q", ref)
	}
	if agent.CodeOf(err) == agent.CodeNotFound {
		return nil, agent.Errorf(agent.CodeNotFound, opOpen, "%.100q is not known", ref)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", opOpen, err)
	}
	return body, nil
}

// members are the parts of a result's document that say where its rows are.
type members struct {
	Data    json.RawMessage `json:"data"`
	DataRef string          `json:"data_ref"`
}

func (r Reader) result(ctx context.Context, tenant, ref string) (io.ReadCloser, error) {
	row, err := r.Store.Result(ctx, tenant, ref)
	if err != nil {
		return nil, err
	}
	stored := row.ContentRef()
	switch {
	case len(row.Data) == 0 && stored == "":
		return nil, agent.Errorf(agent.CodeNotFound, "", "the result has no content")
	case len(row.Answer) > 0 && stored != "":
		return r.Blobs.Open(ctx, tenant, stored)
	case stored != "":
		return r.stored(ctx, tenant, stored)
	}
	var m members
	document := row.Data
	if len(row.Answer) > 0 {
		document = row.Answer
	}
	if err := json.Unmarshal(document, &m); err != nil {
		return nil, agent.Errorf(agent.CodeInternal, "", "decode result: %w", err)
	}
	if len(row.Answer) > 0 {
		m.Data = row.Data
	}
	if m.DataRef != "" { // as they were made: the row's JSON has lost their order and their digits
		stored, err := r.Blobs.Open(ctx, tenant, m.DataRef)
		if agent.CodeOf(err) != agent.CodeNotFound || !present(m.Data) {
			return stored, err
		}
	}
	if present(m.Data) {
		return io.NopCloser(bytes.NewReader(m.Data)), nil
	}
	return oneRow(io.NopCloser(bytes.NewReader(row.Data))), nil
}

// oneRow makes a document without rows the only one.
func oneRow(document io.ReadCloser) io.ReadCloser {
	return struct {
		io.Reader
		io.Closer
	}{io.MultiReader(strings.NewReader("["), document, strings.NewReader("]")), document}
}

func present(raw json.RawMessage) bool { return len(raw) > 0 && string(raw) != "null" }

// stored opens the rows of a result whose document is content itself.
func (r Reader) stored(ctx context.Context, tenant, ref string) (io.ReadCloser, error) {
	document, err := r.Blobs.Open(ctx, tenant, ref)
	if err != nil {
		return nil, err
	}
	data, dataRef, err := findRows(document)
	if err == nil && data != nil {
		return &member{value: data, document: document}, nil
	}
	closeErr := document.Close()
	switch {
	case err != nil:
		return nil, err
	case closeErr != nil:
		return nil, closeErr
	case dataRef != "":
		return r.Blobs.Open(ctx, tenant, dataRef)
	}
	whole, err := r.Blobs.Open(ctx, tenant, ref)
	if err != nil {
		return nil, err
	}
	return oneRow(whole), nil
}
