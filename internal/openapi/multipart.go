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
)

// file is the content of a part or body.
type file struct {
	data      []byte
	name      string
	mediaType string
}

// isFile reports whether a value says where content is.
func isFile(v any) bool {
	switch v := v.(type) {
	case string:
		return strings.HasPrefix(v, "cas://")
	case map[string]any:
		_, ref := v["ref"].(string)
		_, encoded := v["base64"].(string)
		for name := range v {
			if !slices.Contains([]string{"ref", "base64", "filename", "content_type"}, name) {
				return false
			}
		}
		return ref != encoded
	default:
		return false
	}
}

// withoutFiles is a form with texts in place of its files, for the check against a schema that calls a file a string.
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

// file reads the content that a value refers to, ok false when it is no such value. used is how much of the body is written already.
func (b *building) file(ctx context.Context, v any, at string, used int) (f file, ok bool, err error) {
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
			b.wrong(at + ".base64: is no base64")
			return f, true, nil
		}
		f.data, err = bounded(f.data)
		return f, true, err
	}
	if b.in.Open == nil {
		return f, true, agent.Invalid("params", "%s: there is no stored content here", at)
	}
	content, err := b.in.Open(ctx, ref)
	if err != nil {
		return f, true, fmt.Errorf("%s: open %q: %w", at, clip.Bytes(ref, 100), err)
	}
	defer content.Close() //nolint:errcheck // nothing is lost: it was read
	f.data, err = io.ReadAll(io.LimitReader(content, int64(MaxBody-used+1)))
	if err != nil {
		return f, true, fmt.Errorf("%s: read %q: %w", at, clip.Bytes(ref, 100), err)
	}
	f.data, err = bounded(f.data)
	return f, true, err
}

// multipart writes multipart/form-data: files as they are, objects as JSON, each element of a list as a part of its own.
func (b *building) multipart(ctx context.Context, m *media, value any, at string) ([]byte, error) {
	object, ok := value.(map[string]any)
	if !ok {
		b.wrong(at + ": a form is an object")
		return nil, nil
	}
	var out bytes.Buffer
	w := multipart.NewWriter(&out)
	for _, name := range sorted(object) {
		values := []any{object[name]}
		if list, isList := object[name].([]any); isList {
			values = list
		}
		for _, v := range values {
			if v == nil {
				continue
			}
			if err := b.part(ctx, w, m, name, v, at+"."+clip.Bytes(name, 100), out.Len()); err != nil {
				return nil, err
			}
			if out.Len() > MaxBody {
				return bounded(out.Bytes())
			}
		}
	}
	if err := w.Close(); err != nil {
		return nil, agent.Errorf(agent.CodeInternal, "", "write the form: %w", err)
	}
	b.out.Header.Set("Content-Type", w.FormDataContentType())
	return bounded(out.Bytes())
}

func (b *building) part(ctx context.Context, w *multipart.Writer, m *media, name string, v any, at string, used int) error {
	f, isFile, err := b.file(ctx, v, at, used)
	if err != nil {
		return err
	}
	switch {
	case isFile && f.mediaType == "":
		f.mediaType = "application/octet-stream"
	case isFile:
	case m.members[name].binary:
		if isDocumentOf(v) {
			b.wrong(at + `: give the file as {"ref":"cas://…"}, {"base64":"…"} or text`)
		}
		text, _ := textOf(v) // what is no text was told
		f, isFile = file{data: []byte(text), mediaType: "application/octet-stream"}, true
	case isDocumentOf(v):
		f.mediaType = "application/json"
		if f.data, err = encodeJSON(v); err != nil {
			return agent.Invalid("params", "%s cannot be written as JSON: %w", clip.Bytes(name, 100), err)
		}
	default:
		text, _ := textOf(v) // neither null nor nested: it is a text
		f.data = []byte(text)
	}
	if wanted, isSet := partType(m, name); isSet && !given(v) {
		f.mediaType = wanted
	}
	if isFile && f.name == "" {
		f.name = name
	}
	return writePart(w, name, f, isFile)
}

// given reports whether a file says itself what it is.
func given(v any) bool {
	m, _ := v.(map[string]any)
	_, ok := m["content_type"].(string)
	return ok && isFile(v)
}

// partType is the first type that the document wants for a part, if it names one.
func partType(m *media, name string) (string, bool) {
	e := m.encoding[name]
	if e == nil {
		return "", false
	}
	first, _, _ := strings.Cut(e.ContentType, ",")
	first = strings.TrimSpace(first)
	return first, first != "" && !strings.Contains(first, "*")
}

// quotePartName writes a name as browsers do. Servers look for name and filename in this order, both in quotes, and know no other escapes
// (https://html.spec.whatwg.org/multipage/form-control-infrastructure.html#multipart-form-data).
func quotePartName(name string) string {
	return `"` + strings.NewReplacer(`"`, "%22", "\r", "%0D", "\n", "%0A").Replace(name) + `"`
}

func writePart(w *multipart.Writer, name string, f file, isFile bool) error {
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
