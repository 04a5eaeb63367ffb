package offline_test

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/internal/devstack/offline"
)

const city = `{"type":"object","required":["city"],"additionalProperties":false,"properties":{"city":{"type":"string"}}}`

func format(schema string) string {
	return `"response_format":{"type":"json_schema","json_schema":{"name":"answer","strict":true,"schema":` + schema + `}}`
}

// offer makes tools of these names.
func offer(names ...string) string {
	var out []string
	for _, n := range names {
		parameters := `{"type":"object"}`
		if n == "structured_response" || n == "structured_response_" {
			parameters = city
		}
		out = append(out, fmt.Sprintf(`{"type":"function","function":{"name":%q,"parameters":%s}}`, n, parameters))
	}
	raw := ""
	for i, o := range out {
		if i > 0 {
			raw += ","
		}
		raw += o
	}
	return `"tools":[` + raw + `]`
}

func TestStructuredAnswers(t *testing.T) {
	t.Parallel()
	url := model(t, offline.Config{})
	a := ask(t, url, request(format(city), user("the city is Rome")))
	require.JSONEq(t, `{"city":"Rome"}`, text(t, a))
	require.Equal(t, "stop", a.Choices[0].FinishReason)
	require.Equal(t, (len(`"the city is Rome"`)+len(city)+3)/4, a.Usage.Prompt)

	required := `,"tool_choice":"required"`
	forced := `,"tool_choice":{"type":"function","function":{"name":"structured_response"}}`
	for _, choice := range []string{required, forced} {
		a = ask(t, url, request(offer("structured_response")+choice, user("the city is Rome")))
		require.Equal(t, "tool_calls", a.Choices[0].FinishReason)
		require.Nil(t, a.Choices[0].Message.Content)
		calls := a.Choices[0].Message.ToolCalls
		require.Len(t, calls, 1)
		require.Equal(t, "structured_response", calls[0].Function.Name)
		require.JSONEq(t, `{"city":"Rome"}`, calls[0].Function.Arguments)
	}
	a = ask(t, url, request(offer("structured_response", "structured_response_")+`,"tool_choice":{"type":"function","function":{"name":"structured_response_"}}`, user("x")))
	require.Equal(t, "structured_response_", a.Choices[0].Message.ToolCalls[0].Function.Name)
	require.Contains(t, text(t, ask(t, url, request(offer("structured_response"), user("the city is Rome")))), "did not understand", "nothing forces it")
	require.Contains(t, text(t, ask(t, url, request(offer("lookup")+required, user("the city is Rome")))), "did not understand", "it is another tool")

	// Other tools come first.
	both := offer("execute_pipeline", "structured_response") + required
	a = ask(t, url, request(both, user(flights)))
	require.Equal(t, "execute_pipeline", a.Choices[0].Message.ToolCalls[0].Function.Name)
	a = ask(t, url, request(both, conversation(`{"rows":[{"city":"Oslo"}]}`)...))
	require.JSONEq(t, `{"city":"Oslo"}`, a.Choices[0].Message.ToolCalls[0].Function.Arguments)
	require.NotEqual(t, "call_1", a.Choices[0].Message.ToolCalls[0].ID)

	answer := `{"type":"object","required":["answer"],"properties":{"answer":{"type":"string"}}}`
	require.JSONEq(t, `{"answer":"word1 word2"}`, text(t, ask(t, url, request(format(answer), user("say 2 words")))))
	require.JSONEq(t, `{"answer":"answer"}`, text(t, ask(t, url, request(format(answer), user("what is the capital of France?")))), "the introduction is no answer")
	asked := system("You answer.\n\n[1] Tea\n> Tea is served at four.")
	require.JSONEq(t, `{"answer":"Tea is served at four [1]."}`, text(t, ask(t, url, request(format(answer), asked, user("when is tea served?")))))
	classified := system(shipped(t).classify)
	require.Equal(t, "conversational", text(t, ask(t, url, request(format(answer), classified, user("hi")))), "a step of the preparation is a word")
}

func TestRefusedFormats(t *testing.T) {
	t.Parallel()
	url := model(t, offline.Config{})
	for body, want := range map[string]string{
		`"response_format":{"type":"json_object"}`:                                                                                   "response_format",
		`"response_format":{"type":"json_schema"}`:                                                                                   "response_format.json_schema",
		`"response_format":{"type":"json_schema","json_schema":{"schema":{}}}`:                                                       "response_format.json_schema.name",
		`"response_format":{"type":"json_schema","json_schema":{"name":"a b","schema":{}}}`:                                          "response_format.json_schema.name",
		`"response_format":{"type":"json_schema","json_schema":{"name":"a"}}`:                                                        "response_format.json_schema.schema",
		`"response_format":{"type":"json_schema","json_schema":{"name":"a","schema":[1]}}`:                                           "response_format.json_schema.schema",
		`"response_format":{"type":"json_schema","json_schema":{"name":"a","schema":null}}`:                                          "response_format.json_schema.schema",
		format(`{"type":"object","required":["a"],"properties":{"a":false}}`):                                                        "response_format",
		`"tools":[{"type":"function","function":{"name":"structured_response","parameters":{"type":"x"}}}],"tool_choice":"required"`: "tools",
	} {
		resp := post(t, url, request(body, user("x")))
		var e struct {
			Error struct{ Message, Param string }
		}
		require.NoError(t, json.NewDecoder(resp.Body).Decode(&e))
		require.Equal(t, 400, resp.StatusCode, body)
		require.Equal(t, want, e.Error.Param, body)
		require.NotEmpty(t, e.Error.Message)
	}
	require.Equal(t, "word1", text(t, ask(t, url, request(`"response_format":{"type":"text"}`, user("say 1 word")))))
	require.NotEmpty(t, ask(t, url, request(`"tools":[{"type":"function","function":{"name":"structured_response"}}],"tool_choice":"required"`, user("x"))).Choices[0].Message.ToolCalls)
}

func TestDelegation(t *testing.T) {
	t.Parallel()
	url := model(t, offline.Config{})
	offered := offer("delegate_to_agent", "execute_pipeline")
	prompt := user("ask helper: " + flights)
	a := ask(t, url, request(offered, prompt))
	require.Len(t, a.Choices[0].Message.ToolCalls, 1)
	c := a.Choices[0].Message.ToolCalls[0]
	require.Equal(t, "delegate_to_agent", c.Function.Name)
	require.JSONEq(t, `{"agent_type":"langchain_agent","inputs":{"message":"`+flights+`"},"config":{"agent":"helper"}}`, c.Function.Arguments)
	require.Contains(t, text(t, ask(t, url, request("", prompt))), "execute_pipeline", "without the tool it is as before")
	require.Equal(t, "execute_pipeline", ask(t, url, request(offer("execute_pipeline"), prompt)).Choices[0].Message.ToolCalls[0].Function.Name)

	after := func(results ...string) string {
		messages := []string{prompt, `{"role":"assistant","content":null,"tool_calls":[`}
		for i, r := range results {
			if i > 0 {
				messages[1] += ","
			}
			messages[1] += fmt.Sprintf(`{"id":"c%d","type":"function","function":{"name":"delegate_to_agent","arguments":"{}"}}`, i)
			messages = append(messages, fmt.Sprintf(`{"role":"tool","tool_call_id":"c%d","content":%q}`, i, r))
		}
		messages[1] += `]}`
		return text(t, ask(t, url, request(offered, messages...)))
	}
	require.Equal(t, "Tea it **is**.\n", after(`{"agent":"helper","status":"completed","output":"Tea it **is**.\n\n","turn_id":"t"}`))
	require.Equal(t, "One.\n\nTwo.\n", after(`{"output":"One."}`, `{"output":"Two."}`))
	require.Equal(t, "The other agent answered nothing.\n", after(`{"agent":"helper","status":"completed","output":"  "}`))
	require.Equal(t, "That did not work: is not a delegate of this agent (config.agent).\n", after(`{"error":{"type":"denied","message":"is not a delegate of this agent","field":"config.agent"}}`))
	require.Contains(t, after(`something else`), "The tool answered:")
}

func TestPlanning(t *testing.T) {
	t.Parallel()
	url := model(t, offline.Config{})
	prompt := user("plan: buy tea, boil water, drink")
	a := ask(t, url, request(offer("write_todos"), prompt))
	c := a.Choices[0].Message.ToolCalls[0]
	require.Equal(t, "write_todos", c.Function.Name)
	require.JSONEq(t, `{"todos":[{"content":"buy tea","status":"in_progress"},{"content":"boil water","status":"pending"},{"content":"drink","status":"pending"}]}`, c.Function.Arguments)
	require.Contains(t, text(t, ask(t, url, request("", prompt))), "did not understand", "without the tool it is as before")

	called := `{"role":"assistant","content":null,"tool_calls":[{"id":"c","type":"function","function":{"name":"write_todos","arguments":"{}"}}]}`
	result := `{"role":"tool","tool_call_id":"c","content":"{\"message\":\"x\",\"todos\":[{\"content\":\"buy tea\",\"status\":\"in_progress\"},{\"content\":\"drink\",\"status\":\"pending\"}]}"}`
	require.Equal(t, "The plan:\n\n1. buy tea (in progress)\n2. drink (pending)\n", text(t, ask(t, url, request(offer("write_todos"), prompt, called, result))))
	failed := `{"role":"tool","tool_call_id":"c","content":"{\"error\":{\"type\":\"invalid\",\"message\":\"is empty\"}}"}`
	require.Equal(t, "That did not work: is empty.\n", text(t, ask(t, url, request(offer("write_todos"), prompt, called, failed))))
}
