package orchestrator

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/cenkalti/backoff/v5"

	"github.com/turnstone-run/turnstone/agent"
)

// codeAbsent is the code of an answer that says that there is no such call; it does not leave the package.
const codeAbsent agent.Code = "absent"

// ask sends a request until it is answered for good, and decodes the answer. request makes it anew for each attempt.
func (c *Client) ask(ctx context.Context, op string, request func(context.Context) (*http.Request, error), into any) error {
	raw, err := backoff.Retry(ctx, func() ([]byte, error) {
		raw, err := c.attempt(ctx, request)
		if err == nil || passing(err) {
			return raw, err
		}
		return nil, backoff.Permanent(err)
	}, backoff.WithBackOff(c.pauses()), backoff.WithMaxTries(c.cfg.Attempts), backoff.WithMaxElapsedTime(c.cfg.Patience))
	if interrupted := agent.Interrupted(ctx, op); err != nil && interrupted != nil {
		return interrupted
	}
	if e, ok := errors.AsType[*agent.Error](err); ok {
		e.Op = op
		return e
	}
	if err != nil {
		return agent.Errorf(agent.CodeInternal, op, "%w", err)
	}
	if err := json.Unmarshal(raw, into); err != nil {
		return agent.Errorf(agent.CodeInternal, op, "the orchestrator's answer is not what was expected: %.200s", clean(err.Error()))
	}
	return nil
}

// passing reports whether another attempt may do better, and soon.
func passing(err error) bool {
	e, ok := errors.AsType[*agent.Error](err)
	if !ok {
		return false
	}
	if e.RetryAfter > maxPause { // coming earlier than asked is no help, and waiting so long is for others
		return false
	}
	_, wanted := errors.AsType[*again](err)
	return wanted
}

// again marks an error of an attempt that may be repeated, after a time where the other side named one.
type again struct {
	error

	after *backoff.RetryAfterError
}

// Unwrap returns the error, and what the loop looks for.
func (a *again) Unwrap() []error {
	if a.after == nil {
		return []error{a.error}
	}
	return []error{a.error, a.after}
}

// attempt sends a request once and reads what a good answer holds.
func (c *Client) attempt(ctx context.Context, request func(context.Context) (*http.Request, error)) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, c.cfg.Timeout)
	defer cancel()
	req, err := request(ctx)
	if err != nil {
		return nil, err
	}
	if c.cfg.Auth != nil {
		if err := c.cfg.Auth.Authorise(req, c.cfg.Profiles); err != nil {
			return nil, err
		}
	}
	resp, err := c.cfg.HTTP.Do(req)
	if err != nil {
		return nil, unanswered(err)
	}
	defer func() { _ = resp.Body.Close() }()
	raw, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer+1))
	switch {
	case resp.StatusCode >= http.StatusBadRequest || resp.StatusCode < http.StatusOK || resp.StatusCode >= http.StatusMultipleChoices:
		return nil, refusal(resp, wordsOf(raw))
	case err != nil: // it was done, perhaps: the key makes it safe to ask again
		return nil, unanswered(err)
	case len(raw) > maxAnswer:
		return nil, agent.Errorf(agent.CodeOverflow, "", "the orchestrator's answer is longer than %d bytes", maxAnswer)
	default:
		return raw, nil
	}
}

// unanswered is for a request that got no answer, or a part of one. What the rules of egress refuse stays refused.
func unanswered(err error) error {
	switch agent.CodeOf(err) {
	case agent.CodeDenied, agent.CodeInvalid, agent.CodeOverflow:
		return err
	default:
		return retryable(&agent.Error{Code: agent.CodeUnavailable, Err: err})
	}
}

// retryable has the loop wait as long as the other side asked for.
func retryable(e *agent.Error) error {
	marked := &again{error: e.Err}
	if e.RetryAfter > 0 {
		marked.after = &backoff.RetryAfterError{Duration: e.RetryAfter}
	}
	e.Err = marked
	return e
}

// refusal maps an answer that is no success. words are the orchestrator's.
func refusal(resp *http.Response, words string) error {
	status := strconv.Itoa(resp.StatusCode)
	if words == "" {
		words = http.StatusText(resp.StatusCode)
	}
	about := func(code agent.Code, field string) *agent.Error {
		return agent.FieldErrorf(code, field, "the orchestrator answered %s: %s", status, words)
	}
	switch resp.StatusCode {
	case http.StatusTooManyRequests:
		e := about(agent.CodeRateLimited, "")
		e.RetryAfter = wait(resp)
		return retryable(e)
	case http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		e := about(agent.CodeUnavailable, "")
		e.RetryAfter = wait(resp)
		return retryable(e)
	case http.StatusConflict, http.StatusPreconditionFailed:
		return about(agent.CodeConflict, "base_version")
	case http.StatusNotFound:
		return about(agent.CodeNotFound, "workflow_tag")
	case http.StatusMethodNotAllowed, http.StatusNotImplemented:
		return about(codeAbsent, "")
	case http.StatusUnauthorized, http.StatusForbidden:
		return about(agent.CodeDenied, "")
	case http.StatusRequestEntityTooLarge:
		return about(agent.CodeOverflow, "operations")
	}
	switch {
	case resp.StatusCode >= http.StatusInternalServerError:
		return about(agent.CodeUnavailable, "")
	case resp.StatusCode >= http.StatusBadRequest:
		return about(agent.CodeInvalid, "")
	case resp.StatusCode >= http.StatusMultipleChoices && resp.Header.Get("Location") != "":
		return agent.Errorf(agent.CodeInvalid, "", "the orchestrator answered %s: it redirects to another place, which is not followed", status)
	default:
		return about(agent.CodeInternal, "")
	}
}

// wait is what a Retry-After says, 0 when it says nothing.
func wait(resp *http.Response) time.Duration {
	text := resp.Header.Get("Retry-After")
	if seconds, err := strconv.ParseInt(text, 10, 32); err == nil && seconds > 0 {
		return time.Duration(seconds) * time.Second
	}
	if at, err := http.ParseTime(text); err == nil {
		return max(0, time.Until(at))
	}
	return 0
}

// maxWords bounds what is told of the orchestrator's words, in bytes.
const maxWords = 500

// wordsOf finds what an answer says to people. Credentials that it repeats are not in it: egress has taken them out.
func wordsOf(raw []byte) string {
	text := string(raw)
	var body struct {
		Message string          `json:"message"`
		Detail  string          `json:"detail"`
		Title   string          `json:"title"`
		Error   json.RawMessage `json:"error"`
	}
	if json.Unmarshal(raw, &body) == nil {
		var inner struct {
			Message string `json:"message"`
			Field   string `json:"field"`
		}
		var plain string
		switch {
		case json.Unmarshal(body.Error, &inner) == nil && inner.Message != "":
			text = inner.Message
			if inner.Field != "" && !strings.Contains(text, inner.Field) {
				text = inner.Field + ": " + text
			}
		case json.Unmarshal(body.Error, &plain) == nil && plain != "":
			text = plain
		case body.Message != "" || body.Detail != "" || body.Title != "":
			text = strings.Join(strings.Fields(body.Title+" "+body.Message+" "+body.Detail), " ")
		}
	}
	return clean(text)
}

// clean keeps a text of others on one line, and short.
func clean(text string) string {
	text = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}, text)
	text = strings.Join(strings.Fields(text), " ")
	if len(text) > maxWords {
		text = text[:maxWords] + "…"
	}
	return strings.ToValidUTF8(text, "")
}
