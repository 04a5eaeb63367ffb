package pipeline

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/dataset"
)

// openDataset reads the stored dataset of a reference; field names it in faults.
func (r *run) openDataset(ctx context.Context, field, ref string) ([]row, error) {
	if r.cfg.Datasets == nil {
		return nil, faultf(agent.CodeNotFound, field, "stored datasets are not available here")
	}
	rc, err := r.cfg.Datasets.Open(ctx, r.inv.Tenant, ref)
	if err != nil {
		return nil, openFault(ctx, err, field)
	}
	defer rc.Close() //nolint:errcheck // nothing is lost: it was read
	in := &source{ctx: ctx, r: rc}
	rows, err := r.read(in, dataset.JSON)
	switch {
	case err == nil:
		return rows, nil
	case in.err != nil:
		return nil, openFault(ctx, in.err, field)
	default:
		return nil, contentFault(err, field, "the dataset")
	}
}

// openFault returns a fault for what the model did wrong, and an error for a store that is away.
func openFault(ctx context.Context, err error, field string) error {
	if ctx.Err() != nil {
		return contextError(ctx)
	}
	switch agent.CodeOf(err) {
	case agent.CodeNotFound, agent.CodeInvalid, agent.CodeDenied, agent.CodeOverflow:
		return faultOf(err, field)
	default:
		return fmt.Errorf("read dataset: %w", err)
	}
}

// source is a reader that ends with the call's context and remembers what went wrong, to be told from what is wrong with the content.
type source struct {
	ctx context.Context
	r   io.Reader
	err error
}

func (s *source) Read(p []byte) (int, error) {
	if err := s.ctx.Err(); err != nil {
		s.err = err
		return 0, err
	}
	n, err := s.r.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		s.err = err
	}
	return n, err
}

// read reads rows and, where the next step wants it, the document that they are in. There the document may be one whose rows nobody
// could name, because the step will: then it is the one row.
func (r *run) read(in io.Reader, f dataset.Format) ([]row, error) {
	limits := dataset.Limits{Rows: r.cfg.MaxRows, Bytes: r.cfg.MaxBytes}
	if !r.keepDocument || f != dataset.JSON {
		return dataset.Read(in, f, limits)
	}
	body, err := io.ReadAll(io.LimitReader(in, limits.Bytes+1))
	if err != nil {
		return nil, err
	}
	if int64(len(body)) > limits.Bytes {
		return nil, agent.Errorf(agent.CodeOverflow, "", "is larger than %d bytes", limits.Bytes)
	}
	body = bytes.TrimSpace(bytes.TrimPrefix(body, []byte("\ufeff")))
	rows, err := dataset.ReadJSON(bytes.NewReader(body), limits)
	if err != nil {
		// Read as the one element of an array it is checked as strictly, but nobody looks for rows in it.
		one, alone := dataset.ReadJSON(io.MultiReader(bytes.NewReader([]byte("[")), bytes.NewReader(body), bytes.NewReader([]byte("]"))), limits)
		if alone != nil || len(one) != 1 {
			return nil, err
		}
		rows = one
	}
	if len(body) > 0 && body[0] == '{' { // an array is its rows
		r.document = body
	}
	return rows, nil
}

// contentFault returns the fault of content that cannot be read: where it is, and what is wrong there.
func contentFault(err error, field, what string) *fault {
	f := faultOf(err, "")
	if f.failure.Field != "" {
		what += ", " + f.failure.Field + ":"
	}
	f.failure.Field, f.failure.Message = field, what+" "+f.failure.Message
	return f
}
