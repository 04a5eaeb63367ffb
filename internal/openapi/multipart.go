package openapi

import (
	"bytes"
	"context"
	"encoding/base64"
	"fmt"
	"io"
	"mime/multipart"
	"net/textproto"
	"slices"
	"strings"

	"golang.org/x/net/http/httpguts"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/clip"
	"github.com/turnstone-run/turnstone/internal/tool"
)

// file is the content of a part or a body.
type file struct {
	data      []byte
	name      string
	mediaType string
}

// isFile reports whether a value is a reference to content, or an object with a reference or with content in base64.
func isFile(v any) bool {
	switch v := v.(type) {
	case string:
		return strings.HasPrefix(v, "cas://")
	case map[string]any:
		_, hasRef := v["ref"].(string)
		_, hasContent := v["base64"].(string)
		for name := range v {
			if !slices.Contains([]string{"ref", "base64", "filename", "content_type"}, name) {
				return false
			}
		}
		return hasRef != hasContent
	default:
		return false
	}
}

// withoutFiles returns a form with its files replaced by strings, because schemas describe files as strings.
func withoutFiles(value any) any {
	switch value := value.(type) {
	case map[string]any:
		if isFile(value) {
			return "file"
		}
		out := make(map[string]any, len(value))
		for name, v := range value {
			out[name] = withoutFiles(v)
		}
		return out
	case []any:
		out := make([]any, len(value))
		for i, v := range value {
			out[i] = withoutFiles(v)
		}
		return out
	default:
		return value
	}
}

// readFile reads the content of a file; ok is false if the value is not a file. used is the number of bytes that the body already has.
func (b *requestBuilder) readFile(ctx context.Context, v any, field string, used int) (f file, ok bool, err error) {
	if !isFile(v) {
		return file{}, false, nil
	}
	ref, _ := v.(string)
	m, _ := v.(map[string]any)
	if m != nil {
		ref, _ = m["ref"].(string)
		f.name, _ = m["filename"].(string)
		f.mediaType, _ = m["content_type"].(string)
	}
	if encoded, isText := m["base64"].(string); isText {
		if f.data, err = base64.StdEncoding.DecodeString(encoded); err != nil {
			b.addProblem(field + ".base64: is no base64")
			return f, true, nil
		}
		f.data, err = limitBody(f.data)
		return f, true, err
	}
	if b.in.Open == nil {
		return f, true, agent.Invalid("params", "%s: there is no stored content here", field)
	}
	content, err := b.in.Open(ctx, ref)
	if err != nil {
		return f, true, fmt.Errorf("%s: open %q: %w", field, clip.Bytes(ref, 100), err)
	}
	defer content.Close() //nolint:errcheck // it was only read
	f.data, err = io.ReadAll(io.LimitReader(content, int64(MaxBody-used+1)))
	if err != nil {
		return f, true, fmt.Errorf("%s: read %q: %w", field, clip.Bytes(ref, 100), err)
	}
	f.data, err = limitBody(f.data)
	return f, true, err
}

// writeMultipart writes multipart/form-data. Objects are JSON, and each element of a list is a separate part.
func (b *requestBuilder) writeMultipart(ctx context.Context, m *media, value any, field string) ([]byte, error) {
	object, ok := value.(map[string]any)
	if !ok {
		b.addProblem(field + ": a form is an object")
		return nil, nil
	}
	var out bytes.Buffer
	w := multipart.NewWriter(&out)
	for _, name := range sortedKeys(object) {
		values := []any{object[name]}
		if list, isList := object[name].([]any); isList {
			values = list
		}
		for _, v := range values {
			if v == nil {
				continue
			}
			if err := b.writePart(ctx, w, m, name, v, field+"."+clip.Bytes(name, 100), out.Len()); err != nil {
				return nil, err
			}
			if out.Len() > MaxBody {
				return limitBody(out.Bytes())
			}
		}
	}
	if err := w.Close(); err != nil {
		return nil, agent.Errorf(agent.CodeInternal, "", "write the form: %w", err)
	}
	b.out.Header.Set("Content-Type", w.FormDataContentType())
	return limitBody(out.Bytes())
}

func (b *requestBuilder) writePart(ctx context.Context, w *multipart.Writer, m *media, name string, v any, field string, used int) error {
	f, isFile, err := b.readFile(ctx, v, field, used)
	if err != nil {
		return err
	}
	switch {
	case isFile && f.mediaType == "":
		f.mediaType = "application/octet-stream"
	case isFile:
	case m.members[name]:
		if isNested(v) {
			b.addProblem(field + `: give the file as {"ref":"cas://…"}, {"base64":"…"} or text`)
		}
		text, _ := textOf(v) // a nested value has been reported
		f, isFile = file{data: []byte(text), mediaType: "application/octet-stream"}, true
	case isNested(v):
		f.mediaType = "application/json"
		if f.data, err = tool.EncodeJSON(v); err != nil {
			return agent.Invalid("params", "%s cannot be written as JSON: %w", clip.Bytes(name, 100), err)
		}
	default:
		text, _ := textOf(v) // v is neither null nor nested
		f.data = []byte(text)
	}
	// The document may name media types for the part. A media type of the file takes precedence.
	documented, _, _ := strings.Cut(m.encoding[name].ContentType, ",")
	documented = strings.TrimSpace(documented)
	if documented != "" && !strings.Contains(documented, "*") && !hasContentType(v) {
		f.mediaType = documented
	}
	if isFile && f.name == "" {
		f.name = name
	}
	return createPart(w, name, f, isFile)
}

// hasContentType reports whether a value is a file with a media type.
func hasContentType(v any) bool {
	m, _ := v.(map[string]any)
	_, ok := m["content_type"].(string)
	return ok && isFile(v)
}

// quotePartName quotes a name like browsers do. Servers expect name and filename in this order, in quotes, and with no other escapes
// (https://html.spec.whatwg.org/multipage/form-control-infrastructure.html#multipart-form-data).
func quotePartName(name string) string {
	return `"` + strings.NewReplacer(`"`, "%22", "\r", "%0D", "\n", "%0A").Replace(name) + `"`
}

func createPart(w *multipart.Writer, name string, f file, isFile bool) error {
	disposition := "form-data; name=" + quotePartName(name)
	if isFile {
		disposition += "; filename=" + quotePartName(f.name)
	}
	if !httpguts.ValidHeaderFieldValue(f.mediaType) || !httpguts.ValidHeaderFieldValue(disposition) {
		return agent.Invalid("params", "the part %q has a name or type that no header may have", clip.Bytes(name, 100))
	}
	header := textproto.MIMEHeader{"Content-Disposition": {disposition}}
	if f.mediaType != "" {
		header["Content-Type"] = []string{f.mediaType}
	}
	part, err := w.CreatePart(header)
	if err == nil {
		_, err = part.Write(f.data)
	}
	if err != nil {
		return agent.Errorf(agent.CodeInternal, "", "write the form: %w", err)
	}
	return nil
}
