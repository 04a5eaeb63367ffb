package document_test

import (
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/retrieval/document"
)

// requireCovered checks that the chunks of a section contain all its text but white space, in order, and that no chunk is too long.
func requireCovered(t *testing.T, s document.Section, chunks []agent.KnowledgeChunk, size, overlap int) {
	t.Helper()
	path := strings.Join(s.Path, " > ")
	if s.Text == "" {
		require.Equal(t, []string{path}, []string{chunks[0].Text})
		return
	}
	if path != "" {
		path += "\n\n"
	}
	text := removeSpace(s.Text)
	ends := map[int]bool{0: true} // where the text covered so far may end; repetitive text can be cut in many ways
	for _, c := range chunks {
		require.Equal(t, s.Page, c.Page)
		require.True(t, strings.HasPrefix(c.Text, path), "%q", c.Text)
		require.LessOrEqual(t, utf8.RuneCountInString(c.Text[len(path):]), size)
		chunk := removeSpace(c.Text[len(path):])
		require.NotEmpty(t, chunk)
		starts, next := map[int]bool{}, map[int]bool{}
		for end := range ends {
			for start := end; start >= max(0, end-overlap*utf8.UTFMax); start-- {
				if starts[start] {
					continue
				}
				starts[start] = true
				if strings.HasPrefix(text[start:], chunk) {
					next[start+len(chunk)] = true
				}
			}
		}
		require.NotEmpty(t, next, "text is missing before %q", c.Text)
		ends = next
	}
	require.True(t, ends[len(text)], "text is missing at the end")
}

func removeSpace(s string) string { return strings.Join(strings.Fields(s), "") }

// splitDocument splits a document and checks that its chunks cover all sections.
func splitDocument(t *testing.T, d document.Document, size, overlap int) []agent.KnowledgeChunk {
	t.Helper()
	var all []agent.KnowledgeChunk
	for _, s := range d.Sections {
		one := document.Document{Sections: []document.Section{s}}
		chunks, err := document.Split(&one, size, overlap, 1_000_000)
		require.NoError(t, err)
		requireCovered(t, s, chunks, size, overlap)
		all = append(all, chunks...)
	}
	chunks, err := document.Split(&d, size, overlap, 1_000_000)
	require.NoError(t, err)
	require.Len(t, chunks, len(all))
	for i := range chunks {
		require.Equal(t, i, chunks[i].Position)
		require.Equal(t, all[i].Text, chunks[i].Text)
	}
	return chunks
}

func sentences(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "Sentence number %d says something about größe %d.", i, i*i)
		b.WriteString([]string{" ", "\n", "\n\n", "  "}[i%4])
	}
	return b.String()
}

func TestSplitKeepsAllText(t *testing.T) {
	texts := map[string]string{
		"sentences": sentences(50), "one word": strings.Repeat("ü", 300), "short": "x", "numbers": strings.Join(strings.Fields(fmt.Sprint(make([]int, 200))), ","),
		"blank lines": strings.Repeat("\n\n\n\na\n\n\n", 50), "large": sentences(6_000), "one line": strings.Join(strings.Fields(sentences(6_000)), " "),
	}
	for name, text := range texts {
		for _, c := range [][2]int{{1, 0}, {2, 1}, {10, 3}, {100, 0}, {100, 99}, {1_000, 150}} {
			if len(text) > 10_000 && c[0] < 1_000 {
				continue
			}
			t.Run(fmt.Sprint(name, c), func(t *testing.T) {
				splitDocument(t, document.Document{Sections: []document.Section{{Page: 2, Path: []string{"A", "B"}, Text: strings.TrimSpace(text)}}}, c[0], c[1])
			})
		}
	}
}

func TestSplitOverlaps(t *testing.T) {
	d := document.Document{Sections: []document.Section{{Text: strings.TrimSpace(strings.Repeat("wort ", 100))}}}
	chunks, err := document.Split(&d, 50, 20, 100)
	require.NoError(t, err)
	total := 0
	for _, c := range chunks {
		total += len(c.Text)
	}
	require.Greater(t, total, 700, "neighbours share words")
	_, err = document.Split(&d, 50, 20, len(chunks)-1)
	require.Equal(t, agent.CodeOverflow, agent.CodeOf(err))
}
