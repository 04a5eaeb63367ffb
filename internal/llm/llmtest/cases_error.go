package llmtest

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/llm/wire"
)

// errorCase is a server's behaviour and the error that a call returns for it.
type errorCase struct {
	name   string
	handle func(x *exchange)
	code   agent.Code
	text   string // part of the error
}

// httpErrors are the status codes and the codes of their errors.
var httpErrors = []struct {
	status int
	kind   string
	code   agent.Code
}{
	{http.StatusBadRequest, "invalid_request_error", agent.CodeInvalid},
	{http.StatusUnauthorized, "authentication_error", agent.CodeDenied},
	{http.StatusForbidden, "permission_error", agent.CodeDenied},
	{http.StatusNotFound, "not_found_error", agent.CodeNotFound},
	{http.StatusRequestTimeout, "timeout_error", agent.CodeUnavailable},
	{http.StatusRequestEntityTooLarge, "request_too_large", agent.CodeOverflow},
	{http.StatusUnprocessableEntity, "invalid_request_error", agent.CodeInvalid},
	{http.StatusTooManyRequests, "rate_limit_error", agent.CodeRateLimited},
	{http.StatusInternalServerError, "api_error", agent.CodeUnavailable},
	{http.StatusBadGateway, "api_error", agent.CodeUnavailable},
	{http.StatusServiceUnavailable, "api_error", agent.CodeUnavailable},
	{529, "overloaded_error", agent.CodeUnavailable},
}

func errorCases() []testCase {
	var cases []testCase
	for _, e := range httpErrors {
		cases = append(cases, testCase{fmt.Sprintf("error/status %d", e.status), func(c *caseRun) {
			retryAfter := time.Duration(0)
			s := c.serve(func(x *exchange) {
				if retryAfter > 0 {
					x.w.Header().Set("Retry-After", fmt.Sprint(retryAfter.Seconds()))
				}
				x.refuse(e.status, e.kind, "The reason.")
			})
			for _, retryAfter = range []time.Duration{0, 7 * time.Second} {
				err := c.requireError(generate(c.openModel(s), simpleRequest()), e.code)
				require.Contains(c, err.Error(), "The reason.")
				require.Equal(c, 1, strings.Count(err.Error(), fmt.Sprint(e.status)), err.Error())
				require.Equal(c, retryAfter, err.RetryAfter)
			}
			_, _, requests := s.lastRequest()
			require.Equal(c, 2, requests, "a model does not retry")
		}})
	}
	for _, e := range append(refusalCases(), streamErrorCases()...) {
		cases = append(cases, testCase{e.name, func(c *caseRun) {
			err := c.requireError(generate(c.openModel(c.serve(e.handle)), simpleRequest()), e.code)
			require.Contains(c, err.Error(), e.text)
		}})
	}
	return append(cases, connectionCases()...)
}

// refusalCases are servers that answer without a stream.
func refusalCases() []errorCase {
	refuse := func(status int, kind, message string) func(x *exchange) {
		return func(x *exchange) { x.refuse(status, kind, message) }
	}
	const tooManyTokens = "This model's maximum context length is 8192 tokens. However, your messages resulted in 9000 tokens."
	return []errorCase{
		{"error/prompt too long", refuse(400, "invalid_request_error", "prompt is too long: 210000 tokens > 200000 maximum"), agent.CodeOverflow, ""},
		{"error/context too long", refuse(400, "invalid_request_error", tooManyTokens), agent.CodeOverflow, ""},
		{
			"error/key in the provider's text", refuse(401, "authentication_error", "Incorrect API key provided: "+testKey+"."),
			agent.CodeDenied, "Incorrect API key provided: [redacted].",
		},
		{"error/body that is no JSON", func(x *exchange) { http.Error(x.w, "<html>Bad gateway</html>", http.StatusBadGateway) }, agent.CodeUnavailable, ""},
		{"error/HTML page with 200", func(x *exchange) {
			x.w.Header().Set("Content-Type", "text/html; charset=utf-8")
			x.send("<!doctype html><html><body>Please sign in</body></html>")
		}, agent.CodeUnavailable, "HTML"},
	}
}

// streamErrorCases are servers that fail after a stream has begun.
func streamErrorCases() []errorCase {
	failAs := func(kind string) func(x *exchange) {
		return func(x *exchange) {
			x.sendHalf(TextReply(sentence, 2))
			x.send(x.dialect.traits().StreamError(kind, "The reason."))
		}
	}
	return []errorCase{
		{"error/within the stream", failAs("overloaded_error"), agent.CodeUnavailable, "The reason."},
		{"error/rate limit within the stream", failAs("rate_limit_error"), agent.CodeRateLimited, "The reason."},
		{"error/invalid request within the stream", failAs("invalid_request_error"), agent.CodeInvalid, "The reason."},
		{"error/connection broken before a byte", func(x *exchange) { x.breakConnection() }, agent.CodeUnavailable, ""},
		{"error/stream ends early without an error", func(x *exchange) { x.sendHalf(TextReply(sentence, 2)) }, agent.CodeUnavailable, ""},
		{"error/malformed chunk", func(x *exchange) {
			frames := x.dialect.Frames(TextReply(sentence, 2))
			x.send(frames[:len(frames)/2]...)
			x.send(x.dialect.traits().Malformed)
			x.send(frames[len(frames)/2:]...)
		}, agent.CodeUnavailable, ""},
	}
}

func connectionCases() []testCase {
	return []testCase{
		{"error/redirect is not followed", func(c *caseRun) {
			other := c.serveReply(TextReply("Hi", 9))
			s := c.serve(func(x *exchange) {
				http.Redirect(x.w, x.r, other.http.URL+c.h.Dialect.Path(), http.StatusTemporaryRedirect)
			})
			c.requireError(generate(c.openModel(s), simpleRequest()), agent.CodeInvalid)
			_, _, requests := other.lastRequest()
			require.Zero(c, requests, "the prompt went to another host")
		}},
		{"error/nobody listens", func(c *caseRun) {
			l, err := (&net.ListenConfig{}).Listen(context.Background(), "tcp", "127.0.0.1:0")
			require.NoError(c, err)
			address := l.Addr().String()
			require.NoError(c, l.Close())
			m := c.openModel(c.serveReply(Reply{}), func(cfg *wire.Config) { cfg.BaseURL = c.h.Dialect.BaseURL("http://" + address) })
			c.requireError(generate(m, simpleRequest()), agent.CodeUnavailable)
		}},
		{"error/connection broken in mid-stream", func(c *caseRun) {
			o := generate(c.openModel(c.serve(func(x *exchange) { x.sendHalf(TextReply(sentence, 2)); x.breakConnection() })), simpleRequest())
			c.requireError(o, agent.CodeUnavailable)
			require.NotEmpty(c, o.text, "the text that had arrived was emitted")
			if len(o.reply.Blocks) > 0 { // langchaingo's clients return no partial replies
				require.GreaterOrEqual(c, o.reply.Received, int64(len(o.text)))
			}
		}},
		{"error/connection broken within a tool call", func(c *caseRun) {
			reply := callsReply(callEvents(0, "call_a", "forecast", `{"city":"NYC"}`)...)
			o := generate(c.openModel(c.serve(func(x *exchange) { x.sendHalf(reply); x.breakConnection() })), toolRequest())
			c.requireError(o, agent.CodeUnavailable)
			require.Empty(c, agent.ToolCalls(o.reply.Blocks), "an incomplete call is not in the reply")
		}},
	}
}
