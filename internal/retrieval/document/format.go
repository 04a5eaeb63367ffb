package document

import (
	"bytes"
	"context"
	"mime"
	"net/http"
	"path"
	"regexp"
	"strings"
	"unicode/utf8"

	"github.com/turnstone-run/turnstone/agent"
)

// The MIME types of the formats.
const (
	MIMEText     = "text/plain"
	MIMEMarkdown = "text/markdown"
	MIMEHTML     = "text/html"
	MIMEPDF      = "application/pdf"
	MIMEJSONL    = "application/x-ndjson"
)

const formats = "text, Markdown, HTML, PDF or JSONL"

// Parse reads a file. Its format is the MIME type. If that is empty or application/octet-stream, the extension of the name counts, and if that is
// unknown, the content. Text has to be UTF-8, or UTF-16 with a byte order mark. HTML may declare any encoding. In a PDF, glyphs without text become
// U+FFFD. NUL characters are removed.
//
// An error is [agent.CodeInvalid] with the field mime_type for an unknown format, body for content that does not match its format, or document_line for
// a line of JSONL. It is [agent.CodeOverflow] if a bound is exceeded.
func Parse(ctx context.Context, f File) ([]Document, error) {
	if len(f.Data) > MaxBytes {
		return nil, agent.FieldErrorf(agent.CodeOverflow, "body", "is larger than %d MiB", MaxBytes>>20)
	}
	format, err := formatOf(f)
	if err != nil {
		return nil, err
	}
	if format == MIMEJSONL {
		return parseJSONL(ctx, f.Data)
	}
	var d Document
	switch format {
	case MIMEPDF:
		d, err = parsePDF(ctx, f.Data)
	case MIMEHTML:
		d, err = parseHTML(f.Data, f.MIMEType)
	case MIMEMarkdown:
		d, err = parseMarkdown(f.Data)
	default:
		d, err = parseText(f.Data)
	}
	if err != nil {
		return nil, err
	}
	if err := agent.Interrupted(ctx, "read document"); err != nil {
		return nil, err
	}
	if len(d.Sections) == 0 {
		return nil, agent.Invalid("body", "holds no text")
	}
	d.MIMEType = format
	return []Document{d}, nil
}

// formatOf returns the format of a file, by its MIME type, its name or its content.
func formatOf(f File) (string, error) {
	if f.MIMEType != "" {
		media, _, err := mime.ParseMediaType(f.MIMEType)
		if err != nil {
			return "", agent.Invalid("mime_type", "%q: %w", f.MIMEType, err)
		}
		switch media {
		case "text/plain":
			return MIMEText, nil
		case "text/markdown", "text/x-markdown":
			return MIMEMarkdown, nil
		case "text/html", "application/xhtml+xml":
			return MIMEHTML, nil
		case "application/pdf", "application/x-pdf":
			return MIMEPDF, nil
		case "application/x-ndjson", "application/ndjson", "application/jsonl", "application/x-jsonl", "application/jsonlines", "application/x-jsonlines":
			return MIMEJSONL, nil
		case "application/octet-stream", "binary/octet-stream": // sent by clients that do not know the type
		default:
			return "", agent.Invalid("mime_type", "%s is not read: give %s", media, formats)
		}
	}
	switch strings.ToLower(path.Ext(f.Name)) {
	case ".txt", ".text":
		return MIMEText, nil
	case ".md", ".markdown", ".mdown", ".mkd":
		return MIMEMarkdown, nil
	case ".html", ".htm", ".xhtml":
		return MIMEHTML, nil
	case ".pdf":
		return MIMEPDF, nil
	case ".jsonl", ".ndjson":
		return MIMEJSONL, nil
	default:
		return detectFormat(f)
	}
}

var headingLine = regexp.MustCompile(`(?m)^#{1,6} \S`)

// detectFormat returns the format of a file by its content.
func detectFormat(f File) (string, error) {
	media, _, _ := mime.ParseMediaType(http.DetectContentType(f.Data))
	switch {
	case bytes.HasPrefix(f.Data, []byte("%PDF-")):
		return MIMEPDF, nil
	case media == "text/html":
		return MIMEHTML, nil
	case hasUTF16Mark(f.Data):
		return MIMEText, nil
	case len(f.Data) == 0:
		return "", agent.Invalid("body", "is empty")
	case bytes.IndexByte(f.Data, 0) >= 0 || !utf8.Valid(f.Data):
		if media == "text/plain" { // DetectContentType reads 512 bytes only
			media = "application/octet-stream"
		}
		return "", agent.Invalid("mime_type", "%s is not read: give %s", strings.TrimSpace(f.Name+" ("+media+")"), formats)
	case looksLikeJSONL(f.Data):
		return MIMEJSONL, nil
	case headingLine.Match(f.Data):
		return MIMEMarkdown, nil
	default:
		return MIMEText, nil
	}
}
