package llmtest

import (
	"fmt"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/llm/wire"
)

// statuses is the table that every provider client keeps to.
var statuses = []struct {
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

// refuses starts a provider that answers with a failure.
func (c *C) refuses(status int, kind, message string, header ...string) *server {
	return c.serve(func(x *exchange) {
		for i := 0; i+1 < len(header); i += 2 {
			x.w.Header().Set(header[i], header[i+1])
		}
		x.w.Header().Set("Content-Type", "application/json")
		x.w.WriteHeader(status)
		x.send(x.dialect.Refusal(status, kind, message))
	})
}

// half is the first half of a long reply's frames: some text, no end.
func (c *C) half() []string {
	frames := c.h.Dialect.Frames(TextReply(sentence, 2))
	return frames[:len(frames)/2]
}

func errorCases() []testCase {
	cases := []testCase{{"error/retry after", retryAfterCase}}
	for _, row := range statuses {
		cases = append(cases, testCase{fmt.Sprintf("error/status %d", row.status), func(c *C) {
			s := c.refuses(row.status, row.kind, "The reason.")
			e := c.fails(generate(c.model(s), ask()), row.code)
			require.Contains(c, e.Error(), "The reason.")
			require.Equal(c, 1, strings.Count(e.Error(), fmt.Sprint(row.status)), e.Error())
			require.Zero(c, e.RetryAfter)
			_, _, requests := s.request()
			require.Equal(c, 1, requests, "retries are not this layer's")
		}})
	}
	return append(cases, []testCase{
		{"error/context too long", func(c *C) {
			for _, text := range []string{
				"prompt is too long: 210000 tokens > 200000 maximum",
				"This model's maximum context length is 8192 tokens. However, your messages resulted in 9000 tokens.",
			} {
				c.fails(generate(c.model(c.refuses(http.StatusBadRequest, "invalid_request_error", text)), ask()), agent.CodeOverflow)
			}
		}},
		{"error/body that is no JSON", func(c *C) {
			s := c.serve(func(x *exchange) { http.Error(x.w, "<html>Bad gateway</html>", http.StatusBadGateway) })
			c.fails(generate(c.model(s), ask()), agent.CodeUnavailable)
		}},
		{"error/key in the provider's text", func(c *C) {
			s := c.refuses(http.StatusUnauthorized, "authentication_error", "Incorrect API key provided: "+testKey+".")
			e := c.fails(generate(c.model(s), ask()), agent.CodeDenied)
			require.Contains(c, e.Error(), "Incorrect API key provided: [redacted].")
		}},
		{"error/HTML page with 200", func(c *C) {
			s := c.serve(func(x *exchange) {
				x.w.Header().Set("Content-Type", "text/html; charset=utf-8")
				x.send("<!doctype html><html><body>Please sign in</body></html>")
			})
			e := c.fails(generate(c.model(s), ask()), agent.CodeUnavailable)
			require.Contains(c, e.Error(), "HTML")
		}},
		{"error/redirect is not followed", func(c *C) {
			other := c.replies(TextReply("Hi", 9))
			s := c.serve(func(x *exchange) {
				http.Redirect(x.w, x.r, other.http.URL+c.h.Dialect.Path(), http.StatusTemporaryRedirect)
			})
			c.fails(generate(c.model(s), ask()), agent.CodeInvalid)
			_, _, requests := other.request()
			require.Zero(c, requests, "the prompt went to another host")
		}},
		{"error/nobody listens", func(c *C) {
			l, err := (&net.ListenConfig{}).Listen(c.context(), "tcp", "127.0.0.1:0")
			require.NoError(c, err)
			address := l.Addr().String()
			require.NoError(c, l.Close())
			m := c.model(c.replies(Reply{}), func(cfg *wire.Config) { cfg.BaseURL = c.h.Dialect.BaseURL("http://" + address) })
			c.fails(generate(m, ask()), agent.CodeUnavailable)
		}},
		{"error/within the stream", func(c *C) {
			s := c.serve(func(x *exchange) {
				x.send(append(c.half(), x.dialect.traits().Fault("overloaded_error", "The reason."))...)
			})
			e := c.fails(generate(c.model(s), ask()), agent.CodeUnavailable)
			require.Contains(c, e.Error(), "The reason.")
		}},
		{"error/kind within the stream", func(c *C) {
			for _, row := range []struct {
				kind string
				code agent.Code
			}{{"rate_limit_error", agent.CodeRateLimited}, {"invalid_request_error", agent.CodeInvalid}} {
				s := c.serve(func(x *exchange) { x.send(append(c.half(), x.dialect.traits().Fault(row.kind, "The reason."))...) })
				c.fails(generate(c.model(s), ask()), row.code)
			}
		}},
		{"error/connection cut before a byte", func(c *C) {
			s := c.serve(func(x *exchange) { x.cut() })
			c.fails(generate(c.model(s), ask()), agent.CodeUnavailable)
		}},
		{"error/connection cut in mid-stream", func(c *C) {
			s := c.serve(func(x *exchange) { x.send(c.half()...); x.cut() })
			o := generate(c.model(s), ask())
			c.fails(o, agent.CodeUnavailable)
			require.NotEmpty(c, o.text, "what had arrived was passed on")
			if len(o.reply.Blocks) > 0 { // langchaingo's clients give no partial replies
				require.GreaterOrEqual(c, o.reply.Received, int64(len(o.text)))
			}
		}},
		{"error/connection cut within a tool call", func(c *C) {
			frames := c.h.Dialect.Frames(callsReply(callEvents(0, "call_a", "forecast", `{"city":"NYC"}`)...))
			s := c.serve(func(x *exchange) { x.send(frames[:len(frames)/2]...); x.cut() })
			o := generate(c.model(s), withTools())
			c.fails(o, agent.CodeUnavailable)
			require.Empty(c, agent.ToolCalls(o.reply.Blocks), "half a call is no call")
		}},
		{"error/stream ends early without a sign", func(c *C) {
			s := c.serve(func(x *exchange) { x.send(c.half()...) })
			c.fails(generate(c.model(s), ask()), agent.CodeUnavailable)
		}},
		{"error/malformed chunk", func(c *C) {
			s := c.serve(func(x *exchange) {
				frames := x.dialect.Frames(TextReply(sentence, 2))
				x.send(frames[:len(frames)/2]...)
				x.send(x.dialect.traits().Malformed)
				x.send(frames[len(frames)/2:]...)
			})
			c.fails(generate(c.model(s), ask()), agent.CodeUnavailable)
		}},
	}...)
}

func retryAfterCase(c *C) {
	for _, status := range []int{http.StatusTooManyRequests, http.StatusServiceUnavailable, 529} {
		code := agent.CodeUnavailable
		if status == http.StatusTooManyRequests {
			code = agent.CodeRateLimited
		}
		e := c.fails(generate(c.model(c.refuses(status, "rate_limit_error", "Slow down.", "Retry-After", "7")), ask()), code)
		require.Equal(c, 7*time.Second, e.RetryAfter)

		at := time.Now().Add(90 * time.Second).UTC().Format(http.TimeFormat)
		e = c.fails(generate(c.model(c.refuses(status, "rate_limit_error", "Slow down.", "Retry-After", at)), ask()), code)
		require.InDelta(c, 90, e.RetryAfter.Seconds(), 15)

		e = c.fails(generate(c.model(c.refuses(status, "rate_limit_error", "Slow down.", "Retry-After", strings.Repeat("9", 40))), ask()), code)
		require.LessOrEqual(c, e.RetryAfter, 24*time.Hour)
		require.Positive(c, e.RetryAfter)
	}
}
