package wire

import (
	"encoding/json"
	"math"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/turnstone-run/turnstone/agent"
)

// maxRetryAfter bounds the wait that a provider may ask for.
const maxRetryAfter = 24 * time.Hour

// statusError returns the error of a response, with a code by its HTTP status:
//
//	400, 422, other 4xx  invalid        401, 402, 403        denied
//	404                  not_found      413                  overflow
//	429                  rate_limited   408, 5xx, 529        unavailable
//
// The body may change the code. A prompt beyond the context window is overflow. An account without credit is denied, although OpenAI answers 429,
// because waiting does not help.
func (c *Client) statusError(status int, h http.Header, body []byte) *agent.Error {
	kind, message := parseError(body)
	e := c.errorf(codeOf(status, kind, message), "%s", c.describeError(status, kind, message))
	e.RetryAfter = retryAfter(h, time.Now())
	return e
}

// StreamError returns the failure that a provider reports within a stream, as JSON.
func (c *Call) StreamError(data []byte) error {
	kind, message := parseError(data)
	status, err := strconv.Atoi(kind) // some gateways send the status as the code
	if err != nil {
		status = 0
	}
	return c.client.errorf(codeOf(status, kind, message), "in mid-stream: %s", c.client.describeError(status, kind, message))
}

func codeOf(status int, kind, message string) agent.Code {
	switch kind {
	case "context_length_exceeded", "request_too_large":
		return agent.CodeOverflow
	case "insufficient_quota", "billing_error":
		return agent.CodeDenied
	}
	if (status == 0 || status == http.StatusBadRequest) && mentionsOverflow(message) {
		return agent.CodeOverflow
	}
	switch {
	case status == 0:
		return codeOfKind(kind)
	case status == http.StatusUnauthorized, status == http.StatusForbidden, status == http.StatusPaymentRequired:
		return agent.CodeDenied
	case status == http.StatusNotFound:
		return agent.CodeNotFound
	case status == http.StatusRequestEntityTooLarge:
		return agent.CodeOverflow
	case status == http.StatusTooManyRequests:
		return agent.CodeRateLimited
	case status == http.StatusRequestTimeout, status >= 500:
		return agent.CodeUnavailable
	default:
		return agent.CodeInvalid
	}
}

// codeOfKind returns the code of an error type of OpenAI or Anthropic, for errors without a status.
func codeOfKind(kind string) agent.Code {
	switch kind {
	case "invalid_request_error":
		return agent.CodeInvalid
	case "authentication_error", "permission_error", "invalid_api_key":
		return agent.CodeDenied
	case "not_found_error", "model_not_found":
		return agent.CodeNotFound
	case "rate_limit_error", "rate_limit_exceeded", "tokens", "requests":
		return agent.CodeRateLimited
	default: // overloaded_error, api_error, server_error, timeout_error and whatever comes
		return agent.CodeUnavailable
	}
}

// mentionsOverflow reports whether a message is about a prompt beyond the context window, for providers that have no code for it.
func mentionsOverflow(message string) bool {
	m := strings.ToLower(message)
	for _, s := range []string{
		"maximum context length", "prompt is too long", "context window", "exceeds the available context size", "exceeds the context length",
	} {
		if strings.Contains(m, s) {
			return true
		}
	}
	return false
}

// parseError returns the kind and the message of an error body in one of these forms:
//
//	{"error":{"message":…,"type":…,"code":…}}   OpenAI and compatible servers, Anthropic
//	{"error":"…"}                              Ollama
//	{"message":…} {"detail":…}                 gateways and frameworks
//
// Both are empty if the body has another form.
func parseError(body []byte) (kind, message string) {
	var outer struct {
		Error   json.RawMessage `json:"error"`
		Message json.RawMessage `json:"message"`
		Detail  json.RawMessage `json:"detail"`
	}
	if json.Unmarshal(body, &outer) != nil {
		return "", ""
	}
	var inner struct {
		Message string          `json:"message"`
		Type    string          `json:"type"`
		Code    json.RawMessage `json:"code"`
	}
	if json.Unmarshal(outer.Error, &inner) == nil && (inner.Message != "" || inner.Type != "" || len(inner.Code) > 0) {
		if code := scalarText(inner.Code); code != "" {
			return code, inner.Message
		}
		return inner.Type, inner.Message
	}
	for _, raw := range []json.RawMessage{outer.Error, outer.Message, outer.Detail} {
		if s := scalarText(raw); s != "" {
			return "", s
		}
	}
	return "", ""
}

// scalarText returns a JSON string or number as text, empty for other values.
func scalarText(raw json.RawMessage) string {
	var s string
	if json.Unmarshal(raw, &s) == nil {
		return s
	}
	var n json.Number
	if json.Unmarshal(raw, &n) == nil {
		return n.String()
	}
	return ""
}

// errorKind matches the error kinds of providers. Other texts may contain parts of an answer.
var errorKind = regexp.MustCompile(`^[a-z_]{1,40}$`)

func (c *Client) describeError(status int, kind, message string) string {
	if c.cfg.HideAnswers {
		message = ""
		if !errorKind.MatchString(kind) {
			kind = ""
		}
	}
	var parts []string
	if status != 0 {
		text := http.StatusText(status)
		if status == 529 { // of Anthropic
			text = "Overloaded"
		}
		parts = append(parts, strings.TrimSpace(strconv.Itoa(status)+" "+text))
	}
	if message != "" {
		parts = append(parts, message)
	}
	s := strings.Join(parts, ": ")
	if kind != "" && kind != strconv.Itoa(status) { // Google and some gateways repeat the status as the code
		s = strings.TrimSpace(s + " (" + kind + ")")
	}
	if s == "" {
		return "an error without a text"
	}
	return s
}

// retryAfter returns how long the provider asks to wait, by Retry-After-Ms, or by Retry-After in seconds or as an HTTP date.
func retryAfter(h http.Header, now time.Time) time.Duration {
	for _, v := range []struct {
		header string
		unit   time.Duration
	}{{"Retry-After-Ms", time.Millisecond}, {"Retry-After", time.Second}} {
		text := strings.TrimSpace(h.Get(v.header))
		if text == "" {
			continue
		}
		if n, err := strconv.ParseFloat(text, 64); err == nil && !math.IsNaN(n) {
			return clampWait(n * float64(v.unit))
		}
		if end, err := http.ParseTime(text); err == nil {
			return clampWait(float64(end.Sub(now)))
		}
	}
	return 0
}

func clampWait(d float64) time.Duration {
	return time.Duration(max(0, min(d, float64(maxRetryAfter))))
}
