package kube

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"golang.org/x/time/rate"
)

// Client makes requests to the API of a cluster. The clients and the types of Kubernetes' own libraries are up to 35 MB of a program, so the few
// objects that this package needs are written and read as JSON.
type Client struct {
	web  *http.Client
	api  *url.URL
	pace *rate.Limiter
}

func (c *Cluster) jobsPath() string    { return "/apis/batch/v1/namespaces/" + c.cfg.Namespace + "/jobs" }
func (c *Cluster) podsPath() string    { return "/api/v1/namespaces/" + c.cfg.Namespace + "/pods" }
func (c *Cluster) secretsPath() string { return "/api/v1/namespaces/" + c.cfg.Namespace + "/secrets" }

// call sends a request and returns the object that the API answers. A refusal is a [*apiError].
func call[T any](ctx context.Context, c *Client, method, path string, body any) (*T, error) {
	stream, err := c.send(ctx, method, path, body)
	if err != nil {
		return nil, err
	}
	defer stream.Close() //nolint:errcheck // it was read
	answer := new(T)
	if err := json.NewDecoder(stream).Decode(answer); err != nil {
		return nil, fmt.Errorf("read answer to %s %s: %w", method, path, err)
	}
	return answer, nil
}

// send sends a request and returns the body of the answer, which the caller closes. The path may have a query.
func (c *Client) send(ctx context.Context, method, path string, body any) (io.ReadCloser, error) {
	if err := c.pace.Wait(ctx); err != nil {
		return nil, err
	}
	var content io.Reader
	if body != nil {
		text, err := json.Marshal(body)
		if err != nil {
			return nil, err
		}
		content = bytes.NewReader(text)
	}
	path, query, _ := strings.Cut(path, "?")
	to := c.api.JoinPath(path)
	to.RawQuery = query
	req, err := http.NewRequestWithContext(ctx, method, to.String(), content)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Accept", "application/json, */*")
	req.Header.Set("Content-Type", "application/json")
	if method == http.MethodPatch {
		req.Header.Set("Content-Type", "application/merge-patch+json")
	}
	resp, err := c.web.Do(req)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode >= http.StatusOK && resp.StatusCode < http.StatusMultipleChoices {
		return resp.Body, nil
	}
	defer resp.Body.Close() //nolint:errcheck // it was read
	return nil, readError(resp)
}

// apiError is an answer that is no success: the API's Status, or what something in front of it says.
type apiError struct {
	Kind, Reason, Message string
	Code                  int
}

// maxError bounds what is read of an answer that is no success.
const maxError = 64 << 10

func readError(resp *http.Response) error {
	e := &apiError{}
	text, _ := io.ReadAll(io.LimitReader(resp.Body, maxError))
	if err := json.Unmarshal(text, e); err != nil || e.Kind != "Status" {
		e = &apiError{Message: strings.TrimSpace(resp.Status + " " + strings.ToValidUTF8(string(text), ""))}
	}
	e.Code = resp.StatusCode
	return e
}

// Error implements error.
func (e *apiError) Error() string { return cmp.Or(e.Message, e.Reason, http.StatusText(e.Code)) }

// hasCode reports whether the API has answered with one of the HTTP status codes.
func hasCode(err error, codes ...int) bool {
	e, ok := errors.AsType[*apiError](err)
	return ok && slices.Contains(codes, e.Code)
}

// alreadyExists reports whether the API has an object of the name. Other conflicts have the same code.
func alreadyExists(err error) bool {
	e, ok := errors.AsType[*apiError](err)
	return ok && e.Reason == "AlreadyExists"
}

// isFinal reports whether the API itself has answered, and would answer the same again.
func isFinal(err error) bool {
	e, ok := errors.AsType[*apiError](err)
	return ok && e.Kind == "Status" && e.Code < http.StatusInternalServerError && e.Code != http.StatusTooManyRequests
}
