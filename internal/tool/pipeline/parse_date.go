package pipeline

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"strings"
	"time"

	"github.com/itchyny/timefmt-go"

	"github.com/turnstone-run/turnstone/internal/clip"
)

const (
	maxFormat = 200 // bytes
	maxDate   = 200
)

// parseDate rewrites the dates of a field as RFC 3339 in UTC: {"step":"parse_date","field":"created_at","format":"%Y-%m-%d"}. The format is
// that of strftime; without one the common forms of ISO 8601 are accepted. A date without a zone is UTC. Null and missing values stay.
type parseDate struct {
	field  *path
	format string // empty: ISO 8601
}

func decodeParseDate(raw json.RawMessage) (step, error) {
	var in struct {
		Field  *string `json:"field"`
		Format *string `json:"format"`
	}
	if err := decodeFields(raw, &in); err != nil {
		return nil, err
	}
	if in.Field == nil {
		return nil, invalid("field", "is required")
	}
	field, err := parsePath("field", *in.Field)
	if err != nil {
		return nil, err
	}
	s := &parseDate{field: field}
	if in.Format != nil {
		s.format = *in.Format
		err = checkFormat(s.format)
	}
	return s, err
}

// checkFormat returns a fault for a format that cannot parse dates: it formats a date and parses the result.
func checkFormat(format string) error {
	switch {
	case len(format) > maxFormat:
		return invalid("format", "is %d bytes, at most %d", len(format), maxFormat)
	case !strings.Contains(format, "%"):
		return invalid("format", "%q has no directive: want strftime's, such as %%Y-%%m-%%d", clip.Bytes(format, maxQuote))
	}
	written := timefmt.Format(time.Date(2006, 1, 2, 15, 4, 5, 0, time.UTC), format)
	if _, err := timefmt.ParseInLocation(written, format, time.UTC); err != nil {
		return invalid("format", "%q reads no date: %s", clip.Bytes(format, maxQuote), clip.Bytes(formatError(err), maxQuote))
	}
	return nil
}

// formatError returns the message of a parse error without the date and the format, which may be long.
func formatError(err error) string {
	if inner := errors.Unwrap(err); inner != nil {
		return inner.Error()
	}
	return err.Error()
}

func (s *parseDate) run(ctx context.Context, r *run, rows []row) ([]row, error) {
	found := false
	w := r.newWriter(len(rows))
	for i := range rows {
		from, err := objectRow(ctx, rows, i)
		if err != nil {
			return nil, err
		}
		start, end, ok := s.field.span(from)
		found = found || ok
		w.beginRow(len(from) + len(time.RFC3339Nano) + 2)
		if !ok || from[start] == 'n' {
			w.buf = append(w.buf, from...)
		} else {
			t, err := s.parseValue(i, from[start:end])
			if err != nil {
				return nil, err
			}
			w.buf = append(append(w.buf, from[:start]...), '"')
			w.buf = append(append(t.AppendFormat(w.buf, time.RFC3339Nano), '"'), from[end:]...)
		}
		if err := w.endRow(); err != nil {
			return nil, err
		}
	}
	if !found && len(rows) > 0 {
		return nil, noSuchField("field", s.field, rows)
	}
	return w.rows, nil
}

// parseValue returns the date of row i in UTC. The value is a string or a number, such as the seconds since 1970 of %s.
func (s *parseDate) parseValue(i int, raw json.RawMessage) (time.Time, error) {
	var text []byte
	switch kind := kindName(raw); kind {
	case "a string":
		text = bytes.TrimSpace(unquote(raw))
	case "a number":
		text = raw
	default:
		return time.Time{}, valueFault("field", i, s.field, "is %s, not a date", kind)
	}
	if len(text) > maxDate {
		return time.Time{}, valueFault("field", i, s.field, "%q… is no date: it has %d bytes", text[:20], len(text))
	}
	t, problem := s.parse(string(text))
	if problem != "" {
		return time.Time{}, valueFault("field", i, s.field, "%q %s", clip.Bytes(string(text), maxQuote), clip.Bytes(problem, maxQuote))
	}
	t = t.UTC()
	if y := t.Year(); y < 0 || y > 9999 {
		return time.Time{}, valueFault("field", i, s.field, "%q is in the year %d, which RFC 3339 cannot write", clip.Bytes(string(text), maxQuote), y)
	}
	return t, nil
}
