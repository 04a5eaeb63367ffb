package patch

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
	"github.com/turnstone-run/turnstone/internal/clip"
)

// codeUnsupported is the code for an orchestrator that does not support the call. It does not leave the package.
const codeUnsupported agent.Code = "absent"

// sendWithRetry sends a request, repeats it if that can help, and decodes the answer into result. request returns a new request for each attempt.
func (o *Orchestrator) sendWithRetry(ctx context.Context, op string, request func(context.Context) (*http.Request, error), result any) error {
	raw, err := backoff.Retry(ctx, func() ([]byte, error) {
		raw, err := o.sendOnce(ctx, request)
		if err == nil || canRetry(err) {
			return raw, err
		}
		return nil, backoff.Permanent(err)
	}, backoff.WithBackOff(o.pauses()), backoff.WithMaxTries(o.tries), backoff.WithMaxElapsedTime(o.patience))
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
	if err := json.Unmarshal(raw, result); err != nil {
		return agent.Errorf(agent.CodeInternal, op, "the orchestrator's answer is not what was expected: %.200s", singleLine(err.Error()))
	}
	return nil
}

// canRetry reports whether another attempt may succeed soon.
func canRetry(err error) bool {
	e, ok := errors.AsType[*agent.Error](err)
	if !ok {
		return false
	}
	if e.RetryAfter > maxPause {
		return false
	}
	_, isRetryable := errors.AsType[*retryableError](err)
	return isRetryable
}

// retryableError is an error of an attempt that may be repeated, with the pause that the orchestrator asked for.
type retryableError struct {
	error

	pause *backoff.RetryAfterError
}

// Unwrap returns the error and, for the retry loop, the pause.
func (e *retryableError) Unwrap() []error {
	if e.pause == nil {
		return []error{e.error}
	}
	return []error{e.error, e.pause}
}

// sendOnce makes one attempt and returns the body of the answer.
func (o *Orchestrator) sendOnce(ctx context.Context, request func(context.Context) (*http.Request, error)) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, o.timeout)
	defer cancel()
	req, err := request(ctx)
	if err != nil {
		return nil, err
	}
	resp, err := o.http.Do(req)
	if err != nil {
		return nil, noAnswerError(err)
	}
	defer func() { _ = resp.Body.Close() }()
	raw, err := io.ReadAll(io.LimitReader(resp.Body, maxOrchestratorAnswer+1))
	switch {
	case resp.StatusCode >= http.StatusBadRequest || resp.StatusCode < http.StatusOK || resp.StatusCode >= http.StatusMultipleChoices:
		return nil, statusError(resp, answerMessage(raw))
	case err != nil: // the request may have taken effect: its key makes it safe to repeat
		return nil, noAnswerError(err)
	case len(raw) > maxOrchestratorAnswer:
		return nil, agent.Errorf(agent.CodeOverflow, "", "the orchestrator's answer is longer than %d bytes", maxOrchestratorAnswer)
	default:
		return raw, nil
	}
}

// noAnswerError returns the error for a request without a complete answer. It is retryable unless the rules of egress refused the request.
func noAnswerError(err error) error {
	switch agent.CodeOf(err) {
	case agent.CodeDenied, agent.CodeInvalid, agent.CodeOverflow:
		return err
	default:
		return asRetryable(&agent.Error{Code: agent.CodeUnavailable, Err: err})
	}
}

// asRetryable marks an error as retryable, after its RetryAfter.
func asRetryable(e *agent.Error) error {
	cause := &retryableError{error: e.Err}
	if e.RetryAfter > 0 {
		cause.pause = &backoff.RetryAfterError{Duration: e.RetryAfter}
	}
	e.Err = cause
	return e
}

// statusError returns the error for an answer without success. message is the orchestrator's, which may be empty.
func statusError(resp *http.Response, message string) error {
	status := strconv.Itoa(resp.StatusCode)
	if message == "" {
		message = http.StatusText(resp.StatusCode)
	}
	answerError := func(code agent.Code, field string) *agent.Error {
		return agent.FieldErrorf(code, field, "the orchestrator answered %s: %s", status, message)
	}
	switch resp.StatusCode {
	case http.StatusTooManyRequests:
		e := answerError(agent.CodeRateLimited, "")
		e.RetryAfter = retryAfter(resp)
		return asRetryable(e)
	case http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		e := answerError(agent.CodeUnavailable, "")
		e.RetryAfter = retryAfter(resp)
		return asRetryable(e)
	case http.StatusConflict, http.StatusPreconditionFailed:
		return answerError(agent.CodeConflict, "base_version")
	case http.StatusNotFound:
		return answerError(agent.CodeNotFound, "workflow_tag")
	case http.StatusMethodNotAllowed, http.StatusNotImplemented:
		return answerError(codeUnsupported, "")
	case http.StatusUnauthorized, http.StatusForbidden:
		return answerError(agent.CodeDenied, "")
	case http.StatusRequestEntityTooLarge:
		return answerError(agent.CodeOverflow, "operations")
	}
	switch {
	case resp.StatusCode >= http.StatusInternalServerError:
		return answerError(agent.CodeUnavailable, "")
	case resp.StatusCode >= http.StatusBadRequest:
		return answerError(agent.CodeInvalid, "")
	case resp.StatusCode >= http.StatusMultipleChoices && resp.Header.Get("Location") != "":
		return agent.Errorf(agent.CodeInvalid, "", "the orchestrator answered %s: it redirects to another place, which is not followed", status)
	default:
		return answerError(agent.CodeInternal, "")
	}
}

// retryAfter returns the pause of the header Retry-After, 0 if there is none.
func retryAfter(resp *http.Response) time.Duration {
	text := resp.Header.Get("Retry-After")
	if seconds, err := strconv.ParseInt(text, 10, 32); err == nil && seconds > 0 {
		return time.Duration(seconds) * time.Second
	}
	if at, err := http.ParseTime(text); err == nil {
		return max(0, time.Until(at))
	}
	return 0
}

// maxOrchestratorMessage is the maximum length of the orchestrator's message in an error, in bytes.
const maxOrchestratorMessage = 500

// answerMessage returns the message for people in an answer. The HTTP client has removed credentials from it.
func answerMessage(raw []byte) string {
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
	return singleLine(text)
}

// singleLine returns a text as one short line without control characters.
func singleLine(text string) string {
	text = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}, text)
	return clip.Bytes(strings.Join(strings.Fields(text), " "), maxOrchestratorMessage)
}
