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

// Rows returns the rows of stored results. postgres.ResultStore implements it.
type Rows interface {
	Result(ctx context.Context, tenant, ref string) (postgres.ResultRow, error)
}

// Blobs opens stored content. blob.Store implements it.
type Blobs interface {
	Open(ctx context.Context, tenant, ref string) (io.ReadCloser, error)
}

// Reader opens datasets of results and content. It is a [tool.Datasets].
type Reader struct {
	Store Rows
	Blobs Blobs
}

// Open returns the content of cas://sha256:<hex>, or the rows of the result artifact://<result id>, in their original form if that is still stored. A
// result without rows is one row: the document {output, blocks, structured}. A result in the blob store is read as a stream. When Read returns
// io.EOF, all content was read and verified. ctx must not end before the reader is closed.
//
// The error for any other reference is [agent.CodeInvalid]. It is [agent.CodeNotFound], with the same text, if the tenant has no such reference and if
// the content was removed.
func (r Reader) Open(ctx context.Context, tenant, ref string) (io.ReadCloser, error) {
	if !agent.ValidName(tenant) { // the store takes agent.AnyTenant for all tenants
		return nil, agent.Invalid("tenant", "%.150q is not a tenant", tenant)
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

// members has the members of a result's document that contain its rows or refer to them.
type members struct {
	Data    json.RawMessage `json:"data"`
	DataRef string          `json:"data_ref"`
}

// result opens the rows of a result.
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
		return r.openStored(ctx, tenant, stored)
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
	if m.DataRef != "" { // the stored rows have the order of keys and all digits, which the JSON of the table does not keep
		original, err := r.Blobs.Open(ctx, tenant, m.DataRef)
		if agent.CodeOf(err) != agent.CodeNotFound || !hasValue(m.Data) {
			return original, err
		}
	}
	if hasValue(m.Data) {
		return io.NopCloser(bytes.NewReader(m.Data)), nil
	}
	return oneRow(io.NopCloser(bytes.NewReader(row.Data))), nil
}

// oneRow returns a document as an array of one row.
func oneRow(document io.ReadCloser) io.ReadCloser {
	return struct {
		io.Reader
		io.Closer
	}{io.MultiReader(strings.NewReader("["), document, strings.NewReader("]")), document}
}

// hasValue reports whether raw is neither missing nor null.
func hasValue(raw json.RawMessage) bool { return len(raw) > 0 && string(raw) != "null" }

// openStored opens the rows of a result whose document is in the blob store.
func (r Reader) openStored(ctx context.Context, tenant, ref string) (io.ReadCloser, error) {
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
	document, err = r.Blobs.Open(ctx, tenant, ref) // again from its beginning
	if err != nil {
		return nil, err
	}
	return oneRow(document), nil
}
