package gateway

import (
	"strings"

	"github.com/turnstone-run/turnstone/agent"
)

// noSuchPath returns the error for an unknown path. The error names the setting that would enable the path, or the path to use instead, if there is
// one.
func (s *httpServer) noSuchPath(path string) error {
	for _, part := range []struct {
		isOff      bool
		path, hint string
	}{
		{
			s.cfg.Keys == nil, pathKeys, "API keys are off on this server: set auth.keys (TURNSTONE_AUTH_KEYS=true), and auth.operator_key " +
				"to make the first one with (docs/guides/auth.md)",
		},
		{s.cfg.Links == nil, "/v1/links", "chats are off on this server: set telegram.token (TURNSTONE_TELEGRAM_TOKEN)"},
		{
			true, "/v1/responses", "OpenAI's Responses API is not served here: use /v1/chat/completions (AI SDK: openai.chat(model) in place of openai(model); " +
				"LangChain: useResponsesApi: false)",
		},
		{s.cfg.Codec == nil, "/codec", "payloads of this server are in the clear: set temporal.encryption_keys or temporal.offload_bytes"},
	} {
		if part.isOff && (path == part.path || strings.HasPrefix(path, part.path+"/")) {
			return agent.Errorf(agent.CodeNotFound, "", "%s", part.hint)
		}
	}
	return agent.Errorf(agent.CodeNotFound, "", "no such path: %.200q", path)
}
