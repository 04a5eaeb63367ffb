package openapi

import (
	"bytes"
	"encoding/json"
	"fmt"
	"mime"
	"net/http"
	"slices"
	"strings"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/clip"
	"github.com/turnstone-run/turnstone/internal/openapi"
	"github.com/turnstone-run/turnstone/internal/tool"
)

const (
	maxText     = 256 << 10 // bytes of an answer that is no JSON
	maxQuoted   = 600       // bytes of a server's message
	maxHeader   = 500       // bytes of a header that is shown
	sampleRows  = 3
	sampleBytes = 4 << 10
)

// output is the result that the model sees.
type output struct {
	Status      int               `json:"status"`
	Operation   string            `json:"operation"`
	URL         string            `json:"url"`
	ContentType string            `json:"content_type,omitempty"`
	Headers     map[string]string `json:"headers,omitempty"`
	Body        json.RawMessage   `json:"body,omitempty"`
	Text        *string           `json:"text,omitempty"`
	Bytes       int               `json:"bytes,omitempty"` // length of content that is not shown
	Warnings    []string          `json:"warnings,omitempty"`
}

// successResult returns the result of a response with a status of success.
func (c *exchange) successResult(resp *http.Response, body []byte) (agent.ToolResult, error) {
	contentType := resp.Header.Get("Content-Type")
	o := output{
		Status: resp.StatusCode, Operation: c.title, URL: clip.Bytes(c.publicURL(), openapi.MaxURL), ContentType: clip.Bytes(contentType, 200),
		Headers: shownHeaders(resp.Header),
	}
	value, isJSON, err := c.showBody(&o, contentType, body)
	if err != nil {
		return errorResult(err)
	}
	if c.checksResponse {
		for _, w := range c.op.Check(resp.StatusCode, contentType, value, isJSON, len(body) == 0) {
			c.addWarning(w)
		}
	}
	o.Warnings = c.warnings
	out, err := tool.EncodeJSON(o)
	if err != nil {
		return agent.ToolResult{}, agent.Errorf(agent.CodeInternal, "call "+ToolName, "encode the answer: %w", err)
	}
	res := agent.ToolResult{Output: out}
	if rows := rowsOf(o.Body, value); rows != nil {
		res.Data, res.Preview = rows, preview(rows)
	}
	return res, nil
}

// showBody adds the body to the output as JSON or text, or its length if it is binary. If it is JSON, showBody also returns its value.
func (c *exchange) showBody(o *output, contentType string, body []byte) (value any, isJSON bool, err error) {
	media, _, _ := mime.ParseMediaType(contentType)
	switch {
	case len(bytes.TrimSpace(body)) == 0:
		return nil, false, nil
	case mayBeJSON(media):
		value, err := openapi.DecodeJSON(body)
		if err == nil {
			var compact bytes.Buffer
			if err := json.Compact(&compact, bytes.ToValidUTF8(body, []byte("�"))); err != nil {
				return nil, false, agent.Errorf(agent.CodeInternal, "", "the body cannot be shown: %w", err)
			}
			o.Body = compact.Bytes()
			return value, true, nil
		}
		c.addWarning("the body " + err.Error())
	case strings.HasPrefix(media, "text/"), strings.HasSuffix(media, "xml"), strings.HasSuffix(media, "yaml"), media == "application/javascript",
		media == "application/x-ndjson", media == "application/x-www-form-urlencoded":
	default:
		o.Bytes = len(body)
		c.addWarning("the content is binary and not shown")
		return nil, false, nil
	}
	text := clip.Bytes(strings.ToValidUTF8(string(body), "�"), maxText)
	o.Text = &text
	if len(body) > maxText {
		c.addWarning(fmt.Sprintf("the text is cut off: it has %d bytes", len(body)))
	}
	return nil, false, nil
}

// mayBeJSON reports whether a body of a media type may be JSON. A body without a type may be.
func mayBeJSON(media string) bool {
	return media == "" || media == "application/json" || media == "text/json" || strings.HasSuffix(media, "+json")
}

// shownHeaders returns the headers that a model can use.
func shownHeaders(h http.Header) map[string]string {
	out := map[string]string{}
	for _, name := range []string{
		"Location", "Link", "Retry-After", "ETag", "Last-Modified", "X-Request-Id", "X-Total-Count", "X-RateLimit-Remaining", "RateLimit",
	} {
		if v := h.Get(name); v != "" {
			out[strings.ToLower(name)] = clip.Bytes(strings.ToValidUTF8(v, "�"), maxHeader)
		}
	}
	return out
}

// rowsOf returns the rows of a body, which become the turn's data: the body itself if it is a list of objects, else its member that is such a
// list. If several members are, it is the one with a usual name. It returns nil if there are no rows.
func rowsOf(body json.RawMessage, value any) json.RawMessage {
	switch value := value.(type) {
	case []any:
		if isRowList(value) {
			return body
		}
	case map[string]any:
		var names []string
		for name, v := range value {
			if isRowList(v) {
				names = append(names, name)
			}
		}
		if len(names) > 1 {
			usual := []string{"data", "items", "results", "value", "records"}
			i := slices.IndexFunc(usual, func(name string) bool { return slices.Contains(names, name) })
			if i < 0 {
				return nil
			}
			names = usual[i : i+1]
		}
		var members map[string]json.RawMessage
		if len(names) == 0 || json.Unmarshal(body, &members) != nil {
			return nil
		}
		return members[names[0]]
	}
	return nil
}

func isRowList(v any) bool {
	list, _ := v.([]any)
	return len(list) > 0 && !slices.ContainsFunc(list, func(row any) bool {
		_, ok := row.(map[string]any)
		return !ok
	})
}

// preview returns the preview of rows: {"type","row_count","sample"}.
func preview(rows json.RawMessage) json.RawMessage {
	var all []json.RawMessage
	if json.Unmarshal(rows, &all) != nil {
		return nil
	}
	sample, size := []json.RawMessage{}, 0
	for _, row := range all[:min(sampleRows, len(all))] {
		if size += len(row); size > sampleBytes {
			break
		}
		sample = append(sample, row)
	}
	out, err := tool.EncodeJSON(struct {
		Type     string            `json:"type"`
		RowCount int               `json:"row_count"`
		Sample   []json.RawMessage `json:"sample"`
	}{"dataset", len(all), sample})
	if err != nil {
		return nil
	}
	return out
}

// statusResult returns the failed result of a status that is no success. It is retryable only if the request may be sent again, because the
// server may have acted on a part of any other request.
func (c *exchange) statusResult(resp *http.Response, body []byte) (agent.ToolResult, error) {
	status := resp.StatusCode
	f := &agent.Failure{Type: string(agent.CodeInvalid)}
	switch {
	case isRedirect(status):
		f.Message = "it redirects to another place, which is not followed"
		if !c.op.Repeatable() && status <= http.StatusSeeOther { // 307 and 308 ask for the request again: nothing was done
			f.Message += "; whether the " + c.request.Method + " took effect is unknown"
		}
	case status == http.StatusTooManyRequests:
		f.Type, f.Retryable = string(agent.CodeRateLimited), c.op.Repeatable()
	case status == http.StatusServiceUnavailable:
		f.Type, f.Retryable = string(agent.CodeUnavailable), c.op.Repeatable()
	case status >= 500 && !c.op.Repeatable() && (status == http.StatusBadGateway || status == http.StatusGatewayTimeout):
		f.Type, f.Message = agent.OutcomeUnknown, "whether the "+c.request.Method+" took effect is unknown"
	case status >= 500, status == http.StatusRequestTimeout, status == http.StatusTooEarly:
		f.Type, f.Retryable = string(agent.CodeUnavailable), c.op.Repeatable()
	case status == http.StatusUnauthorized, status == http.StatusForbidden:
		f.Type = string(agent.CodeDenied)
	case status == http.StatusNotFound, status == http.StatusGone:
		f.Type = string(agent.CodeNotFound)
	case status == http.StatusConflict:
		f.Type = string(agent.CodeConflict)
	}
	message := fmt.Sprintf("%s: %s answered %s", c.title, c.request.URL.Host, tool.StatusText(status))
	if after := resp.Header.Get("Retry-After"); after != "" {
		message += " (retry after " + clip.Bytes(after, 60) + ")"
	}
	if f.Message != "" {
		message += "; " + f.Message
	}
	media, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	if mayBeJSON(media) || media == "text/plain" {
		if text := errorMessage(body); text != "" {
			message += ": " + text
		}
	}
	f.Message = message
	return failureResult(f)
}

// isRedirect reports whether a status redirects the request. Others below 400, such as 300 and 304, do not.
func isRedirect(status int) bool {
	switch status {
	case http.StatusMovedPermanently, http.StatusFound, http.StatusSeeOther, http.StatusTemporaryRedirect, http.StatusPermanentRedirect:
		return true
	default:
		return false
	}
}

// errorMessage returns a server's message about an error: the texts of the usual members (RFC 9457 and others), or the whole body.
func errorMessage(body []byte) string {
	body = body[:min(len(body), 64<<10)]
	if texts := errorTexts(body); len(texts) > 0 {
		return oneLine(strings.Join(texts, ": "))
	}
	return oneLine(string(body))
}

// errorTexts returns the usual members for messages of a JSON object, or of its member error.
func errorTexts(body []byte) []string {
	value, err := openapi.DecodeJSON(body)
	object, ok := value.(map[string]any)
	if err != nil || !ok {
		return nil
	}
	if inner, ok := object["error"].(map[string]any); ok {
		object = inner
	}
	var texts []string
	for _, name := range []string{"title", "message", "detail", "error", "error_description", "errors"} {
		switch v := object[name].(type) {
		case nil:
		case string:
			texts = append(texts, v)
		default:
			if text, err := tool.EncodeJSON(v); err == nil {
				texts = append(texts, string(text))
			}
		}
	}
	return texts
}

func oneLine(s string) string {
	return clip.Bytes(strings.Join(strings.Fields(strings.ToValidUTF8(s, "")), " "), maxQuoted)
}
