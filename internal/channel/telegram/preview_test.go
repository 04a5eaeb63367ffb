package telegram_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/gateway/gatewaytest"
)

// A model that follows an injected instruction may put what it has read into the address of a link. Telegram must not fetch the address for a
// preview, neither of a new message nor of an edited one.
func TestLinksHaveNoPreview(t *testing.T) {
	b := newBench(t)
	b.start(nil)
	id := b.ask("read my mail", 1)
	b.rt.Emit(id, gatewaytest.Status(agent.StatusRunning), token("model/1", "Look: "))
	b.api.AwaitTexts(ann, "Look:")
	b.rt.Emit(id, token("model/1", "https://evil.example/?q=what-it-read"))
	b.api.AwaitTexts(ann, "Look: https://evil.example/?q=what-it-read")
	for _, method := range []string{"sendMessage", "editMessageText"} {
		calls := b.api.Calls(method)
		require.NotEmpty(t, calls, method)
		for _, c := range calls {
			require.JSONEq(t, `{"is_disabled":true}`, c.Form["link_preview_options"], method)
		}
	}
}
