package pipeline

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	urlpath "path"
	"strings"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/clip"
	"github.com/turnstone-run/turnstone/internal/dataset"
	"github.com/turnstone-run/turnstone/internal/tool"
)

const (
	maxURL       = 8 << 10 // bytes, before and after params are added
	maxErrorBody = 2 << 10 // bytes that are read of the body of an error response
)

// httpRequest fetches rows: {"step":"http_request","url":…,"method":"GET"|"POST","params":{…}}. The params become the query of a GET or the
// JSON body of a POST.
type httpRequest struct {
	url    *url.URL
	method string
	body   []byte // POST
}

func decodeHTTPRequest(raw json.RawMessage) (step, error) {
	var in struct {
		URL    string                     `json:"url"`
		Method *string                    `json:"method"`
		Params map[string]json.RawMessage `json:"params"`
	}
	if err := decodeFields(raw, &in); err != nil {
		return nil, err
	}
	s := &httpRequest{method: http.MethodGet}
	if in.Method != nil {
		s.method = *in.Method
	}
	if s.method != http.MethodGet && s.method != http.MethodPost {
		return nil, invalid("method", "want GET or POST, got %q", clip.Bytes(s.method, maxQuote))
	}
	var err error
	if s.url, err = parseURL(in.URL); err != nil {
		return nil, err
	}
	if s.method == http.MethodPost {
		if in.Params == nil {
			in.Params = map[string]json.RawMessage{}
		}
		s.body, err = tool.EncodeJSON(in.Params)
		return s, err
	}
	query := s.url.Query()
	for _, name := range sortedKeys(in.Params) {
		values, err := queryValues("params."+clip.Bytes(name, maxQuote), in.Params[name])
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

// parseURL parses the address of a request. Without a scheme, such as "api.flights.com", it is https.
func parseURL(text string) (*url.URL, error) {
	switch {
	case text == "":
		return nil, invalid("url", "is required")
	case len(text) > maxURL:
		return nil, invalid("url", "is %d bytes, at most %d", len(text), maxURL)
	}
	if !strings.Contains(text, "://") {
		text = "https://" + strings.TrimPrefix(text, "//")
	}
	u, err := url.Parse(text)
	if err != nil || u.Host == "" {
		return nil, invalid("url", "is not a valid URL")
	}
	u.Fragment, u.RawFragment = "", ""
	return u, nil
}

// queryValues returns the values of a param in a query: those of a list, none for null.
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
		list, err := splitArray(raw, maxURL)
		if err != nil {
			return nil, invalid(field, "%s", err)
		}
		var values []string
		for i, element := range list {
			if element[0] == '[' {
				return nil, invalid(elementName(field, i), "a list in a list cannot be put into a query")
			}
			v, err := queryValues(elementName(field, i), element)
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
	req.Header.Set("Accept", "application/json, application/x-ndjson;q=0.9, text/csv;q=0.8")
	if s.method == http.MethodPost {
		req.Header.Set("Content-Type", "application/json")
		if r.inv.IdempotencyKey != "" {
			req.GetBody = nil // else net/http would repeat a request with this header by itself
			req.Header.Set("Idempotency-Key", r.inv.IdempotencyKey)
		}
	}
	if r.cfg.Auth != nil && len(r.inv.Auth) > 0 {
		if err := r.cfg.Auth.Authorise(req, r.inv.Auth); err != nil {
			if ctx.Err() != nil {
				return nil, contextError(ctx)
			}
			return nil, faultOf(err, "")
		}
	}
	resp, err := r.cfg.HTTP.Do(req)
	if err != nil {
		return nil, s.exchangeFault(ctx, err)
	}
	defer resp.Body.Close() //nolint:errcheck // nothing is lost: it was read
	if resp.StatusCode < 200 || resp.StatusCode > 299 {
		return nil, s.statusFault(resp)
	}
	return s.readResponse(ctx, r, resp)
}

// readResponse returns the rows of a response.
func (s *httpRequest) readResponse(ctx context.Context, r *run, resp *http.Response) ([]row, error) {
	in := &contextReader{ctx: ctx, r: resp.Body}
	body := bufio.NewReader(in)
	if _, err := body.Peek(1); errors.Is(err, io.EOF) {
		if s.method == http.MethodPost || resp.StatusCode == http.StatusNoContent {
			return nil, nil // the POST has taken effect, and must not look as if it had failed
		}
		return nil, invalid("", "%s answered %d with an empty body", s.url.Hostname(), resp.StatusCode)
	}
	format, err := s.responseFormat(resp)
	if err != nil {
		return nil, err
	}
	rows, err := r.readRows(body, format)
	switch {
	case err == nil:
		return rows, nil
	case in.err != nil:
		return nil, s.exchangeFault(ctx, in.err)
	default:
		return nil, contentFault(err, "", "the response of "+s.url.Hostname())
	}
}

// responseFormat returns the format of a response by its media type. A generic type leaves it to the extension of the path, JSON by default.
func (s *httpRequest) responseFormat(resp *http.Response) (dataset.Format, error) {
	contentType := resp.Header.Get("Content-Type")
	switch media, _, _ := mime.ParseMediaType(contentType); media {
	case "", "text/plain", "application/octet-stream", "binary/octet-stream":
		if contentType != "" && media == "" {
			return "", invalid("", "%s answered %q: want JSON, NDJSON or CSV", s.url.Hostname(), clip.Bytes(contentType, maxQuote))
		}
	default:
		format, err := dataset.Media(contentType)
		if err != nil {
			return "", invalid("", "%s answered %q: want JSON, NDJSON or CSV, in UTF-8", s.url.Hostname(), clip.Bytes(contentType, maxQuote))
		}
		return format, nil
	}
	switch strings.ToLower(urlpath.Ext(s.url.Path)) {
	case ".csv":
		return dataset.CSV, nil
	case ".ndjson", ".jsonl":
		return dataset.NDJSON, nil
	default:
		return dataset.JSON, nil
	}
}

// exchangeFault returns an error of the exchange as a fault, unless the call's context has ended.
func (s *httpRequest) exchangeFault(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return contextError(ctx)
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

// statusFault returns the fault of a status that is not a success.
func (s *httpRequest) statusFault(resp *http.Response) error {
	f := faultf(agent.CodeInvalid, "", "%s answered %s", s.url.Hostname(), tool.StatusText(resp.StatusCode))
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
		f.failure.Message += fmt.Sprintf(" (retry after %s)", clip.Bytes(after, maxQuote))
	}
	contentType := resp.Header.Get("Content-Type")
	media, _, _ := mime.ParseMediaType(contentType)
	if format, _ := dataset.Media(contentType); format == dataset.JSON || media == "text/plain" {
		body, _ := io.ReadAll(io.LimitReader(resp.Body, maxErrorBody)) // a part of the body can be quoted too
		if text := strings.Join(strings.Fields(strings.ToValidUTF8(string(body), "")), " "); text != "" {
			f.failure.Message += ": " + clip.Bytes(text, maxQuote)
		}
	}
	return f
}
