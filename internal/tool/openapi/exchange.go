package openapi

import (
	"bytes"
	"context"
	"errors"
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
	"github.com/turnstone-run/turnstone/internal/redact"
	"github.com/turnstone-run/turnstone/internal/openapi"
)

// maxEncoding bounds what is quoted of the name of an encoding, in bytes.
const maxEncoding = 60

// exchange is one request and the answer to it.
type exchange struct {
	cfg      Config
	inv      *agent.Invocation
	op       *openapi.Operation
	made     *openapi.Request
	req      *http.Request
	title    string
	warnings []string
	checks   bool     // the response
	hosts    []string // that may be asked; empty: any
	most     int64    // bytes of the answer
	secrets  []string

	asked, connected atomic.Bool // a connection was asked for, and there was one
}

// authorise makes the HTTP request, with credentials.
func (c *exchange) authorise(ctx context.Context, profile string) error {
	u := c.made.URL
	if err := c.allowed(u); err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GetConn: func(string) { c.asked.Store(true) },
		GotConn: func(httptrace.GotConnInfo) { c.connected.Store(true) },
	}), c.made.Method, u.String(), nil)
	if err != nil {
		return agent.Invalid("params", "make no valid request")
	}
	req.URL = u
	c.body(req)
	maps.Copy(req.Header, c.made.Header)
	if (c.made.Method == http.MethodPost || c.made.Method == http.MethodPatch) && c.inv.IdempotencyKey != "" {
		// Under this name, which is the same to any server, net/http does not take it for a leave to send the request twice.
		req.Header["idempotency-key"] = []string{c.inv.IdempotencyKey}
	}
	chosen, err := choose(c.op, u, c.inv.Auth, profile)
	if err != nil {
		return err
	}
	if len(chosen) > 0 && c.cfg.Auth == nil {
		return agent.Errorf(agent.CodeDenied, "", "auth profiles are not configured")
	}
	before := req.Clone(ctx)
	for i := range chosen {
		if err := c.cfg.Auth.Authorise(req, chosen[i:i+1]); err != nil {
			return err
		}
	}
	c.secrets = secrets(before, req)
	if c.made.Cookie != "" {
		cookies := c.made.Cookie
		if credentials := req.Header.Get("Cookie"); credentials != "" {
			cookies = credentials + "; " + cookies
		}
		req.Header.Set("Cookie", cookies)
	}
	c.req = req
	return nil
}

// body gives the request its body. That of a request that may not be repeated cannot be read again, not even when it is empty, so that nothing
// sends it a second time: not to a new connection, whatever headers the document has for it, and not after a redirect to wherever a server says.
func (c *exchange) body(req *http.Request) {
	content := c.made.Body
	if len(content) == 0 && c.op.Repeatable() {
		return
	}
	req.Body, req.ContentLength = io.NopCloser(bytes.NewReader(content)), int64(len(content))
	if c.op.Repeatable() {
		req.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(content)), nil }
	}
}

// allowed holds a URL to the binding's hosts.
func (c *exchange) allowed(u *url.URL) error {
	if len(c.hosts) == 0 {
		return nil
	}
	if fits, _ := egress.HostFits(c.hosts, u); !fits {
		return agent.Errorf(agent.CodeDenied, "", "the operation's server %s is not among the hosts that the tool's binding allows", u.Host)
	}
	return nil
}

// do sends the request and reads the answer.
func (c *exchange) do(ctx context.Context) (agent.ToolResult, error) {
	c.inv.Report(c.made.Method + " " + c.shown())
	resp, err := c.cfg.HTTP.Do(c.req)
	if err != nil {
		return c.lost(ctx, err)
	}
	defer resp.Body.Close() //nolint:errcheck // nothing is lost: it was read
	if resp.Request != nil && resp.Request.URL != nil {
		if err := c.allowed(resp.Request.URL); err != nil {
			return c.astray(err)
		}
	}
	body, err := io.ReadAll(io.LimitReader(resp.Body, c.most+1))
	switch {
	case err != nil && agent.CodeOf(err) != agent.CodeOverflow && (c.op.Safe() || ctx.Err() != nil):
		return c.lost(ctx, err)
	case err != nil, int64(len(body)) > c.most:
		if c.op.Safe() && resp.StatusCode < 300 {
			return failed(agent.Errorf(agent.CodeOverflow, "", "%s: the answer is longer than %d bytes: ask for less", c.title, min(c.most, int64(len(body)))))
		}
		c.warn("the answer could not be read to its end, or is too long: it is cut off")
		body = body[:min(int64(len(body)), c.most)]
	}
	if encoding := encodingOf(resp); encoding != "" { // what net/http decodes it says nothing of
		if c.op.Safe() && resp.StatusCode >= 200 && resp.StatusCode < 300 {
			return failed(agent.Invalid("", "%s: the answer is encoded as %q, which is not read", c.title, encoding))
		}
		c.warn(fmt.Sprintf("the answer is encoded as %q and not shown", encoding))
		body = nil
	}
	body = c.scrub(body)
	if resp.StatusCode < 200 || resp.StatusCode > 299 {
		return c.refused(resp, body)
	}
	return c.answer(resp, body)
}

// encodingOf is how a body that was not decoded is encoded, "" when it is as it is.
func encodingOf(resp *http.Response) string {
	encoding := strings.ToLower(strings.TrimSpace(strings.Join(resp.Header.Values("Content-Encoding"), ", ")))
	if encoding == "identity" {
		return ""
	}
	return clip.Bytes(strings.ToValidUTF8(encoding, "�"), maxEncoding)
}

// lost is what becomes of a request whose answer did not come.
func (c *exchange) lost(ctx context.Context, err error) (agent.ToolResult, error) {
	code := agent.CodeOf(err)
	// Denied and invalid say that the address was refused before anything was done, unless it was that of a redirect.
	sent := c.connected.Load() || !c.asked.Load() && code != agent.CodeDenied && code != agent.CodeInvalid
	switch {
	case !sent:
		return unsent(ctx, c.inv, err)
	case !c.op.Repeatable():
		return failed(c.unknown("the answer did not come: " + err.Error()))
	case ctx.Err() != nil:
		return agent.ToolResult{}, ended(ctx)
	default:
		return unsent(ctx, c.inv, err)
	}
}

// astray is a request that a redirect has taken where the binding does not allow it.
func (c *exchange) astray(err error) (agent.ToolResult, error) {
	if c.op.Repeatable() {
		return failed(err)
	}
	return failed(c.unknown(err.Error()))
}

func (c *exchange) unknown(why string) error {
	return &fault{agent.Failure{
		Type:    agent.OutcomeUnknown,
		Message: fmt.Sprintf("%s: the %s was sent and may have taken effect; it was not repeated: %s", c.title, c.made.Method, clip.Bytes(why, 500)),
	}}
}

func (c *exchange) warn(text string) { c.warnings = append(c.warnings, text) }

// shown is the address as anybody may see it: it was made before there were credentials.
func (c *exchange) shown() string {
	u := *c.made.URL
	u.User = nil
	return u.String()
}

// scrub takes the request's credentials out of what a server has answered.
func (c *exchange) scrub(text []byte) []byte { return redact.NewMasker(c.secrets...).Mask(text) }

// fault is a failure as an error.
type fault struct{ failure agent.Failure }

func (f *fault) Error() string { return f.failure.Message }

// ended is the error of a call whose context ended.
func ended(ctx context.Context) error {
	return agent.Errorf(agent.CodeCancelled, "call "+ToolName, "%w", context.Cause(ctx))
}

// unsent is what becomes of an error before anything was sent that may have an effect. The runtime repeats a call only if that is harmless;
// of any other it would say that the outcome is unknown, which is not so.
func unsent(ctx context.Context, inv *agent.Invocation, err error) (agent.ToolResult, error) {
	if ctx.Err() != nil {
		return agent.ToolResult{}, ended(ctx)
	}
	if inv.Repeatable && agent.CodeOf(err) == agent.CodeUnavailable {
		return agent.ToolResult{}, err
	}
	return failed(err)
}

// failed makes the result of an error.
func failed(err error) (agent.ToolResult, error) {
	var f agent.Failure
	if own, ok := errors.AsType[*fault](err); ok {
		f = own.failure
	} else {
		f = *agent.FailureOf(err)
		if e, ok := errors.AsType[*agent.Error](err); ok && e == err && e.Field != "" { //nolint:errorlint // the outermost: it repeats the field otherwise
			f.Message = e.Err.Error()
		}
	}
	f.Tool, f.Message = ToolName, clip.Bytes(strings.ToValidUTF8(f.Message, "�"), 3500)
	out, err := encode(struct {
		Error *agent.Failure `json:"error"`
	}{&f})
	if err != nil {
		return agent.ToolResult{}, agent.Errorf(agent.CodeInternal, "call "+ToolName, "encode failure: %w", err)
	}
	return agent.ToolResult{Output: out, Failure: &f}, nil
}
