package research

import (
	"context"
	"errors"
	"io"
	"mime"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/cenkalti/backoff/v5"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/egress"
	"github.com/turnstone-run/turnstone/internal/tool"
)

const (
	maxBody    = 16 << 20    // bytes of a response; 50 records of PubMed with all authors have less than 4 MiB
	retryPause = time.Second // before the second attempt, if the service does not name a time
)

// exchange sends the requests of one call.
type exchange struct {
	kit *toolkit
	inv agent.Invocation
}

// response is a response with a status of 200 to 299.
type response struct {
	status int
	media  string
	body   []byte
}

// withQuery returns the URL of a path below a base, with a query.
func withQuery(base *url.URL, path string, query url.Values) *url.URL {
	u := base.JoinPath(path)
	u.RawQuery = query.Encode()
	return u
}

// get sends a request within the rate of its host. If the host asks to wait, get sends the request once more after that time. The error is an
// [agent.Error] that a model may see: it quotes the service's message, but never a credential.
func (x *exchange) get(ctx context.Context, s *source, u *url.URL, accept string) (*response, error) {
	credential := x.credential(u)
	p := s.pace
	if credential != "" && s.keyedPace != (pace{}) {
		p = s.keyedPace
	}
	if configured, ok := x.kit.rates[s.name]; ok {
		p = configured
	}
	key := u.Host + "\x00" + x.inv.Tenant + "\x00" + credential
	if credential == "" {
		key = u.Host // services count by the address of this process
	}
	resp, err := backoff.Retry(ctx, func() (*response, error) {
		if err := x.kit.limits.wait(ctx, key, p, x.kit.cfg.MaxWait); err != nil {
			return nil, backoff.Permanent(sourceError(s.title, err))
		}
		resp, err := x.send(ctx, s.title, u, accept)
		if err == nil {
			return resp, nil
		}
		return nil, x.retryError(ctx, err)
	}, backoff.WithMaxTries(2), backoff.WithMaxElapsedTime(0))
	switch coded, ok := errors.AsType[*agent.Error](err); {
	case err == nil:
		return resp, nil
	case ctx.Err() != nil:
		return nil, interrupted(ctx)
	case ok:
		return nil, coded
	default:
		return nil, agent.Errorf(agent.CodeInternal, opSearch, "%w", err)
	}
}

// retryError marks an error for [backoff.Retry]: as permanent, or with the time to wait before the second attempt.
func (x *exchange) retryError(ctx context.Context, err error) error {
	transient, ok := errors.AsType[*transientError](err)
	switch {
	case !ok:
		return backoff.Permanent(err)
	case transient.after > x.kit.cfg.MaxWait:
		return backoff.Permanent(transient.err)
	case !endsInTime(ctx, transient.after):
		return backoff.Permanent(deadlineError(ctx))
	default:
		return errors.Join(transient.err, &backoff.RetryAfterError{Duration: transient.after})
	}
}

// transientError is an error after which another attempt may succeed soon.
type transientError struct {
	after time.Duration
	err   *agent.Error
}

func (p *transientError) Error() string { return p.err.Error() }
func (p *transientError) Unwrap() error { return p.err }

// credential returns the name of the auth profile for a request to an address, empty if there is none.
func (x *exchange) credential(u *url.URL) string {
	if x.kit.cfg.Auth == nil {
		return ""
	}
	for i := range x.inv.Auth {
		if fits, _ := egress.HostFits(x.inv.Auth[i].Hosts, u); fits {
			return x.inv.Auth[i].Name
		}
	}
	return ""
}

// send sends a request once.
func (x *exchange) send(ctx context.Context, title string, u *url.URL, accept string) (*response, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return nil, agent.Errorf(agent.CodeInternal, opSearch, "%s: make request", title)
	}
	req.Header.Set("Accept", accept)
	req.Header.Set("User-Agent", x.kit.userAgent)
	unauthorised := req.Clone(ctx)
	if x.kit.cfg.Auth != nil && len(x.inv.Auth) > 0 {
		if err := x.kit.cfg.Auth.Authorise(req, x.inv.Auth); err != nil {
			return nil, sourceError(title, err)
		}
	}
	resp, err := x.kit.cfg.HTTP.Do(req)
	if err != nil {
		return nil, sourceError(title, err)
	}
	defer resp.Body.Close() //nolint:errcheck // nothing is lost: it was read
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxBody+1))
	media, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	switch {
	case err != nil && ctx.Err() != nil:
		return nil, interrupted(ctx)
	case resp.StatusCode < 200 || resp.StatusCode > 299:
		return nil, statusError(title, resp, errorText(body, media, tool.AddedCredentials(unauthorised, req)))
	case err != nil:
		return nil, sourceError(title, err)
	case len(body) > maxBody:
		return nil, agent.Errorf(agent.CodeOverflow, "", "%s answered with more than %d MiB", title, maxBody>>20)
	}
	return &response{status: resp.StatusCode, media: media, body: body}, nil
}

// sourceError adds the title of the source to an error, and keeps its code.
func sourceError(title string, err error) error {
	e, ok := errors.AsType[*agent.Error](err)
	if !ok {
		return agent.Errorf(agent.CodeUnavailable, "", "%s: the connection broke off", title)
	}
	named := agent.Errorf(e.Code, title, "%w", e)
	named.RetryAfter = e.RetryAfter
	return named
}

// statusError returns the error of a status that is not a success. message is the message of the service, which may be empty.
func statusError(title string, resp *http.Response, message string) error {
	code := agent.CodeInvalid
	switch status := resp.StatusCode; {
	case status == http.StatusTooManyRequests, status == http.StatusForbidden && strings.Contains(strings.ToLower(message), "rate limit"):
		code = agent.CodeRateLimited
	case status == http.StatusRequestTimeout, status == http.StatusTooEarly, status >= 500:
		code = agent.CodeUnavailable
	case status == http.StatusUnauthorized, status == http.StatusForbidden:
		code = agent.CodeDenied
	}
	text := title + " answered " + tool.StatusText(resp.StatusCode)
	after, ok := parseRetryAfter(resp.Header.Get("Retry-After"))
	if ok {
		text += ", try again after " + after.Round(time.Second).String()
	}
	if message != "" {
		text += ": " + message
	}
	e := agent.Errorf(code, "", "%s", text)
	e.RetryAfter = after
	switch resp.StatusCode {
	case http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		if !ok {
			after = retryPause
		}
		return &transientError{after: after, err: e}
	default:
		return e
	}
}

// parseRetryAfter parses the header Retry-After, which is a number of seconds or a date.
func parseRetryAfter(header string) (after time.Duration, ok bool) {
	const maxAfter = 365 * 24 * time.Hour
	if n, err := strconv.ParseInt(header, 10, 64); err == nil && n >= 0 {
		return time.Duration(min(n, int64(maxAfter/time.Second))) * time.Second, true
	}
	if t, err := http.ParseTime(header); err == nil {
		return min(max(0, time.Until(t)), maxAfter), true
	}
	return 0, false
}
