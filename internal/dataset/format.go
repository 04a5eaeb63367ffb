package dataset

import (
	"encoding/json"
	"io"
	"mime"
	"strings"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/clip"
)

// Row is one row, well-formed JSON of any kind; most are objects.
type Row = json.RawMessage

// Format is how rows are written down.
type Format string

// The formats.
const (
	JSON        Format = "json"
	NDJSON      Format = "ndjson" // a JSON value on each line; also JSON text sequences (RFC 7464)
	CSV         Format = "csv"    // RFC 4180 with a header, UTF-8
	CSVNoHeader Format = "csv;header=absent"
)

// The default bounds, and those that no caller changes.
const (
	DefaultRows  = 1_000_000
	DefaultBytes = 256 << 20

	MaxDepth   = 500   // of nesting
	MaxColumns = 1_000 // of a CSV
)

// Limits bound what is read.
type Limits struct {
	Rows  int   // 0: [DefaultRows]
	Bytes int64 // of the body; 0: [DefaultBytes]. Rows that were CSV may be eight times as long.
}

func (l Limits) rows() int {
	if l.Rows <= 0 {
		return DefaultRows
	}
	return l.Rows
}

func (l Limits) bytes() int64 {
	if l.Bytes <= 0 {
		return DefaultBytes
	}
	return l.Bytes
}

// MediaType returns the media type of the format.
func (f Format) MediaType() string {
	switch f {
	case NDJSON:
		return "application/x-ndjson"
	case CSV:
		return "text/csv; charset=utf-8"
	case CSVNoHeader:
		return "text/csv; charset=utf-8; header=absent"
	default:
		return "application/json"
	}
}

// Media returns the format of a media type. The error is [agent.CodeInvalid] about content_type.
func Media(contentType string) (Format, error) {
	media, params, err := mime.ParseMediaType(contentType)
	if err != nil {
		return "", agent.Invalid("content_type", "%q is no media type", clip.Bytes(contentType, maxQuoted))
	}
	charset := strings.ToLower(params["charset"])
	known := charset == "" || charset == "utf-8" || charset == "utf8" || charset == "us-ascii"
	switch {
	case media == "application/json", media == "text/json", strings.HasSuffix(media, "+json"):
		return JSON, nil // JSON is UTF-8, whatever charset says (RFC 8259 §11)
	case media == "application/x-ndjson", media == "application/ndjson", media == "application/jsonl", media == "application/x-jsonlines",
		media == "application/json-seq", strings.HasSuffix(media, "+json-seq"):
		return NDJSON, nil
	case media == "text/csv" || media == "application/csv":
		switch {
		case !known:
			return "", agent.Invalid("content_type", "charset %q is not read: want utf-8", clip.Bytes(charset, maxQuoted))
		case strings.EqualFold(params["header"], "absent"):
			return CSVNoHeader, nil
		}
		return CSV, nil
	default:
		return "", agent.Invalid("content_type", "%q is not read: want JSON, NDJSON or CSV", clip.Bytes(media, maxQuoted))
	}
}

// Read reads rows of a format.
func Read(r io.Reader, f Format, l Limits) ([]Row, error) {
	switch f {
	case JSON:
		return ReadJSON(r, l)
	case NDJSON:
		return ReadNDJSON(r, l)
	case CSV, CSVNoHeader:
		return readCSV(r, l, f == CSV)
	default:
		return nil, agent.Invalid("format", "%q is unknown: want json, ndjson or csv", clip.Bytes(string(f), maxQuoted))
	}
}
