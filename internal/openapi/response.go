package openapi

import (
	"mime"
	"strconv"
	"strings"

	"github.com/turnstone-run/turnstone/internal/clip"
)

// Check returns the deviations of a response from the document, nil if there are none. value is the decoded body with numbers as [json.Number], if
// isJSON is true.
func (o *Operation) Check(status int, contentType string, value any, isJSON, isEmpty bool) []string {
	content, isDocumented := o.responseContent(status)
	if !isDocumented {
		return []string{"the status " + strconv.Itoa(status) + " is not documented"}
	}
	if len(content) == 0 || isEmpty {
		return nil
	}
	schema, isDocumented := schemaOfMedia(content, contentType)
	if !isDocumented {
		return []string{"the content type " + strconv.Quote(clip.Bytes(contentType, 100)) + " is not documented: want " +
			clip.Bytes(strings.Join(sortedKeys(content), " or "), 200)}
	}
	if schema == "" || !isJSON {
		return nil
	}
	problems, err := o.response.check(schema, value, "body")
	if err != nil {
		return []string{err.Error()}
	}
	for i, p := range problems {
		problems[i] = clip.Bytes("the body is not as documented: "+p, 400)
	}
	return problems
}

// responseContent returns the schemas of the most specific response for a status, by media type.
func (o *Operation) responseContent(status int) (content map[string]string, isDocumented bool) {
	for _, key := range []string{strconv.Itoa(status), strconv.Itoa(status/100) + "XX", "DEFAULT"} {
		if content, isDocumented = o.responses[key]; isDocumented {
			break
		}
	}
	return content, isDocumented
}

// schemaOfMedia returns the schema of a media type: that of the type, or else of its range, or else of */*.
func schemaOfMedia(content map[string]string, contentType string) (schema string, isDocumented bool) {
	base, _, err := mime.ParseMediaType(contentType)
	if err != nil {
		return "", false
	}
	family, _, _ := strings.Cut(base, "/")
	for _, mediaRange := range []string{base, family + "/*", "*/*"} {
		for name, schema := range content {
			name, _, _ := strings.Cut(strings.ToLower(name), ";")
			if strings.TrimSpace(name) == mediaRange {
				return schema, true
			}
		}
	}
	return "", false
}
