package llmtest

import (
	"bytes"

	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/agent"
)

// prefixCases check that equal parts of requests are equal bytes, because providers cache a prompt by the bytes it begins with.
func prefixCases() []testCase {
	return []testCase{
		{"request/same request, same bytes", func(c *caseRun) {
			want, _ := c.send(stableRequest("And now?"))
			for range 8 {
				got, _ := c.send(stableRequest("And now?"))
				require.Equal(c, string(want), string(got))
			}
		}},
		{"request/stable up to the last message", func(c *caseRun) {
			c.requireSameAround(stableRequest("And now?"), "And now?", stableRequest("Or tomorrow?"), "Or tomorrow?")
		}},
		{"request/stable around the session's text", func(c *caseRun) {
			one, two := stableRequest("And now?"), stableRequest("And now?")
			one.About, two.About = "Session: one", "Session: two"
			require.Contains(c, c.requireSameAround(one, one.About, two, two.About), one.System)
		}},
		{"request/stable when it grows", func(c *caseRun) {
			req := stableRequest("And now?")
			one, _ := c.send(req)
			req.Messages = append(req.Messages, agent.Message{Role: agent.RoleAssistant, Blocks: []agent.Block{agent.Text("Noon.")}}, agent.UserText("Thanks."))
			two, _ := c.send(req)
			before, _ := cutBody(c, one, "And now?")
			before2, _ := cutBody(c, two, "And now?")
			require.Equal(c, before, before2)
		}},
		{"request/cache is no error", func(c *caseRun) {
			req := stableRequest("And now?")
			for _, ttl := range []string{"", "5m", "1h"} {
				req.Cache = &agent.PromptCache{TTL: ttl}
				c.send(req)
			}
		}},
	}
}

// stableRequest is a full request that langchaingo's clients take as well, with last as the last message.
func stableRequest(last string) agent.ModelRequest {
	req := fullRequest()
	req.ToolChoice = ""
	req.Messages = append(req.Messages, agent.Message{Role: agent.RoleAssistant, Blocks: []agent.Block{agent.Text("Hello.")}}, agent.UserText(last))
	return req
}

// requireSameAround checks that the bodies of two requests differ only in a text of each. It returns the bytes before that text.
func (c *caseRun) requireSameAround(one agent.ModelRequest, text string, two agent.ModelRequest, text2 string) (before string) {
	body, _ := c.send(one)
	body2, _ := c.send(two)
	before, after := cutBody(c, body, text)
	before2, after2 := cutBody(c, body2, text2)
	require.Equal(c, before, before2)
	require.Equal(c, after, after2)
	return before
}

// cutBody returns the parts of a body before and after a text, which it contains exactly once.
func cutBody(c *caseRun, body []byte, text string) (before, after string) {
	require.Equal(c, 1, bytes.Count(body, []byte(text)))
	head, tail, _ := bytes.Cut(body, []byte(text))
	return string(head), string(tail)
}
