package openai_test

import (
	"encoding/json"
	"fmt"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/agent"
)

// toolCallAnswer is an answer that calls tools of the client.
type toolCallAnswer struct {
	Choices []struct {
		Message struct {
			Content   string            `json:"content"`
			ToolCalls []json.RawMessage `json:"tool_calls"`
		} `json:"message"`
		FinishReason string `json:"finish_reason"`
	} `json:"choices"`
	Usage struct {
		Total int `json:"total_tokens"`
	} `json:"usage"`
}

func usage(in, out int64) agent.Event {
	return agent.Event{Type: agent.EventUsage, Usage: &agent.Usage{InputTokens: in, OutputTokens: out}}
}

// The answer contains the calls that the turn waits for. The next request provides their results to the turn, and its answer is the text after them.
func TestClientTools(t *testing.T) {
	d := open(t, nil)
	d.script(append([]agent.Event{running(), token("model/1", "Let me add."), usage(7, 3)},
		append(clientToolCall("a1", "add", `{"a":1}`)[:1], clientToolCall("a2", "sub", `{}`)...)...)...)
	var mu sync.Mutex
	got := map[agent.CallID]string{}
	refusal := error(nil)
	d.rt.Provided = func(id agent.TurnID, r agent.ProvidedResult) error {
		mu.Lock()
		defer mu.Unlock()
		if refusal != nil {
			return refusal
		}
		_, again := got[r.ToolCallID]
		if got[r.ToolCallID] = string(r.Result); !again {
			d.rt.Emit(id, inputResolved(string(r.ToolCallID)), running())
			if len(got) == 2 {
				d.rt.Emit(id, token("model/2", "It is three."), usage(20, 4), completed("It is three."))
			}
		}
		return nil
	}
	tools := `,"tools":[` + tool("add") + `,` + tool("sub") + `]`
	first := d.complete(tools)
	require.Equal(t, 200, first.status, first.body)
	var c toolCallAnswer
	require.NoError(t, json.Unmarshal([]byte(first.body), &c))
	require.Equal(t, "tool_calls", c.Choices[0].FinishReason)
	require.Equal(t, "Let me add.", c.Choices[0].Message.Content)
	require.Equal(t, 10, c.Usage.Total)
	require.Len(t, c.Choices[0].Message.ToolCalls, 2)
	ids := make([]string, 2)
	for i, raw := range c.Choices[0].Message.ToolCalls {
		var call struct {
			ID string `json:"id"`
		}
		require.NoError(t, json.Unmarshal(raw, &call))
		ids[i] = call.ID
	}
	assistant := fmt.Sprintf(`{"role":"assistant","content":"Let me add.","tool_calls":[%s,%s]}`, c.Choices[0].Message.ToolCalls[0], c.Choices[0].Message.ToolCalls[1])
	sendResults := func(members string, results ...string) answer {
		messages := `{"role":"user","content":"hello"},` + assistant
		for i, r := range results {
			messages += fmt.Sprintf(`,{"role":"tool","tool_call_id":%q,"content":%q}`, ids[i], r)
		}
		return d.send("POST", "/v1/chat/completions", `{"model":"analyst","messages":[`+messages+`]`+tools+members+`}`)
	}

	stranger := sendResults(`,"user":"mallory"`, "3", "4")
	require.NotEqual(t, first.header.Get("Turnstone-Turn-Id"), stranger.header.Get("Turnstone-Turn-Id"), "another user's turn")
	require.Empty(t, got)
	partial := sendResults("", "3")
	require.Equal(t, 400, partial.status, partial.body)
	require.Contains(t, partial.problem(t).Message, ids[1])
	require.Empty(t, got, "no result was provided")

	whole := sendResults(`,"stream":true,"stream_options":{"include_usage":true}`, `{"sum":3}`, "no [difference")
	require.Equal(t, 200, whole.status, whole.body)
	h := readStream(t, whole.body)
	require.Equal(t, "It is three.", h.content, "without the text of the first answer")
	require.Equal(t, "stop", h.finish)
	require.Contains(t, string(h.usage), `"total_tokens":24`)
	require.Equal(t, map[agent.CallID]string{"a1": `{"sum":3}`, "a2": `"no [difference"`}, got)
	require.Equal(t, first.header.Get("Turnstone-Turn-Id"), whole.header.Get("Turnstone-Turn-Id"))

	refusal = agent.Errorf(agent.CodeConflict, "", "has its result already")
	for name, a := range map[string]answer{
		"another result": sendResults("", "4", "5"),
		"another question": d.send("POST", "/v1/chat/completions", `{"model":"analyst","messages":[{"role":"user","content":"hello"},`+assistant+
			`,{"role":"tool","tool_call_id":"`+ids[0]+`","content":"3"},{"role":"tool","tool_call_id":"`+ids[1]+`","content":"3"},{"role":"user","content":"sure?"}]}`),
	} {
		require.Equal(t, 200, a.status, name)
		require.NotEqual(t, first.header.Get("Turnstone-Turn-Id"), a.header.Get("Turnstone-Turn-Id"), name)
	}
	last := d.rt.Submitted()[len(d.rt.Submitted())-1].Request
	for _, m := range last.Messages {
		for _, b := range m.Blocks {
			require.LessOrEqual(t, len(b.ID)+len(b.ToolCallID), 40, "providers bound the ids of calls")
		}
	}
}
