package llmtest

import (
	"bytes"

	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/agent"
)

// prefixCases: providers keep the prefix of a prompt by its bytes, so that a request says the same thing in the same bytes every time.
func prefixCases() []testCase {
	return []testCase{
		{"request/same request, same bytes", func(c *C) {
			want, _ := c.sent(stableRequest("And now?"))
			for range 8 {
				got, _ := c.sent(stableRequest("And now?"))
				require.Equal(c, string(want), string(got))
			}
		}},
		{"request/stable up to the last message", func(c *C) {
			c.differOnlyIn(stableRequest("And now?"), "And now?", stableRequest("Or tomorrow?"), "Or tomorrow?")
		}},
		{"request/stable but for what is about the session", func(c *C) {
			one, two := stableRequest("And now?"), stableRequest("And now?")
			one.About, two.About = "Session: one", "Session: two"
			require.Contains(c, c.differOnlyIn(one, one.About, two, two.About), one.System)
		}},
		{"request/stable when it grows", func(c *C) {
			req := stableRequest("And now?")
			one, _ := c.sent(req)
			req.Messages = append(req.Messages, agent.Message{Role: agent.RoleAssistant, Blocks: []agent.Block{agent.Text("Noon.")}}, agent.UserText("Thanks."))
			two, _ := c.sent(req)
			before, _ := around(c, one, "And now?")
			before2, _ := around(c, two, "And now?")
			require.Equal(c, before, before2)
		}},
		{"request/cache is no error", func(c *C) {
			req := stableRequest("And now?")
			for _, ttl := range []string{"", "5m", "1h"} {
				req.Cache = &agent.PromptCache{TTL: ttl}
				c.sent(req)
			}
		}},
	}
}

// stableRequest has everything that a request can have, without what langchaingo's clients refuse.
func stableRequest(last string) agent.ModelRequest {
	req := fullRequest()
	req.ToolChoice = ""
	req.Messages = append(req.Messages, agent.Message{Role: agent.RoleAssistant, Blocks: []agent.Block{agent.Text("Hello.")}}, agent.UserText(last))
	return req
}

// differOnlyIn checks that two requests are the same bytes but for a text of each. It returns those before the text.
func (c *C) differOnlyIn(one agent.ModelRequest, text string, two agent.ModelRequest, text2 string) (before string) {
	body, _ := c.sent(one)
	body2, _ := c.sent(two)
	before, after := around(c, body, text)
	before2, after2 := around(c, body2, text2)
	require.Equal(c, before, before2)
	require.Equal(c, after, after2)
	return before
}

// around returns what is before and behind a text that is in a body once.
func around(c *C, body []byte, text string) (before, after string) {
	require.Equal(c, 1, bytes.Count(body, []byte(text)))
	head, tail, _ := bytes.Cut(body, []byte(text))
	return string(head), string(tail)
}
