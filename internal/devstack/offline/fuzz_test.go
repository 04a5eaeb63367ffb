package offline

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/stretchr/testify/require"
)

// pipelineSchema is that of execute_pipeline.
func pipelineSchema(t testing.TB) *jsonschema.Schema {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join("..", "..", "tool", "pipeline", "schema.json"))
	require.NoError(t, err)
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(raw))
	require.NoError(t, err)
	c := jsonschema.NewCompiler()
	require.NoError(t, c.AddResource("schema.json", doc))
	schema, err := c.Compile("schema.json")
	require.NoError(t, err)
	return schema
}

func checkArguments(t testing.TB, schema *jsonschema.Schema, arguments string) {
	t.Helper()
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader([]byte(arguments)))
	require.NoError(t, err)
	require.NoError(t, schema.Validate(doc), arguments)
	var args pipelineArgs
	require.NoError(t, json.Unmarshal([]byte(arguments), &args))
	require.LessOrEqual(t, len(args.Pipeline), maxSteps)
	require.True(t, len(args.Pipeline) > 0 || args.InputRef != "")
}

func TestCallsFitTheSchema(t *testing.T) {
	t.Parallel()
	schema := pipelineSchema(t)
	for _, sentence := range sentences(t) {
		mem := conversed()
		in := parseIntent(sentence, mem.known()...)
		if !in.understood() {
			continue
		}
		var refs []string
		for {
			args, fetches, because := plan(&in, mem, flightsURL, refs)
			if because != "" {
				break
			}
			checkArguments(t, schema, string(args))
			if len(refs) == fetches {
				break
			}
			refs = append(refs, "cas://sha256:00")
		}
	}
}

// Any prompt is parsed, always to the same intent; what it becomes is within the bounds.
func FuzzParseIntent(f *testing.F) {
	for _, s := range []string{
		"fetch flights from NYC to LAX, sort by price, show top 3", "say 10 words slowly", "now filter those under $1,500.50",
		`fetch https://a.b/c?d=e, where "x y" != 'z' or not a in (1, "b", true) and c contains "d, only p, q and r`, "cheapest 0 flights → ->", "where where and or (((", "≤≥≠!=<>==",
		"average price and count by airline, then those over 3, join with airlines on a = b, jq '.[]'", "extract (?P<a>\\d+) from b, parse c as %d/%m", "rename a to b and b to a, drop a",
		"top 3 airlines by average price by airline per", "join cas://a with artifact://b on c", "the second result of fetch_data's result",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, prompt string) {
		in := parseIntent(prompt)
		require.Equal(t, in, parseIntent(prompt))
		require.LessOrEqual(t, in.say, maxSay)
		require.LessOrEqual(t, len(in.stages), maxStages)
	})
}

// Whatever was said and whatever the tool answered, the model answers: with text, or with calls that fit the schema.
func FuzzConversation(f *testing.F) {
	schema := pipelineSchema(f)
	m := New(Config{FlightsURL: flightsURL, TokenDelay: -1})
	for _, s := range [][2]string{
		{"fetch flights from NYC to LAX, sort by price, show top 3", `{"ref":"cas://sha256:aa","rows":[{"a":1}],"row_count":1}`},
		{"fetch flights, join with airlines on airline code, sort by x", `{"error":{"message":"no row has a field \"x\"; the first row has y, xx","field":"pipeline[2].field"}}`},
		{"those under 3\n<session_context>\n{\"last_result\":{\"ref\":\"cas://sha256:01\",\"fields\":[{\"name\":\"a\"}]}}\n</session_context>", `error`},
		{"add email notification whenever price drops below $500", `{"patch_id":"1"}`},
		{"schedule x every day after a_b", ``},
		{"ask a: b", `{"output":"c"}`},
		{"plan: a, b", "{}"},
		{"average price", `{"preview":{"sample":[1]},"ref":"x"}`},
	} {
		f.Add(s[0], s[1])
	}
	f.Fuzz(func(t *testing.T, prompt, result string) {
		req := &request{Model: ModelName, Messages: []message{{Role: "user", Content: jsonString(prompt), text: prompt}}}
		req.Messages[0].text, req.Messages[0].context = splitContext(prompt)
		for _, name := range []string{toolName, patchTool, delegateTool, todosTool} {
			offered := tool{Type: "function"}
			offered.Function.Name = name
			req.Tools = append(req.Tools, offered)
		}
		const most = 25 // a call for each join, the pipeline, and a correction
		for range most {
			r, refused := m.respond(req)
			require.Nil(t, refused)
			if len(r.calls) == 0 {
				require.NotEmpty(t, r.text)
				return
			}
			called := message{Role: "assistant", ToolCalls: r.calls}
			req.Messages = append(req.Messages, called)
			for _, c := range r.calls {
				require.True(t, json.Valid([]byte(c.Function.Arguments)))
				if c.Function.Name == toolName {
					checkArguments(t, schema, c.Function.Arguments)
				}
				req.Messages = append(req.Messages, message{Role: "tool", ToolCallID: c.ID, Content: jsonString(result), text: result})
			}
		}
		t.Fatal("it never ends")
	})
}

func FuzzToolAnswer(f *testing.F) {
	for _, s := range []string{
		`{"rows":[{"a":1}],"row_count":1}`, `{"error":{"message":"x","retryable":true}}`, `{"preview":{"sample":[1],"row_count":9},"ref":"cas://sha256:ab"}`,
		`error: no`, `[]`, `{"rows":[{"a|b":"c\nd"},3]}`, `null`, ``, `{"rows":[],"cache_hit":true}`,
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, content string) {
		require.NotEmpty(t, toolAnswer([]string{content}, nil))
	})
}
