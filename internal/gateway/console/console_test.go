package console_test

import (
	"net/http"
	"os"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestBrowser is one test, because there is one browser.
func TestBrowser(t *testing.T) {
	b := launch(t)
	for _, test := range []struct {
		name string
		run  func(*testing.T, *browser)
	}{
		{"modules", modules},
		{"a message is answered", answers},
		{"text comes as it is written", streams},
		{"a reload goes on where the turn is", resumes},
		{"a connection that breaks loses nothing", survives},
		{"events that are gone", gaps},
		{"stop, and a message meanwhile", steers},
		{"failures are told", fails},
		{"tools", tools},
		{"content blocks", blocks},
		{"decisions", decisions},
		{"the inbox of approvals", inbox},
		{"what a person approves reads as it runs", disguised},
		{"health", wellness},
		{"credentials", credentials},
		{"routes", routes},
		{"catalog", catalog},
		{"a document is edited", edits},
		{"two people apply the first document", appliesFirst},
		{"a document is read, and another one made", reads},
		{"a document is the same as YAML", writes},
		{"a turn runs again beside the original", reruns},
		{"every view of an installation", operates},
		{"conversations of everybody", lists},
		{"a turn is found", finds},
		{"usage, and a view that is left", testLeavingUsage},
		{"changes of workflows", patches},
		{"the server restarts", restarts},
		{"citations", cites},
		{"hostile text", hostile},
		{"a hundred thousand words", long},
		{"keyboard", keyboard},
		{"phone and dark", phone},
		{"the pictures of the documentation", album},
	} {
		t.Run(test.name, func(t *testing.T) { test.run(t, b) })
	}
}

// modules runs the tests of what needs no page, which are written in its own language.
func modules(t *testing.T, b *browser) {
	h := build(t, nil)
	p := b.open(t, h.url, "/")
	tests, err := os.ReadFile("testdata/unit.js")
	require.NoError(t, err)
	require.Empty(t, eval[[]string](p, "("+string(tests)+")("+quoted(h.base(t))+")"))
}

// base is the path of this version's files.
func (h *house) base(t *testing.T) string {
	t.Helper()
	_, page := get(t, http.MethodGet, h.url+"/")
	return regexp.MustCompile(`console/[0-9a-f]{16}/`).FindString(page)
}
