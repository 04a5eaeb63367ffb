package strictjson_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/strictjson"
)

func TestDecodeNamesTheField(t *testing.T) {
	cases := map[string]struct{ in, field, message string }{
		"unknown":          {`{"message":"x","nope":1}`, "nope", "unknown field"},
		"unknown, nested":  {`{"limits":{"tool_cals":1}}`, "limits.tool_cals", "unknown field"},
		"in an array":      {`{"messages":[{"role":"user","blocks":[{"type":"text","txt":""}]}]}`, "messages[0].blocks[0].txt", "unknown field"},
		"wrong type":       {`{"message":7}`, "message", "want a string, got a number"},
		"a fraction":       {`{"limits":{"tool_calls":1.5}}`, "limits.tool_calls", "want a whole number, got 1.5"},
		"text for number":  {`{"limits":{"tool_calls":"many"}}`, "limits.tool_calls", "want a whole number, got a string"},
		"array for object": {`{"context":[]}`, "context", "want an object, got an array"},
		"twice":            {`{"message":"a","message":"b"}`, "message", "is given twice"},
		"case matters":     {`{"Message":"a"}`, "Message", "unknown field"},
		"cut off":          {`{"message":"a"`, "", "malformed JSON"},
		"trailing":         {`{"message":"a"} {}`, "", "malformed JSON"},
		"not an object":    {`[]`, "", "want an object, got an array"},
		"empty":            {``, "", "malformed JSON"},
		"invalid UTF-8":    {"{\"message\":\"\xff\"}", "message", "malformed JSON"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			var r agent.TurnRequest
			err := strictjson.Decode([]byte(c.in), &r)
			var e *agent.Error
			require.ErrorAs(t, err, &e, "%v", err)
			require.Equal(t, agent.CodeInvalid, e.Code)
			require.Equal(t, c.field, e.Field, "%v", err)
			require.ErrorContains(t, err, c.message)
		})
	}
}

// An error repeats no more of a value than a reader needs: the answer, the log and gRPC's headers hold it.
func TestDecodeRepeatsLittle(t *testing.T) {
	long := strings.Repeat("1", 200_000)
	for in, want := range map[string]string{
		`{"at":"soon"}`:            `at: want a time such as "2026-11-22T12:00:00Z", got "soon"`,
		`{"at":7}`:                 `at: want a time such as "2026-11-22T12:00:00Z", got a number`,
		`{"at":[]}`:                `at: want a time such as "2026-11-22T12:00:00Z", got an array`,
		`{"at":"` + long + `"}`:    `at: want a time such as "2026-11-22T12:00:00Z", got "1111`,
		`{"count":` + long + `}`:   `count: want a whole number, got a number`,
		`{"count":"` + long + `"}`: `count: want a whole number, got a string`,
	} {
		err := strictjson.Decode([]byte(in), &struct {
			At    *time.Time `json:"at"`
			Count int        `json:"count"`
		}{})
		require.ErrorContains(t, err, want)
		require.Less(t, len(err.Error()), 300)
	}
}

func TestDecodeKeepsWhatIsRight(t *testing.T) {
	var r agent.TurnRequest
	require.NoError(t, strictjson.Decode([]byte(`{"message":"x","context":{"tenant":"t","flags":{"a":true}},"output_schema":{"type":"object"}}`), &r))
	require.Equal(t, "t", r.Context.Tenant)
	require.JSONEq(t, `{"type":"object"}`, string(r.OutputSchema))
}

func FuzzDecode(f *testing.F) {
	f.Add([]byte(`{"message":"x","limits":{"tool_calls":1},"messages":[{"role":"user","blocks":[{"type":"text","text":"t"}]}]}`))
	f.Add([]byte(`{"a":{"b":[`))
	f.Fuzz(func(t *testing.T, data []byte) {
		var r agent.TurnRequest
		err := strictjson.Decode(data, &r)
		if err != nil {
			require.Equal(t, agent.CodeInvalid, agent.CodeOf(err))
			return
		}
		again, err := json.Marshal(r)
		require.NoError(t, err)
		var r2 agent.TurnRequest
		require.NoError(t, strictjson.Decode(again, &r2), "%s", again)
	})
}
