package ws_test

import (
	"encoding/json"
	"os"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/coder/websocket"
	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/gateway"
	"github.com/turnstone-run/turnstone/internal/gateway/ws"
)

func TestMalformedFrames(t *testing.T) {
	h := open(t, nil)
	h.begin("t")
	c := h.dial("")
	for in, want := range map[string]struct{ id, field, message string }{
		``:                         {"", "", "malformed JSON"},
		`{`:                        {"", "", "malformed JSON"},
		`{"type":"ping"} {}`:       {"", "", "malformed JSON"},
		`[]`:                       {"", "", "want an object, got an array"},
		`"ping"`:                   {"", "", "want an object, got a string"},
		`null`:                     {"", "type", "is missing"},
		`{}`:                       {"", "type", "is missing"},
		`{"id":"a"}`:               {"a", "type", "is missing: want one of turn, follow, "},
		`{"type":7,"id":"a"}`:      {"a", "type", "want a string, got a number"},
		`{"type":"PING","id":"a"}`: {"a", "type", `got "PING"`},
		`{"Type":"ping","id":"a"}`: {"a", "Type", "unknown field"},
		`{"type":"ping","id":7}`:   {"", "id", "want a string, got a number"},
		`{"type":"ping","x":1}`:    {"", "x", "unknown field"},
		`{"type":"ping","id":"` + strings.Repeat("x", 129) + `"}`:                         {"", "id", "longer than 128 bytes"},
		`{"type":"ping","id":"` + strings.Repeat("x", 129) + `","x":1}`:                   {"", "x", "unknown field"},
		`{"type":"ping","type":"ping","id":"a"}`:                                          {"a", "type", "given twice"},
		`{"type":"ping","id":"a","turn_id":"t"}`:                                          {"a", "turn_id", "a frame of type ping has no such member"},
		`{"type":"follow","turn_id":"t"}`:                                                 {"", "id", "is empty"},
		`{"type":"follow","id":"a"}`:                                                      {"a", "turn_id", "is missing"},
		`{"type":"follow","id":"a","turn_id":"t","after_index":-1}`:                       {"a", "after_index", "0 or more"},
		`{"type":"follow","id":"a","turn_id":"t","after_index":"1"}`:                      {"a", "after_index", "want a whole number, got a string"},
		`{"type":"follow","id":"a","turn_id":"t","after_index":1.5}`:                      {"a", "after_index", "want a whole number"},
		`{"type":"follow","id":"a","turn_id":"t","request":{"message":"x"}}`:              {"a", "request", "no such member"},
		`{"type":"turn","id":"a"}`:                                                        {"a", "request", "is missing"},
		`{"type":"turn","id":"a","turn_id":"t","request":{"message":"x"}}`:                {"a", "turn_id", "no such member"},
		`{"type":"turn","id":"a","request":[]}`:                                           {"a", "request", "want an object, got an array"},
		`{"type":"turn","id":"a","request":{}}`:                                           {"a", "message", ""},
		`{"type":"turn","id":"a","request":{"message":7}}`:                                {"a", "message", "want a string, got a number"},
		`{"type":"turn","id":"a","request":{"nope":7}}`:                                   {"a", "nope", "unknown field"},
		`{"type":"turn","id":"a","request":{"messages":[{"role":"user","blox":1}]}}`:      {"a", "messages[0].blox", "unknown field"},
		`{"type":"turn","id":"a","request":{"message":"x","message":"y"}}`:                {"a", "message", "given twice"},
		`{"type":"message","id":"a","turn_id":"t"}`:                                       {"a", "request", "is missing"},
		`{"type":"message","id":"a","turn_id":"t","request":{}}`:                          {"a", "message", ""},
		`{"type":"decide","id":"a","turn_id":"t"}`:                                        {"a", "decision", "is missing"},
		`{"type":"decide","id":"a","turn_id":"t","decision":{"x":1}}`:                     {"a", "x", "unknown field"},
		`{"type":"decide","id":"a","turn_id":"t","decision":{}}`:                          {"a", "approval_id", ""},
		`{"type":"provide","id":"a","turn_id":"t","provided":{"tool_call_id":1}}`:         {"a", "tool_call_id", "want a string, got a number"},
		`{"type":"provide","id":"a","turn_id":"t","provided":{"tool_call_id":""}}`:        {"a", "tool_call_id", "is empty"},
		`{"type":"cancel","id":"a","turn_id":"t","reason":{}}`:                            {"a", "reason", "want a string, got an object"},
		`{"type":"ping","` + strings.Repeat("ü", 300) + `":1}`:                            {"", strings.Repeat("ü", 128) + "…", "unknown field"},
		`{"type":"ping","id":"` + "\xff" + `"}`:                                           {"", "id", "malformed JSON"},
		`{"type":"turn","id":"a","request":` + strings.Repeat(`{"context":`, 3) + `1}}}}`: {"a", "context.context", "unknown field"},
	} {
		c.send("%s", in)
		f := c.wantError(want.id, "invalid", want.field)
		require.Contains(t, f.Error.Message, want.message, "%s", in)
		require.False(t, f.Error.Retryable)
	}
	require.NoError(t, c.Write(c.ctx, websocket.MessageBinary, []byte(`{"type":"ping"}`)))
	c.wantError("", "invalid", "")
	c.send(`{"type":"ping","id":"still here"}`)
	c.want("pong", "still here")
	require.Len(t, h.rt.Submitted(), 1, "the refused frames started no turn")
}

// The frames in docs/reference/websocket.md are valid.
func TestDocumentedFrames(t *testing.T) {
	page, err := os.ReadFile("../../../docs/reference/websocket.md")
	require.NoError(t, err)
	_, block, found := strings.Cut(string(page), "## What a client sends\n\n```json\n")
	require.True(t, found)
	block, _, found = strings.Cut(block, "\n```\n")
	require.True(t, found)
	documented := map[string]bool{}
	for line := range strings.Lines(block) {
		_, kind, err := ws.Decode([]byte(line))
		require.NoError(t, err, line)
		documented[kind] = true
	}
	require.Len(t, documented, 9, "every type")
}

func TestHugeFrame(t *testing.T) {
	h := open(t, func(c *gateway.Config, _ *ws.Config) { c.Limits.BodyBytes = 4096 })
	h.begin("t")
	c := h.dial("?turn_id=t")
	fits := `{"type":"turn","id":"a","request":{"message":"` + strings.Repeat("x", 4096-49) + `"}}`
	require.Len(t, fits, 4096)
	c.send("%s", fits)
	c.want("accepted", "a")
	for _, size := range []int{1, 1 << 20} {
		c := h.dial("?turn_id=t")
		c.send("%s", fits+strings.Repeat(" ", size))
		c.wantError("", "overflow", "")
		end := c.wantError("", "unavailable", "")
		require.Equal(t, agent.TurnID("t"), end.TurnID, "the last frame of the follow")
		require.True(t, end.Error.Retryable, "the follow itself did not fail")
		require.Equal(t, websocket.StatusMessageTooBig, websocket.CloseStatus(c.closeError()))
	}
	c.send(`{"type":"ping"}`)
	c.want("pong", "")
}

func TestSlowFrame(t *testing.T) {
	h := open(t, func(c *gateway.Config, _ *ws.Config) { c.Limits.ReadTimeout = time.Second })
	c := h.dial("")
	w, err := c.Writer(c.ctx, websocket.MessageText)
	require.NoError(t, err)
	_, err = w.Write([]byte(`{"type":` + strings.Repeat(" ", 10_000))) // more than the client buffers
	require.NoError(t, err)
	require.Equal(t, websocket.StatusPolicyViolation, websocket.CloseStatus(c.closeError()))
}

func FuzzDecode(f *testing.F) {
	for _, seed := range []string{
		`{"type":"turn","id":"c1","after_index":3,"request":{"message":"x","session_id":"s","context":{"flags":{"a":true}}}}`,
		`{"type":"follow","id":"c2","turn_id":"t","after_index":17}`, `{"type":"unfollow","id":"c2"}`, `{"type":"get","id":"g","turn_id":"t"}`,
		`{"type":"decide","id":"c3","turn_id":"t","decision":{"approval_id":"a","decision":"edit","args":{"x":1},"by":"me"}}`,
		`{"type":"provide","id":"c4","turn_id":"t","provided":{"tool_call_id":"x","result":[1]}}`, `{"type":"ping"}`,
		`{"type":"cancel","id":"c5","turn_id":"t","reason":"r","by":"b"}`, `{"type":"message","id":"m","turn_id":"t","request":{"messages":[]}}`,
		`{"id":"x","type":7}`, `{"id":"x","type":`, "{\"id\":\"\xff\"}", `{"request":{"request":{"decision":1}}}`,
	} {
		f.Add([]byte(seed))
	}
	kinds := map[string]bool{}
	for _, k := range []string{"turn", "follow", "unfollow", "get", "message", "decide", "provide", "cancel", "ping"} {
		kinds[k] = true
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		id, kind, err := ws.Decode(data)
		require.LessOrEqual(t, len(id), 128)
		require.True(t, utf8.ValidString(id))
		if err == nil {
			require.True(t, kinds[kind], kind)
			require.True(t, json.Valid(data))
			return
		}
		require.Equal(t, agent.CodeInvalid, agent.CodeOf(err))
		failure, status, _ := gateway.FailureOf(err)
		require.Equal(t, 400, status)
		require.LessOrEqual(t, len(failure.Field), 300)
		require.True(t, utf8.ValidString(failure.Field), "%q", failure.Field)
	})
}
