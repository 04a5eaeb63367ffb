package openapi

import (
	"mime"
	"strconv"
	"strings"

	"github.com/getkin/kin-openapi/openapi3"

	"github.com/turnstone-run/turnstone/internal/clip"
)

// Check says in what a response is not as the document promises, in a few sentences; none when it is. value is the decoded body of a
// response in JSON, numbers as [json.Number]; isJSON is false for any other.
func (o *Operation) Check(status int, contentType string, value any, isJSON, empty bool) []string {
	ref := o.responseOf(status)
	if ref == nil || ref.Value == nil {
		return []string{"the status " + strconv.Itoa(status) + " is not documented"}
	}
	content := ref.Value.Content
	if len(content) == 0 || empty {
		return nil
	}
	m := mediaOf(content, contentType)
	if m == nil {
		return []string{"the content type " + strconv.Quote(clip.Bytes(contentType, 100)) + " is not documented: want " +
			clip.Bytes(strings.Join(sorted(content), " or "), 200)}
	}
	name := markOf(m.Schema)
	if name == "" || !isJSON {
		return nil
	}
	problems, err := o.response.check(name, value, "body")
	if err != nil {
		return []string{err.Error()}
	}
	if len(problems) == 0 {
		return nil
	}
	out := make([]string, 0, len(problems)+len(o.faults))
	for _, p := range problems {
		out = append(out, clip.Bytes("the body is not as documented: "+p, 400))
	}
	return out
}

// responseOf is the most particular response of a status.
func (o *Operation) responseOf(status int) *openapi3.ResponseRef {
	if o.responses == nil {
		return nil
	}
	for _, key := range []string{strconv.Itoa(status), strconv.Itoa(status/100) + "XX", "default"} {
		if ref := o.responses.Value(key); ref != nil {
			return ref
		}
	}
	return nil
}

// mediaOf is the entry of a media type: the type itself, its range, or any.
func mediaOf(content openapi3.Content, contentType string) *openapi3.MediaType {
	base, _, err := mime.ParseMediaType(contentType)
	if err != nil {
		return nil
	}
	family, _, _ := strings.Cut(base, "/")
	for _, wanted := range []string{base, family + "/*", "*/*"} {
		for name, m := range content {
			plain, _, _ := strings.Cut(strings.ToLower(name), ";")
			if strings.TrimSpace(plain) == wanted {
				return m
			}
		}
	}
	return nil
}
