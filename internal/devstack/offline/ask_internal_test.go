package offline

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
)

// Prompts of other agents, also those that talk about the same things, are nobody's steps.
func TestTaskOf(t *testing.T) {
	t.Parallel()
	for prompt, want := range map[string]task{
		"": taskNone,
		"You do retrieval, write code and are conversational.":      taskNone,
		"Answer with one word.":                                     taskNone,
		"Say retrieval, code or conversational: one word.":          taskClassify,
		"RETRIEVAL or code or Conversational, and nothing\nelse":    taskClassify,
		"Rewrite the text.":                                         taskNone,
		"Reformulate it as a standalone question.":                  taskRewrite,
		"You write questions for a search. Rewrite the message.":    taskRewrite,
		"See [1] and [2].\n[1] not quoted":                          taskNone,
		"You answer from documents.\n\nSession: s\n\n[1] A\n> text": taskAnswer,
		"Context: nothing was found.":                               taskAnswer,
		"Say: Context: nothing was found.":                          taskNone,
		"The last message needs no search, so none was made.":       taskSmallTalk,
		"Rewrite nothing; a question may stand alone.\n\n[1] A prompt\n> one word: retrieval, code, whatever": taskRewrite,
	} {
		require.Equal(t, want, taskOf(prompt), prompt)
	}
}

func TestReadPassages(t *testing.T) {
	t.Parallel()
	got := readPassages("You cite [1].\n[1] no\n\n[1] A — a.md\n> one\n>\n> > [2] quoted\n\n[2] B\n>\n\n[4] C\n> lost\n")
	require.Equal(t, []passage{{number: 1, title: "A — a.md", text: "one\n\n> [2] quoted\n"}, {number: 2, title: "B", text: "\n"}}, got)
	require.Empty(t, readPassages("[1] A"))
}

func TestStem(t *testing.T) {
	t.Parallel()
	for _, same := range [][]string{
		{"serve", "served", "serves", "serving"}, {"refund", "refunds", "refunded"}, {"city", "cities"}, {"run", "running", "runs"}, {"process", "processes", "processed"}, {"use", "uses"},
	} {
		for _, w := range same {
			require.Equal(t, stem(same[0]), stem(w), w)
		}
	}
	require.Equal(t, []string{"tea", "pric", "bob"}, terms("The tea's price, the TEA of Bob’s?"))
}

// Whatever a prompt quotes, the answer is there, is not too long, and cites nothing that was not quoted.
func FuzzPassages(f *testing.F) {
	f.Add("# A\n\nOne. Two e.g. three! [2] `four\n- five\n| a | b |\n|---|---|\n```go\nx\n```", "code for one and five")
	f.Add("~~~\n> x\n~~~\n\xff. [1](x) ![a](b)", "x")
	f.Fuzz(func(t *testing.T, text, question string) {
		if strings.Contains(question, "[") {
			return
		}
		found := []passage{{number: 1, title: "T", text: text}}
		got := fromPassages(found, question)
		require.NotEmpty(t, got)
		prose := got
		if i := strings.LastIndex(got, "\nThis is from the documents"); i >= 0 {
			prose = got[i:] // code is as it was
		}
		if got != notSaid {
			require.Contains(t, prose, "[1]")
		}
		require.LessOrEqual(t, utf8.RuneCountInString(prose), 4*(maxSentence+40))
		_ = classify([]string{question, text})
		require.LessOrEqual(t, len(standalone([]string{question, text})), len(question)+len(text)+2)
	})
}
