package middleware

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/agent"
)

func TestPromptCaching(t *testing.T) {
	cases := map[string]struct {
		options, system string
		messages        int
		want            *agent.PromptCache
	}{
		"by default":               {``, "", 0, &agent.PromptCache{TTL: "5m"}},
		"for an hour":              {`{"type":"ephemeral","ttl":"1h"}`, "s", 1, &agent.PromptCache{TTL: "1h"}},
		"of enough messages":       {`{"min_messages_to_cache":3}`, "", 3, &agent.PromptCache{TTL: "5m"}},
		"the system prompt counts": {`{"min_messages_to_cache":3}`, "s", 2, &agent.PromptCache{TTL: "5m"}},
		"of too few":               {`{"min_messages_to_cache":3}`, "", 2, nil},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			req := agent.ModelRequest{System: c.system, Messages: talk(0, c.messages)}
			edit(t, build(t, newPromptCaching, c.options), &req)
			require.Equal(t, agent.ModelRequest{System: c.system, Messages: talk(0, c.messages), Cache: c.want}, req)
		})
	}
}

func TestPromptCachingRefusesOptions(t *testing.T) {
	refuses(t, newPromptCaching, map[string]string{
		`{"type":"persistent"}`:                  "type",
		`{"ttl":"10m"}`:                          "ttl",
		`{"ttl":""}`:                             "ttl",
		`{"min_messages_to_cache":-1}`:           "min_messages_to_cache",
		`{"unsupported_model_behavior":"error"}`: "unsupported_model_behavior",
		`{"cache":true}`:                         "cache",
	})
}
