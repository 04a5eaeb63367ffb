package openapi

import (
	"mime"
	"strconv"
	"strings"

	"github.com/turnstone-run/turnstone/internal/clip"
)

// Check returns what in a response is not as the document promises, in a few sentences; none if all is. value is the decoded body of a
// response in JSON, numbers as [json.Number]; isJSON is false for any other.
func (o *Operation) Check(status int, contentType string, value any, isJSON, isEmpty bool) []string {
	content, documented := o.responseContent(status)
	if !documented {
		return []string{"the status " + strconv.Itoa(status) + " is not documented"}
	}
	if len(content) == 0 || isEmpty {
		return nil
	}
	schema, documented := schemaOfMedia(content, contentType)
	if !documented {
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

// responseContent returns the schemas of the most particular response for a status, by media type.
func (o *Operation) responseContent(status int) (content map[string]string, documented bool) {
	for _, key := range []string{strconv.Itoa(status), strconv.Itoa(status/100) + "XX", "DEFAULT"} {
		if content, documented = o.responses[key]; documented {
			break
		}
	}
	return content, documented
}

// schemaOfMedia returns the schema of a media type: that of the type itself, its range, or any.
func schemaOfMedia(content map[string]string, contentType string) (schema string, documented bool) {
	base, _, err := mime.ParseMediaType(contentType)
	if err != nil {
		return "", false
	}
	family, _, _ := strings.Cut(base, "/")
	for _, wanted := range []string{base, family + "/*", "*/*"} {
		for name, schema := range content {
			name, _, _ := strings.Cut(strings.ToLower(name), ";")
			if strings.TrimSpace(name) == wanted {
				return schema, true
			}
		}
	}
	return "", false
}
