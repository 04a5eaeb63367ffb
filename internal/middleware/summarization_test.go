package middleware

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/turnstone-run/turnstone/agent"
)

// session is what a middleware is given of one: a model to ask, and notes.
type session struct {
	prompts  []string // that the model was asked
	profiles []string
	notes    map[string]json.RawMessage
	answer   string
	askErr   error
	noteErr  error
	keepErr  error
	model    agent.PlanModel
}

func newSession(t *testing.T) *session {
	t.Helper()
	return &session{notes: map[string]json.RawMessage{}, answer: "they talked"}
}

func (s *session) invocation() agent.Invocation {
	return agent.Invocation{
		Model: s.model,
		Ask: func(_ context.Context, req agent.ModelRequest) (agent.ModelReply, error) {
			s.prompts, s.profiles = append(s.prompts, agent.Normalize(req.Messages[0].Blocks)), append(s.profiles, req.Profile)
			if s.askErr != nil {
				return agent.ModelReply{}, s.askErr
			}
			return agent.ModelReply{Blocks: []agent.Block{agent.Text(" " + s.answer + fmt.Sprintf(" (%d)\n", len(s.prompts)))}}, nil
		},
		Note: func(_ context.Context, name string) (json.RawMessage, error) { return s.notes[name], s.noteErr },
		SetNote: func(_ context.Context, name string, body json.RawMessage) error {
			if s.keepErr == nil {
				s.notes[name] = body
			}
			return s.keepErr
		},
	}
}

// shorten runs the middleware as a model call would.
func (s *session) shorten(t *testing.T, m agent.Middleware, messages []agent.Message) []agent.Message {
	t.Helper()
	before, err := json.Marshal(messages)
	require.NoError(t, err)
	req := agent.ModelRequest{System: "s", Messages: messages}
	jump, err := m.BeforeModel(t.Context(), s.invocation(), &req)
	require.NoError(t, err)
	require.Equal(t, agent.JumpNone, jump)
	require.Equal(t, "s", req.System)
	after, err := json.Marshal(messages)
	require.NoError(t, err)
	require.Equal(t, string(before), string(after), "messages may be shared")
	return req.Messages
}

func talk(from, to int) []agent.Message {
	var out []agent.Message
	for i := from; i < to; i++ {
		if i%2 == 0 {
			out = append(out, agent.UserText(fmt.Sprintf("question %d", i)))
		} else {
			out = append(out, said(agent.RoleAssistant, agent.Text(fmt.Sprintf("answer %d", i))))
		}
	}
	return out
}

// steps are a question and n uses of a tool.
func steps(n int) []agent.Message {
	out := []agent.Message{agent.UserText("go")}
	for i := range n {
		id := fmt.Sprint(i)
		out = append(out, said(agent.RoleAssistant, called(id, "read", `{"n":`+id+`}`)), said(agent.RoleTool, answered(id, "read", `"result `+id+`"`)))
	}
	return out
}

func summaryOf(text string) agent.Message { return agent.UserText(summaryPrefix + "\n\n" + text) }

const four = `{"trigger":{"messages":8},"keep":{"messages":4}}`

func TestSummarization(t *testing.T) {
	s, m := newSession(t), build(t, newSummarization, four)
	require.Equal(t, talk(0, 7), s.shorten(t, m, talk(0, 7)), "too short")
	require.Empty(t, s.prompts)

	require.Equal(t, append([]agent.Message{summaryOf("they talked (1)")}, talk(4, 8)...), s.shorten(t, m, talk(0, 8)))
	require.Len(t, s.prompts, 1)
	require.Contains(t, s.prompts[0], "user: question 0\n\nassistant: answer 1\n\nuser: question 2\n\nassistant: answer 3\n</messages>")
	require.NotContains(t, s.prompts[0], "question 4")
	require.Equal(t, []string{""}, s.profiles, "the turn's model")

	require.Equal(t, append([]agent.Message{summaryOf("they talked (1)")}, talk(4, 10)...), s.shorten(t, m, talk(0, 10)), "used again")
	require.Len(t, s.prompts, 1)

	require.Equal(t, append([]agent.Message{summaryOf("they talked (2)")}, talk(7, 11)...), s.shorten(t, m, talk(0, 11)), "longer again")
	require.Len(t, s.prompts, 2)
	require.Contains(t, s.prompts[1], "user: "+summaryPrefix+"\n\nthey talked (1)\n\nuser: question 4\n\nassistant: answer 5\n\nuser: question 6\n</messages>")
	require.NotContains(t, s.prompts[1], "question 2", "the summary stands for it")

	var kept keptSummary
	require.NoError(t, json.Unmarshal(s.notes[summaryNote], &kept))
	hash, _ := hashOf(talk(0, 7))
	require.Equal(t, keptSummary{Covered: 7, Hash: hash, Summary: "they talked (2)"}, kept)

	other := talk(0, 11)
	other[3] = said(agent.RoleAssistant, agent.Text("something else"))
	require.Equal(t, summaryOf("they talked (3)"), s.shorten(t, m, other)[0], "not the same messages")
	require.NotContains(t, s.prompts[2], "they talked")
	require.Equal(t, talk(0, 5), s.shorten(t, m, talk(0, 5)), "another conversation of the session")
}

func TestSummarizationTriggersAndKeeps(t *testing.T) {
	tokens := approximateTokens(charsOf(talk(0, 12))) // 7 a question, 8 an answer
	require.Equal(t, 12*15/2, tokens)
	cases := map[string]struct {
		options string
		kept    int // of 12; 12: all
	}{
		"messages":                     {`{"trigger":{"messages":12},"keep":{"messages":5}}`, 5},
		"too few messages":             {`{"trigger":{"messages":13},"keep":{"messages":5}}`, 12},
		"tokens":                       {`{"trigger":{"tokens":90},"keep":{"messages":5}}`, 5},
		"too few tokens":               {`{"trigger":{"tokens":91},"keep":{"messages":5}}`, 12},
		"fraction":                     {`{"trigger":{"fraction":0.9},"keep":{"messages":5}}`, 5},
		"too little of it":             {`{"trigger":{"fraction":0.91},"keep":{"messages":5}}`, 12},
		"all of one":                   {`{"trigger":{"messages":12,"tokens":91},"keep":{"messages":5}}`, 12},
		"both of one":                  {`{"trigger":{"messages":12,"tokens":90},"keep":{"messages":5}}`, 5},
		"any of several":               {`{"trigger":[{"messages":13},{"tokens":90}],"keep":{"messages":5}}`, 5},
		"none of several":              {`{"trigger":[{"messages":13},{"tokens":91}],"keep":{"messages":5}}`, 12},
		"keeps tokens":                 {`{"trigger":{"messages":1},"keep":{"tokens":24}}`, 3},
		"keeps almost a message":       {`{"trigger":{"messages":1},"keep":{"tokens":29}}`, 3},
		"keeps less than a message":    {`{"trigger":{"messages":1},"keep":{"tokens":1}}`, 1},
		"keeps all tokens":             {`{"trigger":{"messages":1},"keep":{"tokens":90}}`, 12},
		"keeps a fraction":             {`{"trigger":{"messages":1},"keep":{"fraction":0.4}}`, 5},
		"keeps 20 messages by default": {`{"trigger":{"tokens":1}}`, 12},
		"keeps more than there is":     {`{"trigger":{"tokens":1},"keep":{"messages":13}}`, 12},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			s := newSession(t)
			s.model.ContextTokens = 100
			got := s.shorten(t, build(t, newSummarization, c.options), talk(0, 12))
			if c.kept == 12 {
				require.Equal(t, talk(0, 12), got)
				require.Empty(t, s.prompts)
				return
			}
			require.Equal(t, append([]agent.Message{summaryOf("they talked (1)")}, talk(12-c.kept, 12)...), got)
		})
	}
	s := newSession(t) // of a model that does not say
	require.Equal(t, talk(0, 12), s.shorten(t, build(t, newSummarization, `{"trigger":{"fraction":0.1}}`), talk(0, 12)))
}

// A provider counts more than the estimate: system prompt, tools, and scripts whose characters are tokens each. One report makes one summary.
func TestSummarizationByReportedTokens(t *testing.T) {
	for name, c := range map[string]struct {
		options     string
		usage       agent.Usage
		before, now []agent.Message // of the call that reports, and of the next one
		summarized  bool
	}{
		"tokens":                  {`{"trigger":{"tokens":5000},"keep":{"messages":4}}`, agent.Usage{InputTokens: 4900, OutputTokens: 100}, talk(0, 7), talk(0, 9), true},
		"a fraction":              {`{"trigger":{"fraction":0.5},"keep":{"messages":4}}`, agent.Usage{InputTokens: 5000}, talk(0, 7), talk(0, 9), true},
		"one of two measures":     {`{"trigger":{"tokens":5000,"messages":10},"keep":{"messages":4}}`, agent.Usage{InputTokens: 5000}, talk(0, 7), talk(0, 9), false},
		"both measures":           {`{"trigger":{"tokens":5000,"messages":9},"keep":{"messages":4}}`, agent.Usage{InputTokens: 5000}, talk(0, 7), talk(0, 9), true},
		"one of two conditions":   {`{"trigger":[{"tokens":5000},{"messages":50}],"keep":{"messages":4}}`, agent.Usage{InputTokens: 5000}, talk(0, 7), talk(0, 9), true},
		"too few":                 {`{"trigger":{"tokens":5000},"keep":{"messages":4}}`, agent.Usage{InputTokens: 4899, OutputTokens: 100}, talk(0, 7), talk(0, 9), false},
		"of another conversation": {`{"trigger":{"tokens":5000},"keep":{"messages":4}}`, agent.Usage{InputTokens: 5000}, talk(0, 7), talk(0, 5), false},
	} {
		t.Run(name, func(t *testing.T) {
			s, m := newSession(t), build(t, newSummarization, c.options)
			s.model.ContextTokens = 10_000
			s.reports(t, m, c.before, c.usage)
			got := s.shorten(t, m, c.now)
			if !c.summarized {
				require.Equal(t, c.now, got)
				require.Empty(t, s.prompts)
				return
			}
			require.Equal(t, append([]agent.Message{summaryOf("they talked (1)")}, c.now[len(c.now)-4:]...), got)
			require.Len(t, s.shorten(t, m, talk(0, 11)), 7, "the summary stands")
			s.reports(t, m, s.shorten(t, m, talk(0, 11)), c.usage)
			require.Equal(t, summaryOf("they talked (2)"), s.shorten(t, m, talk(0, 13))[0], "what was reported since counts")
		})
	}
}

// reports makes a model call of which the provider reports the usage.
func (s *session) reports(t *testing.T, m agent.Middleware, shown []agent.Message, usage agent.Usage) {
	t.Helper()
	_, err := m.WrapModel(func(context.Context, agent.Invocation, agent.ModelRequest, func(agent.Delta) error) (agent.ModelReply, error) {
		return agent.ModelReply{Usage: usage}, nil
	})(t.Context(), s.invocation(), agent.ModelRequest{Messages: shown}, nil)
	require.NoError(t, err)
}

func TestSummarizationKeepsCallsAndResultsTogether(t *testing.T) {
	for keep := 1; keep < 9; keep++ {
		s := newSession(t)
		got := s.shorten(t, build(t, newSummarization, fmt.Sprintf(`{"trigger":{"tokens":1},"keep":{"messages":%d}}`, keep)), steps(4))
		require.Len(t, got, 1+keep+keep%2, keep)
		require.Equal(t, agent.RoleAssistant, got[1].Role, keep)
	}
	s := newSession(t)
	parallel := []agent.Message{
		agent.UserText("go"), agent.UserText("now"),
		said(agent.RoleAssistant, called("1", "read", `{}`), called("2", "read", `{}`), called("3", "read", `{}`)),
		said(agent.RoleTool, answered("2", "read", `1`)), said(agent.RoleTool, answered("1", "read", `1`)), said(agent.RoleTool, answered("3", "read", `1`)),
	}
	got := s.shorten(t, build(t, newSummarization, `{"trigger":{"tokens":1},"keep":{"messages":1}}`), parallel)
	require.Equal(t, append([]agent.Message{summaryOf("they talked (1)")}, parallel[2:]...), got)
	got = s.shorten(t, build(t, newSummarization, `{"trigger":{"tokens":1},"keep":{"messages":1}}`), parallel[2:])
	require.Equal(t, parallel[2:], got, "nothing can go")

	between := []agent.Message{agent.UserText("go"), said(agent.RoleAssistant, called("1", "read", `{}`)), agent.UserText("wait"), parallel[4]}
	got = s.shorten(t, build(t, newSummarization, `{"trigger":{"tokens":1},"keep":{"messages":2}}`), between)
	require.Equal(t, append([]agent.Message{summaryOf("they talked (2)")}, between[1:]...), got, "somebody spoke in between")
}

func TestSummarizationNeverLeavesAResultWithoutItsCall(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		var messages []agent.Message
		for range rapid.IntRange(1, 12).Draw(r, "steps") {
			switch n := rapid.IntRange(0, 3).Draw(r, "calls"); n {
			case 0:
				messages = append(messages, agent.UserText(rapid.StringN(1, 20, 40).Draw(r, "text")))
			default:
				var calls []agent.Block
				for i := range n {
					calls = append(calls, called(fmt.Sprint(i), "read", `{}`))
				}
				messages = append(messages, said(agent.RoleAssistant, calls...))
				for i := range n {
					messages = append(messages, said(agent.RoleTool, answered(fmt.Sprint(i), "read", `1`)))
				}
			}
		}
		options := fmt.Sprintf(`{"trigger":{"tokens":1},"keep":{"messages":%d}}`, rapid.IntRange(1, 9).Draw(r, "keep"))
		m, err := newSummarization(json.RawMessage(options))
		require.NoError(r, err)
		s := &session{notes: map[string]json.RawMessage{}, answer: "short"}
		for end := 1; end <= len(messages); end++ { // the conversation as it grows
			if end < len(messages) && messages[end].Role == agent.RoleTool {
				continue
			}
			req := agent.ModelRequest{Messages: messages[:end]}
			_, err := m.BeforeModel(context.Background(), s.invocation(), &req)
			require.NoError(r, err)
			for _, use := range toolUses(req.Messages) {
				require.NotZero(r, use.call)
			}
			last := len(req.Messages) - 1
			require.Equal(r, messages[end-1], req.Messages[last], "the newest message stays")
		}
	})
}

func TestSummarizationThatFailsLosesNothing(t *testing.T) {
	m := build(t, newSummarization, four)
	boom := errors.New("boom")
	for name, broken := range map[string]func(*session){
		"the model fails":       func(s *session) { s.askErr = boom },
		"the model says little": func(s *session) { s.answer = "" },
	} {
		t.Run(name, func(t *testing.T) {
			s := newSession(t)
			broken(s)
			if s.answer == "" {
				inv := s.invocation()
				inv.Ask = func(context.Context, agent.ModelRequest) (agent.ModelReply, error) {
					return agent.ModelReply{Blocks: []agent.Block{agent.Text(" \n")}}, nil
				}
				req := agent.ModelRequest{Messages: talk(0, 8)}
				_, err := m.BeforeModel(t.Context(), inv, &req)
				require.NoError(t, err)
				require.Equal(t, talk(0, 8), req.Messages)
			} else {
				require.Equal(t, talk(0, 8), s.shorten(t, m, talk(0, 8)))
			}
			require.Empty(t, s.notes)
		})
	}
	t.Run("the second time", func(t *testing.T) {
		s := newSession(t)
		s.shorten(t, m, talk(0, 8))
		note := string(s.notes[summaryNote])
		s.askErr = boom
		require.Equal(t, append([]agent.Message{summaryOf("they talked (1)")}, talk(4, 14)...), s.shorten(t, m, talk(0, 14)), "the first stands")
		require.Equal(t, note, string(s.notes[summaryNote]))
	})
	t.Run("the note is lost", func(t *testing.T) {
		s := newSession(t)
		s.keepErr, s.noteErr = boom, boom
		want := append([]agent.Message{summaryOf("they talked (1)")}, talk(4, 8)...)
		require.Equal(t, want, s.shorten(t, m, talk(0, 8)))
	})
	for _, note := range []string{
		`{`, `[]`, `null`, `{"covered":-1}`, `{"covered":99,"hash":"x","summary":"x"}`, `{"covered":0,"hash":"","summary":"x"}`,
		`{"covered":3,"hash":"x","summary":"a lie"}`,
	} {
		s := newSession(t)
		s.notes[summaryNote] = json.RawMessage(note)
		require.Equal(t, talk(0, 6), s.shorten(t, m, talk(0, 6)), note)
	}
}

func TestSummarizationShowsTheNewestAndTheSummarySoFar(t *testing.T) {
	s := newSession(t)
	m := build(t, newSummarization, `{"trigger":{"tokens":1},"keep":{"messages":1},"trim_tokens_to_summarize":10,"summary_prompt":"<{messages}>","model":"small"}`)
	s.shorten(t, m, talk(0, 6))
	require.Equal(t, "<… ion 2\n\nassistant: answer 3\n\nuser: question 4>", s.prompts[0], "40 characters")
	require.Equal(t, []string{"small"}, s.profiles)
	s.shorten(t, m, talk(0, 12))
	require.True(t, strings.HasPrefix(s.prompts[1], "<user: "+summaryPrefix+"\n\nthey talked (1)\n\n… "), s.prompts[1])

	all := newSession(t)
	m = build(t, newSummarization, `{"trigger":{"tokens":1},"keep":{"messages":1},"trim_tokens_to_summarize":null,"summary_prompt":"{messages}"}`)
	long := talk(0, 3)
	long[0] = agent.UserText(strings.Repeat("x", 100_000))
	all.shorten(t, m, long)
	require.Contains(t, all.prompts[0], strings.Repeat("x", 100_000))
}

func TestWritten(t *testing.T) {
	ref := answered("1", "", ``)
	ref.Ref = "cas://sha256:ab"
	m := said(
		agent.RoleAssistant, agent.Text("see"), agent.Block{Type: agent.BlockReasoning, Reasoning: "hm"}, called("1", "read", `{"a":1}`),
		answered("1", "read", `"x"`), ref, agent.Block{Type: agent.BlockImage, Base64: "aaaa"}, agent.Block{Type: agent.BlockFile, URL: "https://x"},
		agent.Block{Type: agent.BlockNonStandard, Value: json.RawMessage(`{"b":2}`)},
	)
	require.Equal(t, strings.Join([]string{
		"assistant: see", `assistant called read: {"a":1}`, `result of read (success): "x"`, "result of 1 (success): cas://sha256:ab",
		"assistant: [image]", "assistant: [file https://x]", `assistant: {"b":2}`,
	}, "\n"), messageText(&m))
}

func TestSummarizationRefusesOptions(t *testing.T) {
	refuses(t, newSummarization, map[string]string{
		``:                                 "trigger",
		`{}`:                               "trigger",
		`{"trigger":null}`:                 "trigger",
		`{"trigger":{}}`:                   "trigger",
		`{"trigger":[]}`:                   "trigger",
		`{"trigger":[{"tokens":4000},{}]}`: "trigger[1]",
		`{"trigger":[{"tokens":4000},{"token":1}]}`:                           "trigger[1].token",
		`{"trigger":["tokens",4000]}`:                                         "trigger[0]",
		`{"trigger":{"tokens":0}}`:                                            "trigger.tokens",
		`{"trigger":{"tokens":"4000"}}`:                                       "trigger.tokens",
		`{"trigger":{"messages":-1}}`:                                         "trigger.messages",
		`{"trigger":{"fraction":1.1}}`:                                        "trigger.fraction",
		`{"trigger":{"fraction":0}}`:                                          "trigger.fraction",
		`{"trigger":4000}`:                                                    "trigger",
		`{"trigger":{"tokens":4},"keep":[]}`:                                  "keep",
		`{"trigger":{"tokens":4},"keep":{}}`:                                  "keep",
		`{"trigger":{"tokens":4},"keep":{"tokens":1,"messages":1}}`:           "keep",
		`{"trigger":{"tokens":4},"keep":{"messages":0}}`:                      "keep.messages",
		`{"trigger":{"tokens":4},"keep":{"tokens":4}}`:                        "keep.tokens",
		`{"trigger":{"messages":20}}`:                                         "keep.messages",
		`{"trigger":{"fraction":0.5},"keep":{"fraction":0.5}}`:                "keep.fraction",
		`{"trigger":{"tokens":4},"summary_prompt":"no place"}`:                "summary_prompt",
		`{"trigger":{"tokens":4},"summary_prompt":""}`:                        "summary_prompt",
		`{"trigger":{"tokens":4},"trim_tokens_to_summarize":0}`:               "trim_tokens_to_summarize",
		`{"trigger":{"tokens":4},"max_tokens_before_summary":1}`:              "max_tokens_before_summary",
		`{"trigger":{"tokens":4},"model":"` + strings.Repeat("a", 129) + `"}`: "model",
	})
}
