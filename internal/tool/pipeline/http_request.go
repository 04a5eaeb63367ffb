package pipeline

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"strings"

	"github.com/turnstone-run/turnstone/agent"
)

const (
	maxURL      = 8 << 10 // bytes, before and after params are added
	maxComplain = 2 << 10 // bytes read of the body of an error response
)

// httpRequest fetches rows: {"step":"http_request","url":…,"method":"GET"|"POST","params":{…}}. The parameters become the query of a
// GET and the JSON body of a POST.
type httpRequest struct {
	url    *url.URL
	method string
	body   []byte // POST
}

func (*httpRequest) name() string { return "http_request" }

func decodeHTTPRequest(raw json.RawMessage) (step, error) {
	var in struct {
		URL    string                     `json:"url"`
		Method *string                    `json:"method"`
		Params map[string]json.RawMessage `json:"params"`
	}
	if err := decodeInto(raw, &in); err != nil {
		return nil, err
	}
	s := &httpRequest{method: http.MethodGet}
	if in.Method != nil {
		s.method = *in.Method
	}
	if s.method != http.MethodGet && s.method != http.MethodPost {
		return nil, invalid("method", "want GET or POST, got %q", clip(s.method))
	}
	if err := s.parseURL(in.URL); err != nil {
		return nil, err
	}
	if s.method == http.MethodPost {
		if in.Params == nil {
			in.Params = map[string]json.RawMessage{}
		}
		body, err := marshal(in.Params)
		s.body = body
		return s, err
	}
	query := s.url.Query()
	for _, name := range sortedKeys(in.Params) {
		values, err := queryValues("params."+clip(name), in.Params[name])
		if err != nil {
			return nil, err
		}
		for _, v := range values {
			query.Add(name, v)
		}
	}
	s.url.RawQuery = query.Encode()
	if n := len(s.url.RawQuery); n > maxURL {
		return nil, invalid("params", "make a query of %d bytes, at most %d", n, maxURL)
	}
	return s, nil
}

// parseURL reads the address; one without a scheme is https (the seed writes "api.flights.com").
func (s *httpRequest) parseURL(text string) error {
	switch {
	case text == "":
		return invalid("url", "is required")
	case len(text) > maxURL:
		return invalid("url", "is %d bytes, at most %d", len(text), maxURL)
	}
	if !strings.Contains(text, "://") {
		text = "https://" + strings.TrimPrefix(text, "//")
	}
	u, err := url.Parse(text)
	if err != nil || u.Host == "" {
		return invalid("url", "is not a valid URL")
	}
	u.Fragment, u.RawFragment = "", ""
	s.url = u
	return nil
}

// queryValues turns a parameter into its query values: a list repeats the name, null leaves it out.
func queryValues(field string, raw json.RawMessage) ([]string, error) {
	switch raw[0] {
	case 'n':
		return nil, nil
	case '{':
		return nil, invalid(field, "an object cannot be put into a query")
	case '"':
		var text string
		if err := json.Unmarshal(raw, &text); err != nil {
			return nil, invalid(field, "is malformed")
		}
		return []string{text}, nil
	case '[':
		list, err := elements(raw, maxURL)
		if err != nil {
			return nil, invalid(field, "is malformed or too long")
		}
		var values []string
		for i, element := range list {
			if element[0] == '[' {
				return nil, invalid(indexed(field, i), "a list in a list cannot be put into a query")
			}
			v, err := queryValues(indexed(field, i), element)
			if err != nil {
				return nil, err
			}
			values = append(values, v...)
		}
		return values, nil
	default:
		return []string{string(raw)}, nil
	}
}

func (s *httpRequest) run(ctx context.Context, r *run, _ []row) ([]row, error) {
	if r.cfg.HTTP == nil {
		return nil, faultf(agent.CodeDenied, "", "outbound requests are not configured")
	}
	req, err := http.NewRequestWithContext(ctx, s.method, s.url.String(), bytes.NewReader(s.body))
	if err != nil {
		return nil, invalid("url", "is not a valid URL")
	}
	req.Header.Set("Accept", "application/json")
	if s.method == http.MethodPost {
		req.Header.Set("Content-Type", "application/json")
		if r.inv.IdempotencyKey != "" {
			req.Header.Set("Idempotency-Key", r.inv.IdempotencyKey)
		}
	}
	resp, err := r.cfg.HTTP.Do(req)
	if err != nil {
		return nil, s.unreachable(ctx, err)
	}
	defer resp.Body.Close() //nolint:errcheck // nothing is lost: it was read
	if resp.StatusCode < 200 || resp.StatusCode > 299 {
		return nil, s.refused(resp)
	}
	if err := wantJSON(resp.Header.Get("Content-Type")); err != nil {
		return nil, err
	}
	body, err := readAll(resp.Body, r.cfg.MaxBytes)
	if err != nil {
		return nil, s.unreachable(ctx, err)
	}
	if resp.StatusCode == http.StatusNoContent || len(bytes.TrimSpace(body)) == 0 {
		return nil, faultf(agent.CodeInvalid, "", "%s answered %d with an empty body, not JSON", s.url.Hostname(), resp.StatusCode)
	}
	rows, err := rowsOf(body, r.cfg.MaxRows)
	if err != nil {
		f := faultOf(err, "")
		f.failure.Message = "the response of " + s.url.Hostname() + " " + f.failure.Message
		return nil, f
	}
	return rows, nil
}

// unreachable turns an error of the exchange into a fault; only the end of our own context is an error.
func (s *httpRequest) unreachable(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return ended(ctx)
	}
	switch code := agent.CodeOf(err); code {
	case agent.CodeInvalid, agent.CodeDenied:
		return faultOf(err, "url")
	case agent.CodeOverflow:
		return faultOf(err, "")
	default:
		f := faultOf(err, "")
		f.failure.Type = string(agent.CodeUnavailable)
		f.failure.Retryable = s.method == http.MethodGet
		if !f.failure.Retryable {
			f.failure.Message += "; whether the POST took effect is unknown"
		}
		return f
	}
}

// refused is the fault of a status that is not a success.
func (s *httpRequest) refused(resp *http.Response) error {
	f := faultf(agent.CodeInvalid, "", "%s answered %s", s.url.Hostname(), statusText(resp.StatusCode))
	switch code := resp.StatusCode; {
	case code == http.StatusTooManyRequests:
		f.failure.Type, f.failure.Retryable = string(agent.CodeRateLimited), true
	case code == http.StatusServiceUnavailable:
		f.failure.Type, f.failure.Retryable = string(agent.CodeUnavailable), true
	case code >= 500, code == http.StatusRequestTimeout, code == http.StatusTooEarly:
		f.failure.Type, f.failure.Retryable = string(agent.CodeUnavailable), s.method == http.MethodGet
	case code == http.StatusUnauthorized, code == http.StatusForbidden:
		f.failure.Type = string(agent.CodeDenied)
	case code == http.StatusNotFound, code == http.StatusGone:
		f.failure.Type = string(agent.CodeNotFound)
	}
	if after := resp.Header.Get("Retry-After"); after != "" {
		f.failure.Message += fmt.Sprintf(" (retry after %s)", clip(after))
	}
	if media, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type")); isJSON(media) || media == "text/plain" {
		body, _ := io.ReadAll(io.LimitReader(resp.Body, maxComplain)) // what arrived is all that can be quoted
		if text := strings.Join(strings.Fields(strings.ToValidUTF8(string(body), "")), " "); text != "" {
			f.failure.Message += ": " + clip(text)
		}
	}
	return f
}

func statusText(code int) string {
	if t := http.StatusText(code); t != "" {
		return fmt.Sprintf("%d %s", code, t)
	}
	return fmt.Sprintf("%d", code)
}

// wantJSON refuses content types that cannot be JSON. Without one, or with one that says nothing, the body decides.
func wantJSON(contentType string) error {
	media, params, err := mime.ParseMediaType(contentType)
	switch {
	case contentType == "", media == "text/plain", media == "application/octet-stream":
		return nil
	case err == nil && isJSON(media):
		if c := params["charset"]; c != "" && !strings.EqualFold(c, "utf-8") && !strings.EqualFold(c, "us-ascii") {
			return faultf(agent.CodeInvalid, "", "answered JSON in %q; only UTF-8 is understood", clip(c))
		}
		return nil
	default:
		return faultf(agent.CodeInvalid, "", "answered %q, not JSON", clip(contentType))
	}
}

func isJSON(media string) bool {
	return media == "application/json" || media == "text/json" || strings.HasSuffix(media, "+json")
}
