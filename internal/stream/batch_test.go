package stream_test

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/stream"
)

// TestEncodedFormIsWhatTheDatabaseSplits pins the contract with turnstone_write: meta first, and the first place where meta can
// end is where it ends, whatever its strings hold.
func TestEncodedFormIsWhatTheDatabaseSplits(t *testing.T) {
	const opening, seam = `{"meta":`, `},"type":`
	for _, text := range []string{"", "a", `},"type":`, `"},"type":"`, `\`, `\"},\"type\":`} {
		e := agent.Event{Meta: agent.EventMeta{TurnID: agent.TurnID(text), AgentInstanceID: text}, Type: agent.EventStatus, Status: agent.StatusFailed}
		body, err := stream.Encode(&e)
		require.NoError(t, err)
		require.True(t, strings.HasPrefix(string(body), opening))
		end := strings.Index(string(body), seam) + 1
		var meta agent.EventMeta
		require.NoError(t, json.Unmarshal(body[len(opening):end], &meta), "%s", body)
		require.Equal(t, e.Meta, meta)
		require.Equal(t, `,"type":"status","status":"FAILED"}`, string(body[end:]))
	}
}

func TestBatchJSON(t *testing.T) {
	for n := range 3 {
		b, err := stream.NewBatch(make([]agent.Event, n))
		require.NoError(t, err)
		var events []agent.Event
		require.NoError(t, json.Unmarshal(b.JSON(), &events))
		require.Len(t, events, n)
	}
}

func FuzzEncode(f *testing.F) {
	f.Add("text", []byte(`{"n":1e400,"s":"\u0000<"}`), "turn")
	f.Add("\xff\x00", []byte(`[1.0, "`+"\xff"+`"]`), "\u2028")
	f.Add("", []byte(`{`), "")
	f.Fuzz(func(t *testing.T, text string, raw []byte, turn string) {
		given := agent.Event{Type: agent.EventToolStart, Text: text, Input: raw, Meta: agent.EventMeta{TurnID: agent.TurnID(turn)}}
		b, err := stream.NewBatch([]agent.Event{given})
		if len(raw) > 0 && !json.Valid(raw) {
			require.Equal(t, agent.CodeInvalid, agent.CodeOf(err))
			return
		}
		require.NoError(t, err)
		require.True(t, utf8.Valid(b.JSON()) && json.Valid(b.JSON()))
		once, err := stream.Decode(b.Bodies[0])
		require.NoError(t, err)
		require.Equal(t, strings.ToValidUTF8(turn, "\uFFFD") == turn, string(once.Meta.TurnID) == turn)
		body, err := stream.Encode(&once)
		require.NoError(t, err)
		again, err := stream.Decode(body)
		require.NoError(t, err)
		require.Equal(t, once, again, "what was stored reads and writes the same")
	})
}
