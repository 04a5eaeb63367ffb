package pipeline

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/dataset"
)

// openDataset returns the rows of a stored dataset. field names the reference in faults.
func (r *run) openDataset(ctx context.Context, field, ref string) ([]row, error) {
	if r.cfg.Datasets == nil {
		return nil, faultf(agent.CodeNotFound, field, "stored datasets are not available here")
	}
	rc, err := r.cfg.Datasets.Open(ctx, r.inv.Tenant, ref)
	if err != nil {
		return nil, openFault(ctx, err, field)
	}
	defer rc.Close() //nolint:errcheck // nothing is lost: it was read
	in := &contextReader{ctx: ctx, r: rc}
	rows, err := r.readRows(in, dataset.JSON)
	switch {
	case err == nil:
		return rows, nil
	case in.err != nil:
		return nil, openFault(ctx, in.err, field)
	default:
		return nil, contentFault(err, field, "the dataset")
	}
}

// openFault returns a fault for a mistake of the model, and an error for a store that is not available.
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

// contextReader is a reader that fails when the call's context ends. It keeps its read error, which is thereby distinguished from a fault of
// the content.
type contextReader struct {
	ctx context.Context
	r   io.Reader
	err error
}

func (s *contextReader) Read(p []byte) (int, error) {
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

// readRows returns the rows of a document. If the next step needs the document itself, readRows keeps it too; a document in which no rows can
// be found is then a single row.
func (r *run) readRows(in io.Reader, f dataset.Format) ([]row, error) {
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
		// As the only element of an array, the document is checked as strictly, but is not searched for rows.
		single, singleErr := dataset.ReadJSON(io.MultiReader(strings.NewReader("["), bytes.NewReader(body), strings.NewReader("]")), limits)
		if singleErr != nil || len(single) != 1 {
			return nil, err
		}
		rows = single
	}
	if len(body) > 0 && body[0] == '{' { // the rows of an array are the whole document
		r.document = body
	}
	return rows, nil
}

// contentFault returns the fault of content that cannot be read. subject begins the message, such as "the dataset"; field is the argument.
func contentFault(err error, field, subject string) *fault {
	f := faultOf(err, "")
	if f.failure.Field != "" {
		subject += ", " + f.failure.Field + ":"
	}
	f.failure.Field, f.failure.Message = field, subject+" "+f.failure.Message
	return f
}
