package offline_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/devstack/offline"
	"github.com/turnstone-run/turnstone/internal/retrieval/citation"
)

// prompts are those of the node that is shipped: the model must know them.
type prompts struct{ classify, reformulate, retrieval, code, conversational string }

func shipped(t *testing.T) prompts {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join("..", "..", "..", "catalog", "nodes", "ask.yaml"))
	require.NoError(t, err)
	var node struct {
		Properties struct {
			Properties map[string]struct{ Default string }
		}
	}
	require.NoError(t, yaml.Unmarshal(raw, &node))
	of := func(name string) string {
		text := node.Properties.Properties[name].Default
		require.NotEmpty(t, text, name)
		return text
	}
	return prompts{of("classify_prompt"), of("reformulate_prompt"), of("retrieval_prompt"), of("code_prompt"), of("conversational_prompt")}
}

func system(text string) string    { return fmt.Sprintf(`{"role":"system","content":%q}`, text) }
func assistant(text string) string { return fmt.Sprintf(`{"role":"assistant","content":%q}`, text) }

// talk makes messages of what the user said, one behind the other, with answers between.
func talk(system string, said ...string) []string {
	out := []string{system}
	for i, s := range said {
		if i > 0 {
			out = append(out, assistant("Well."))
		}
		out = append(out, user(s))
	}
	return out
}

func TestClassify(t *testing.T) {
	t.Parallel()
	url := model(t, offline.Config{})
	prompt := system(shipped(t).classify)
	tests := map[string][]string{
		"retrieval": {
			"how long does a refund take?", "what is the refund policy of the shop?", "zebras", "and how long for a refund?", "Hello, what is the return window?",
			"is there night service to the airport?", "good morning|and how long do they take?", "", "why?", "what can you tell me about refunds",
		},
		"code": {
			"a function that computes the last day of a refund", "Show me an example.", "write a script for it", "some snippets please", "fix this: ```go\nx\n```",
			"write a function for refunds|and in Python?",
		},
		"conversational": {
			"hi", "Hello there!", "good morning", "thanks a lot", "Thank you very much!", "bye", "ok, great", "who are you?", "What can you do for me?", "how are you doing?", "help",
			"how long is a refund?|thanks, that was great",
		},
	}
	for want, texts := range tests {
		for _, text := range texts {
			a := ask(t, url, request(tools, talk(prompt, strings.Split(text, "|")...)...))
			require.Equal(t, "stop", a.Choices[0].FinishReason)
			words := *a.Choices[0].Message.Content
			require.Equal(t, want, words, text)
		}
	}
}

func TestReformulate(t *testing.T) {
	t.Parallel()
	url := model(t, offline.Config{})
	prompt := system(shipped(t).reformulate)
	tests := []struct {
		said []string
		want string
	}{
		{[]string{"How long does a refund take at the north shop?"}, "How long does a refund take at the north shop?"},
		{[]string{"hi, how long does a refund take?"}, "how long does a refund take?"},
		{[]string{"hello"}, "hello"},
		{[]string{"When is the garden open?", "and in winter?"}, "garden open in winter?"},
		{[]string{"When is the garden open?", "thanks!", "and in winter?"}, "garden open in winter?"},
		{[]string{"When is the garden open?", "and in winter?", "what about autumn?"}, "garden open winter autumn?"},
		{[]string{"Tell me about refunds.", "how long do they take?"}, "refunds how long do they take?"},
		{[]string{"When is the garden open?", "How much is a refund for broken lamps?"}, "How much is a refund for broken lamps?"},
		{[]string{"and in winter?"}, "and in winter?"},
		{[]string{strings.Repeat("alpha beta gamma delta epsilon ", 1) + "zeta eta theta iota kappa", "why?"}, "alpha beta gamma delta epsilon zeta eta theta why?"},
	}
	for _, tt := range tests {
		require.Equal(t, tt.want, text(t, ask(t, url, request("", talk(prompt, tt.said...)...))), "%v", tt.said)
	}
}

func handbook() []agent.Passage {
	return []agent.Passage{
		{Title: "Refunds", Source: "https://example.com/refunds", Page: 3, Text: "# Refunds\n\nA refund is paid within thirty days of the purchase, to the card [1] that " +
			"was used, e.g. by phone. Ask the [help desk](https://example.com/desk) when it is late!\n\n- Broken lamps are replaced at once."},
		{Title: "Tea", Text: "Tea is served at four o'clock in the garden. It ends at five.\n[1] forged heading\n> quoted"},
		{Title: "API", Source: "api.md", Text: "Call it like this:\n\n```go\nclient.Refund(id)\n```\n\n| name | meaning |\n|---|---|\n| id | the `order` number |\n\n```\ncut off"},
	}
}

func TestAnswersFromPassages(t *testing.T) {
	t.Parallel()
	url := model(t, offline.Config{})
	p := shipped(t)
	context := "\n\nSession: s-1\n\n" + citation.Context(handbook())
	tests := []struct {
		name, system string
		said         []string
		want         string
	}{
		{
			"the sentence that fits", p.retrieval,
			[]string{"Within how many days is a refund paid?"},
			"A refund is paid within thirty days of the purchase, to the card that was used, e.g. by phone [1].\n",
		},
		{"a list's item", p.retrieval, []string{"what happens with broken lamps?"}, "Broken lamps are replaced at once [1].\n"},
		{"a follow-up", p.retrieval, []string{"when is tea served?", "and where?"}, "Tea is served at four o'clock in the garden [2].\n"},
		{
			"several", p.retrieval,
			[]string{"When is tea served and are broken lamps replaced?"},
			"Broken lamps are replaced at once [1]. Tea is served at four o'clock in the garden [2].\n",
		},
		{"a link and an exclamation", p.retrieval, []string{"whom do I ask when it is late, the desk?"}, "Ask the help desk when it is late [1]!\n"},
		{"a table", p.retrieval, []string{"order number"}, "id, the `order` number [3].\n"},
		{"nothing that fits", p.retrieval, []string{"what about zebras?"}, "The documents do not say that.\n"},
		{"too little of it", p.retrieval, []string{"do unicorns pay for tea with lemon?"}, "The documents do not say that.\n"},
		{
			"code", p.code,
			[]string{"an example of a refund"},
			"```go\nclient.Refund(id)\n```\n\nThis is from the documents [3]. A refund is paid within thirty days of the purchase, to the card that was used, e.g. by phone [1].\n",
		},
		{"an agent of another prompt", "You are a clerk.", []string{"when does tea end?"}, "It ends at five [2]. Tea is served at four o'clock in the garden [2].\n"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got := text(t, ask(t, url, request(tools, talk(system(tt.system+context), tt.said...)...)))
			require.Equal(t, tt.want, got)
			if strings.Contains(got, "[") {
				require.NotEmpty(t, citation.Cite(got, handbook()), "nothing is cited")
			}
		})
	}
	empty := system(p.retrieval + "\n\nSession: s\n\nContext: nothing was found.")
	require.Equal(t, "The documents do not say that.\n", text(t, ask(t, url, request("", talk(empty, "zebras?")...))))

	// What the prompt asks for by other means goes first.
	require.Equal(t, "word1 word2", text(t, ask(t, url, request(tools, talk(system(p.retrieval+context), "say 2 words")...))))
	require.Len(t, ask(t, url, request(tools, talk(system(p.retrieval+context), flights)...)).Choices[0].Message.ToolCalls, 1)
	require.Contains(t, text(t, ask(t, url, request("", talk(system(p.retrieval+context), "top 3 teas in the garden")...))), "Tea is served")

	chunks := choices(t, events(t, post(t, url, request(`"stream":true`, talk(system(p.retrieval+context), "when is tea served?")...)).Body))
	require.Greater(t, len(chunks), 8, "the answer comes in pieces")
}

func TestSmallTalk(t *testing.T) {
	t.Parallel()
	url := model(t, offline.Config{})
	prompt := system(shipped(t).conversational + "\n\nSession: s")
	for said, want := range map[string]string{"good morning": "Hello!", "thank you": "You are welcome!", "bye": "Goodbye", "ok, cool": "Good!", "who are you?": "I am Turnstone's offline model."} {
		got := text(t, ask(t, url, request("", talk(prompt, said)...)))
		require.True(t, strings.HasPrefix(got, want), got)
		require.NotContains(t, got, "[")
	}
	require.Contains(t, text(t, ask(t, url, request("", user("good morning")))), "did not understand", "no other agent talks")
}
