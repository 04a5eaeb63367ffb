package chat

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/strictjson"
)

// FuzzRequest: every entry of a history is checked here; what else is wrong with a turn is found by its own check.
func FuzzRequest(f *testing.F) {
	for _, seed := range []string{
		`{"message":"x"}`, `{"message":"x","chat_history":[]}`, `{"message":"x","chat_history":[{"role":"user","content":"a"},{"role":"assistant","blocks":[{"type":"text","text":"b"}]}]}`,
		`{"message":"x","chat_history":[{}],"user_id":"u"}`, `{"message":"","agent":"a","agent_name":"a"}`, `null`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		var q request
		if strictjson.Decode(body, &q) != nil {
			return
		}
		turn, err := q.turn(false)
		if err != nil {
			require.Equal(t, agent.CodeInvalid, agent.CodeOf(err))
			return
		}
		require.Equal(t, q.ChatHistory == nil, turn.History == "")
		input := turn.Input()
		require.Equal(t, q.Message, input[len(input)-1].Blocks[0].Text)
		for i := range input {
			require.NoError(t, input[i].Validate("m"))
		}
	})
}

// TestWhoAsks: a credential that is somebody's own says who asks, and the body cannot.
func TestWhoAsks(t *testing.T) {
	q := request{Message: "x", UserID: "u1"}
	turn, err := q.turn(true)
	require.NoError(t, err)
	require.Empty(t, turn.Context.UserID)
	turn, err = q.turn(false)
	require.NoError(t, err)
	require.Equal(t, "u1", turn.Context.UserID)
}
