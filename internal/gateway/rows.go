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

// maxFilename is the maximum length of the file name of an export in bytes.
const maxFilename = 100

// formatOf returns the format that the parameter names, else the first supported one of Accept, else JSON.
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

// readFormat reads ?format=json|csv|ndjson&spreadsheet=true.
func (c *Call) readFormat() (format dataset.Format, options []dataset.Option, err error) {
	format, err = formatOf(c.query.text("format", maxText), c.r.Header)
	if err != nil {
		c.query.fail(err)
	}
	if c.query.bool("spreadsheet") {
		if format == dataset.JSON || format == dataset.NDJSON {
			c.query.fail(agent.Invalid("spreadsheet", "is for CSV, not for %s", format))
		}
		options = append(options, dataset.ForSpreadsheets())
	}
	return format, options, c.query.validate()
}

// getData is GET /v1/results/{ref}/data?format=json|csv|ndjson&spreadsheet=true. It streams the rows of a result as they are read. An error before
// the first row is an error response; a later one cuts the connection.
func (s *httpServer) getData(c *Call, ref string) error {
	format, options, err := c.readFormat()
	if err != nil {
		return err
	}
	leave, err := s.enter()
	if err != nil {
		return err
	}
	defer leave()
	ctx, cancel := s.streamContext(c.r.Context())
	defer cancel()
	rows := &rowSource{ctx: ctx, open: func() (io.ReadCloser, error) {
		return openWithin(s.cfg.Limits.CallTimeout, cancel, func() (io.ReadCloser, error) {
			return s.cfg.Results.Dataset(ctx, c.caller.lookupTenant(), ref)
		})
	}}
	if rows.first, err = rows.open(); err != nil {
		return err
	}
	defer rows.close()
	out := &bodyWriter{ctx: ctx, s: s, w: c.w, setHeader: func(h http.Header) { setDataHeader(h, ref, format) }}
	if c.r.Method != http.MethodHead {
		if err = dataset.Export(out, rows.openPass, format, options...); err != nil && rows.err != nil { // rows.err caused err
			err = rows.err
		}
	}
	switch {
	case err == nil:
		out.begin() // there may be no rows
		return nil
	case !out.isBegun:
		return err
	default:
		return s.abort(c.w, out, err)
	}
}

// setDataHeader describes the rows of a result as a file that must not be stored.
func setDataHeader(h http.Header, ref string, format dataset.Format) {
	h.Set("Content-Type", format.MediaType())
	h.Set("Cache-Control", "no-store")
	h["Vary"] = append([]string{"Accept"}, h["Vary"]...)
	h.Set("Content-Disposition", mime.FormatMediaType("attachment", map[string]string{"filename": filename(ref, format)}))
}

// rowSource opens the rows of a result for each pass of an export.
type rowSource struct {
	ctx   context.Context
	open  func() (io.ReadCloser, error)
	first io.ReadCloser // for the first pass, opened before the response begins
	err   error         // of a failed read
}

// openPass opens the rows for the next pass.
func (s *rowSource) openPass() (io.ReadCloser, error) {
	body := s.first
	s.first = nil
	if body == nil {
		var err error
		if body, err = s.open(); err != nil {
			return nil, err
		}
	}
	return &rowReader{ReadCloser: body, source: s}, nil
}

func (s *rowSource) close() {
	if s.first != nil {
		_ = s.first.Close() // read-only
	}
}

// rowReader reads the rows in one pass, until the context ends. A pass that only looks for the columns of a CSV writes nothing, so no failing Write
// would stop it.
type rowReader struct {
	io.ReadCloser

	source *rowSource
}

func (r *rowReader) Read(p []byte) (int, error) {
	s := r.source
	if s.ctx.Err() != nil {
		s.err = context.Cause(s.ctx)
		return 0, s.err
	}
	n, err := r.ReadCloser.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		s.err = err
		if s.ctx.Err() != nil {
			s.err = context.Cause(s.ctx)
		}
	}
	return n, err
}

// filename returns the file name of an export: the result's id or digest, with the extension of the format.
func filename(ref string, f dataset.Format) string {
	name := ref[strings.LastIndexAny(ref, ":/")+1:]
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
