package gateway

import (
	"context"
	"errors"
	"io"
	"mime"
	"net/http"
	"strings"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/dataset"
)

// maxFilename bounds the name under which a browser saves an export.
const maxFilename = 100

// formatOf returns the format that the parameter names, else the first one of Accept, else JSON.
func formatOf(name string, h http.Header) (dataset.Format, error) {
	switch f := dataset.Format(name); f {
	case dataset.JSON, dataset.CSV, dataset.NDJSON:
		return f, nil
	case "":
		return acceptedFormat(h), nil
	default:
		return "", agent.Invalid("format", "want json, csv or ndjson, got %.60q", name)
	}
}

func acceptedFormat(h http.Header) dataset.Format {
	for media := range acceptedMedia(h) {
		if f, err := dataset.Media(media); err == nil {
			return f
		}
	}
	return dataset.JSON
}

// getData is GET /v1/results/{ref}/data?format=json|csv|ndjson&spreadsheet=true: the rows of a result, streamed as they are read. A fault
// among the first rows is a status; once the response has begun it cuts the connection.
func (s *httpServer) getData(c *Call, ref string) error {
	q := c.query
	format, err := formatOf(q.text("format", maxText), c.r.Header)
	if err != nil {
		q.fault(err)
	}
	var options []dataset.Option
	if q.bool("spreadsheet") {
		if format == dataset.JSON || format == dataset.NDJSON {
			q.fault(agent.Invalid("spreadsheet", "is for CSV, not for %s", format))
		}
		options = append(options, dataset.ForSpreadsheets())
	}
	if err := q.end(); err != nil {
		return err
	}
	leave, err := s.enter()
	if err != nil {
		return err
	}
	defer leave()
	ctx, cancel := s.whileOpen(c.r.Context())
	defer cancel()
	rows := &rowSource{ctx: ctx, open: func() (io.ReadCloser, error) {
		return openWithin(s.cfg.Limits.CallTimeout, cancel, func() (io.ReadCloser, error) {
			return s.cfg.Results.Dataset(ctx, c.caller.lookupTenant(), ref)
		})
	}}
	if err := rows.begin(); err != nil {
		return err
	}
	defer rows.close()
	out := &bodyWriter{ctx: ctx, s: s, w: c.w, header: func(h http.Header) {
		h.Set("Content-Type", format.MediaType())
		h.Set("Cache-Control", "no-store")
		h["Vary"] = append([]string{"Accept"}, h["Vary"]...)
		h.Set("Content-Disposition", mime.FormatMediaType("attachment", map[string]string{"filename": filename(ref, format)}))
	}}
	if c.r.Method != http.MethodHead {
		if err = dataset.Export(out, rows.next, format, options...); err != nil && rows.err != nil {
			err = rows.err // the cause of the error of the export
		}
	}
	switch {
	case err == nil:
		out.begin() // if there are no rows
		return nil
	case !out.begun:
		return err
	default:
		return s.breakOff(c.w, out, err)
	}
}

// rowSource opens the rows of a result as often as an export reads them. The first time is before the response begins, so that a result
// that is not there is a status.
type rowSource struct {
	ctx   context.Context
	open  func() (io.ReadCloser, error)
	first io.ReadCloser
	err   error // why they cannot be read to their end
}

func (d *rowSource) begin() (err error) {
	d.first, err = d.open()
	return err
}

// next is what [dataset.Export] opens.
func (d *rowSource) next() (io.ReadCloser, error) {
	body := d.first
	if d.first = nil; body == nil {
		var err error
		if body, err = d.open(); err != nil {
			return nil, err
		}
	}
	return &rowReader{ReadCloser: body, of: d}, nil
}

func (d *rowSource) close() {
	if d.first != nil {
		_ = d.first.Close() // read-only
	}
}

// rowReader is one pass over the rows. It stops when the context ends: the pass that finds the columns of a CSV writes nothing that could
// fail.
type rowReader struct {
	io.ReadCloser

	of *rowSource
}

func (r *rowReader) Read(p []byte) (int, error) {
	if r.of.ctx.Err() != nil {
		r.of.err = context.Cause(r.of.ctx)
		return 0, r.of.err
	}
	n, err := r.ReadCloser.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		r.of.err = err
		if r.of.ctx.Err() != nil {
			r.of.err = context.Cause(r.of.ctx)
		}
	}
	return n, err
}

// filename returns the name under which a browser saves an export: the result's id, or the beginning of its digest.
func filename(ref string, f dataset.Format) string {
	name := ref
	if at := strings.LastIndexAny(name, ":/"); at >= 0 {
		name = name[at+1:]
	}
	name = strings.Map(func(c rune) rune {
		switch {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', c == '.', c == '_', c == '-':
			return c
		default:
			return '-'
		}
	}, name)
	name = strings.TrimLeft(name[:min(len(name), maxFilename)], ".")
	if name == "" {
		name = "result"
	}
	extension, _, _ := strings.Cut(string(f), ";")
	return name + "." + extension
}
