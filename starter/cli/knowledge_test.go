package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/agent"
)

// library is a folder of documents, which becomes the working folder.
func library(t *testing.T) {
	t.Helper()
	t.Chdir(t.TempDir())
	for name, text := range map[string]string{
		"docs/rules.md": "# Rules\nbe kind", "docs/deep/page.HTML": "<p>be kind", "docs/.hidden.md": "no", "docs/.git/x.md": "no", "docs/pic.png": "no",
		"faq.jsonl": `{"text":"be kind"}`, "notes": "be kind", "bad.zip": "PK", "empty/x.png": "",
	} {
		require.NoError(t, os.MkdirAll(filepath.Dir(name), 0o755))
		require.NoError(t, os.WriteFile(name, []byte(text), 0o600))
	}
	require.NoError(t, os.Symlink("/etc/passwd", "docs/link.md"))
}

func TestKnowledge(t *testing.T) {
	library(t)
	b := setup(t)
	b.rt.Collections = []string{"handbook"}
	steps := []struct {
		in, args string
		want     int
	}{
		{"", "knowledge add handbook ./docs faq.jsonl notes", 0},
		{"piped", "knowledge add handbook - --type text --id piped --title Piped --source https://example.com/x", 0},
		{"", "knowledge list handbook", 0},
		{"", "knowledge list handbook --limit 2", 0},
		{"", "knowledge search handbook be kind --top 2", 0},
		{"", "knowledge search handbook nowhere", 0},
		{"", "knowledge delete handbook docs/rules.md piped", 0},
		{"", "knowledge delete handbook docs/rules.md", exitUsage},
		{"", "knowledge add handbook bad.zip --type application/zip", exitUsage},
		{"", "knowledge add nowhere notes", exitUsage},
	}
	for _, s := range steps {
		b.comment("$ starter " + s.args)
		require.Equal(t, s.want, b.run(strings.NewReader(s.in), strings.Fields(s.args)...), "%s\n%s", s.args, b.screen.String())
	}
	golden(t, "knowledge", b.screen.String())

	added := answer[[]agent.KnowledgeDocument](b, "knowledge", "add", "handbook", "docs")
	require.Len(t, added, 2)
	require.Equal(t, []string{"docs/deep/page.HTML", "text/html"}, []string{added[0].Source, added[0].MIMEType})
	b.show(0, "knowledge", "search", "handbook", "nowhere", "-o", "json")
	require.JSONEq(t, `[]`, b.screen.out())
}

func TestKnowledgeGoesOnBehindARefusal(t *testing.T) {
	library(t)
	b := setup(t)
	b.rt.Collections = []string{"handbook"}
	// The one in the middle cannot be opened.
	u := uploads{}
	files, err := u.files(t.Context(), noInput(), []string{"docs", "faq.jsonl"})
	require.NoError(t, err)
	require.NoError(t, os.Remove("docs/rules.md"))
	a := &app{program: standalone, in: noInput(), out: stream{b.screen, true}, errOut: stream{b.screen, false}, server: b.server, output: "text"}
	c, err := a.client()
	require.NoError(t, err)
	err = a.upload(t.Context(), c, "handbook", files)
	require.Equal(t, exitUsage, exitCode(err))
	require.Contains(t, b.screen.String(), "✗ docs/rules.md: ")
	require.Contains(t, b.screen.String(), "Error: 1 file of 3 not added")
	require.Equal(t, 2, strings.Count(b.screen.out(), "✓"), "the others are")
}

func TestKnowledgeUsage(t *testing.T) {
	library(t)
	b := setup(t)
	b.rt.Collections = []string{"handbook"}
	b.refuses("", map[string]string{
		"wants --type":            "knowledge add handbook -",
		"want text, markdown":     "knowledge add handbook notes --type word",
		"are for one file":        "knowledge add handbook docs faq.jsonl --id x",
		"not for 2":               "knowledge add handbook docs --title x",
		"no file in this folder":  "knowledge add handbook empty",
		"no such file":            "knowledge add handbook missing.md",
		"twice":                   "knowledge add handbook - - --type text",
		"requires at least 2 arg": "knowledge add handbook",
		"--limit is -1":           "knowledge list handbook --limit -1",
		"--top is -1":             "knowledge search handbook x --top -1",
		"top_k":                   "knowledge search handbook x --top 1000",
		"no knowledge collection": "knowledge list nowhere",
		"is no regular file":      "knowledge add handbook /dev/null",
	})
	page, err := b.rt.Knowledge(t.Context(), "default", "handbook", "", 10)
	require.NoError(t, err)
	require.Empty(t, page.Documents)
}
