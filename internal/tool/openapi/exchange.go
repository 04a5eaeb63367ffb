package openapi

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"strings"
	"sync/atomic"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/clip"
	"github.com/turnstone-run/turnstone/internal/egress"
	"github.com/turnstone-run/turnstone/internal/openapi"
	"github.com/turnstone-run/turnstone/internal/tool"
)

// maxEncoding is the maximum number of bytes that are quoted from the name of an encoding.
const maxEncoding = 60

// exchange is one request and its answer.
type exchange struct {
	cfg            Config
	inv            *agent.Invocation
	op             *openapi.Operation
	request        *openapi.Request
	req            *http.Request
	title          string
	warnings       []string
	checksResponse bool
	hosts          []string // the allowed hosts; empty: any
	maxBytes       int64    // of the answer

	connRequested, connMade atomic.Bool // whether net/http has looked for a connection, and has got one
}

// authorise makes the HTTP request, with credentials.
func (c *exchange) authorise(ctx context.Context, profile string) error {
	u := c.request.URL
	if err := c.checkHost(u); err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GetConn: func(string) { c.connRequested.Store(true) },
		GotConn: func(httptrace.GotConnInfo) { c.connMade.Store(true) },
	}), c.request.Method, u.String(), nil)
	if err != nil {
		return agent.Invalid("params", "make no valid request")
	}
	req.URL = u
	c.setBody(req)
	maps.Copy(req.Header, c.request.Header)
	if (c.request.Method == http.MethodPost || c.request.Method == http.MethodPatch) && c.inv.IdempotencyKey != "" {
		// For servers the case of the name does not matter. But net/http does not know the name in lower case, which would let it repeat the request.
		req.Header["idempotency-key"] = []string{c.inv.IdempotencyKey}
	}
	chosen, err := chooseProfiles(c.op, u, c.inv.Auth, profile)
	if err != nil {
		return err
	}
	if len(chosen) > 0 && c.cfg.Auth == nil {
		return agent.Errorf(agent.CodeDenied, "", "auth profiles are not configured")
	}
	for i := range chosen {
		if err := c.cfg.Auth.Authorise(req, chosen[i:i+1]); err != nil {
			return err
		}
	}
	if c.request.Cookie != "" {
		cookies := c.request.Cookie
		if credentials := req.Header.Get("Cookie"); credentials != "" {
			cookies = credentials + "; " + cookies
		}
		req.Header.Set("Cookie", cookies)
	}
	c.req = req
	return nil
}

// setBody sets the body of the request. If the request may not be repeated, its body cannot be read again, even if it is empty, so that it is
// not sent a second time: neither over a new connection nor after a redirect.
func (c *exchange) setBody(req *http.Request) {
	content := c.request.Body
	if len(content) == 0 && c.op.Repeatable() {
		return
	}
	req.Body, req.ContentLength = io.NopCloser(bytes.NewReader(content)), int64(len(content))
	if c.op.Repeatable() {
		req.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(content)), nil }
	}
}

// checkHost returns an error for a URL whose host the binding does not allow.
func (c *exchange) checkHost(u *url.URL) error {
	if len(c.hosts) == 0 {
		return nil
	}
	if fits, _ := egress.HostFits(c.hosts, u); !fits {
		return agent.Errorf(agent.CodeDenied, "", "the operation's server %s is not among the hosts that the tool's binding allows", u.Host)
	}
	return nil
}

// send sends the request and reads the answer.
func (c *exchange) send(ctx context.Context) (agent.ToolResult, error) {
	c.inv.Report(c.request.Method + " " + c.publicURL())
	resp, err := c.cfg.HTTP.Do(c.req)
	if err != nil {
		return c.lostAnswerResult(ctx, err)
	}
	defer resp.Body.Close() //nolint:errcheck // nothing is lost: it was read
	if resp.Request != nil && resp.Request.URL != nil {
		if err := c.checkHost(resp.Request.URL); err != nil {
			return c.redirectedResult(err)
		}
	}
	body, err := io.ReadAll(io.LimitReader(resp.Body, c.maxBytes+1))
	switch {
	case err != nil && agent.CodeOf(err) != agent.CodeOverflow && (c.op.Safe() || ctx.Err() != nil):
		return c.lostAnswerResult(ctx, err)
	case err != nil, int64(len(body)) > c.maxBytes:
		if c.op.Safe() && resp.StatusCode < 300 {
			return errorResult(agent.Errorf(agent.CodeOverflow, "",
				"%s: the answer is longer than %d bytes: ask for less", c.title, min(c.maxBytes, int64(len(body)))))
		}
		c.addWarning("the answer could not be read to its end, or is too long: it is cut off")
		body = body[:min(int64(len(body)), c.maxBytes)]
	}
	if encoding := encodingOf(resp); encoding != "" { // net/http removes the encodings that it decodes
		if c.op.Safe() && resp.StatusCode >= 200 && resp.StatusCode < 300 {
			return errorResult(agent.Invalid("", "%s: the answer is encoded as %q, which is not read", c.title, encoding))
		}
		c.addWarning(fmt.Sprintf("the answer is encoded as %q and not shown", encoding))
		body = nil
	}
	if resp.StatusCode < 200 || resp.StatusCode > 299 {
		return c.statusResult(resp, body)
	}
	return c.successResult(resp, body)
}

// encodingOf returns the encoding of a body that was not decoded, "" if it has none.
func encodingOf(resp *http.Response) string {
	encoding := strings.ToLower(strings.TrimSpace(strings.Join(resp.Header.Values("Content-Encoding"), ", ")))
	if encoding == "identity" {
		return ""
	}
	return clip.Bytes(strings.ToValidUTF8(encoding, "�"), maxEncoding)
}

// lostAnswerResult returns the result of a request without an answer.
func (c *exchange) lostAnswerResult(ctx context.Context, err error) (agent.ToolResult, error) {
	code := agent.CodeOf(err)
	// Denied and invalid mean that the address was refused. Nothing was sent then, unless a connection was made before a redirect to the address.
	sent := c.connMade.Load() || !c.connRequested.Load() && code != agent.CodeDenied && code != agent.CodeInvalid
	switch {
	case !sent:
		return unsentResult(ctx, c.inv, err)
	case !c.op.Repeatable():
		return c.outcomeUnknownResult("the answer did not come: " + err.Error())
	case ctx.Err() != nil:
		return agent.ToolResult{}, cancelledError(ctx)
	default:
		return unsentResult(ctx, c.inv, err)
	}
}

// redirectedResult returns the result of a request that was redirected to a host that the binding does not allow.
func (c *exchange) redirectedResult(err error) (agent.ToolResult, error) {
	if c.op.Repeatable() {
		return errorResult(err)
	}
	return c.outcomeUnknownResult(err.Error())
}

func (c *exchange) outcomeUnknownResult(cause string) (agent.ToolResult, error) {
	return failureResult(&agent.Failure{
		Type:    agent.OutcomeUnknown,
		Message: fmt.Sprintf("%s: the %s was sent and may have taken effect; it was not repeated: %s", c.title, c.request.Method, clip.Bytes(cause, 500)),
	})
}

func (c *exchange) addWarning(text string) { c.warnings = append(c.warnings, text) }

// publicURL returns the address without credentials.
func (c *exchange) publicURL() string {
	u := *c.request.URL
	u.User = nil
	return u.String()
}

// cancelledError returns the error of a call whose context ended.
func cancelledError(ctx context.Context) error {
	return agent.Errorf(agent.CodeCancelled, "call "+ToolName, "%w", context.Cause(ctx))
}

// unsentResult returns the result of a call that failed before it sent anything with an effect. It returns an error, after which the runtime
// tries again, only if the call may be repeated: after the error of another call the runtime would treat its outcome as unknown.
func unsentResult(ctx context.Context, inv *agent.Invocation, err error) (agent.ToolResult, error) {
	if ctx.Err() != nil {
		return agent.ToolResult{}, cancelledError(ctx)
	}
	if inv.Repeatable && agent.CodeOf(err) == agent.CodeUnavailable {
		return agent.ToolResult{}, err
	}
	return errorResult(err)
}

// errorResult returns the failed result of an error.
func errorResult(err error) (agent.ToolResult, error) {
	f := agent.FailureOf(err)
	if e, ok := err.(*agent.Error); ok && e.Field != "" { //nolint:errorlint // only the outermost repeats the field in its message
		f.Message = e.Err.Error()
	}
	return failureResult(f)
}

func failureResult(f *agent.Failure) (agent.ToolResult, error) {
	f.Message = clip.Bytes(strings.ToValidUTF8(f.Message, "�"), 3500)
	return tool.FailedResult(ToolName, f)
}
