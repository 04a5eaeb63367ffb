package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/agent"
)

// enterLibrary changes the working directory to a new folder of documents.
func enterLibrary(t *testing.T) {
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
	require.NoError(t, os.Symlink("docs", "linked"))
}

func TestKnowledge(t *testing.T) {
	enterLibrary(t)
	b := setup(t)
	b.rt.Collections = []string{"handbook"}
	piped := words(0, "add handbook - --type text --id piped --title Piped --source https://example.com/x")
	piped.in = "piped"
	b.steps("knowledge",
		words(0, "add handbook ./docs faq.jsonl notes"),
		piped,
		words(0, "list handbook"),
		words(0, "list handbook --limit 2"),
		words(0, "search handbook be kind --top 2"),
		words(0, "search handbook nowhere"),
		words(0, "delete handbook docs/rules.md piped"),
		words(exitUsage, "delete handbook docs/rules.md"),
		words(exitUsage, "add handbook bad.zip --type application/zip"),
		words(exitUsage, "add nowhere notes"),
	)
	golden(t, "knowledge", b.screen.String())

	added := answer[[]agent.KnowledgeDocument](b, "knowledge", "add", "handbook", "docs")
	require.Len(t, added, 2)
	require.Equal(t, []string{"docs/deep/page.HTML", "text/html"}, []string{added[0].Source, added[0].MIMEType})
	linked := answer[[]agent.KnowledgeDocument](b, "knowledge", "add", "handbook", "linked")
	require.Len(t, linked, 2)
	require.Equal(t, "linked/deep/page.HTML", linked[0].Source)
	b.show(0, "knowledge", "search", "handbook", "nowhere", "-o", "json")
	require.JSONEq(t, `[]`, b.screen.out())
}

func TestKnowledgeGoesOnBehindARefusal(t *testing.T) {
	enterLibrary(t)
	b := setup(t)
	b.rt.Collections = []string{"handbook"}
	// The second of three files cannot be opened.
	u := uploads{}
	files, err := u.findFiles(t.Context(), noInput(), []string{"docs", "faq.jsonl"})
	require.NoError(t, err)
	require.NoError(t, os.Remove("docs/rules.md"))
	a := &app{program: standalone, in: noInput(), out: stream{b.screen, true}, errOut: stream{b.screen, false}, server: b.server, output: "text"}
	c, err := a.client()
	require.NoError(t, err)
	err = a.upload(t.Context(), c, "handbook", files)
	require.Equal(t, exitUsage, exitCode(err))
	require.Contains(t, b.screen.String(), "✗ docs/rules.md: ")
	require.Contains(t, b.screen.String(), "Error: 1 file of 3 not added")
	require.Equal(t, 2, strings.Count(b.screen.out(), "✓"), "the others are added")
}

func TestKnowledgeUsage(t *testing.T) {
	enterLibrary(t)
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
