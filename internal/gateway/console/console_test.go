package console_test

import (
	"net/http"
	"os"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestBrowser runs all tests that use the browser, because they share one.
func TestBrowser(t *testing.T) {
	b := startBrowser(t)
	for _, test := range []struct {
		name string
		run  func(*testing.T, *browser)
	}{
		{"modules", testModules},
		{"a message is answered", testAnswer},
		{"text is shown while it is written", testStreaming},
		{"a reload continues the turn", testReload},
		{"a lost connection", testBrokenConnection},
		{"events that are no longer kept", testExpiredEvents},
		{"stop, and messages to a busy session", testMessagesMeanwhile},
		{"failures", testFailures},
		{"tools", testTools},
		{"content blocks", testBlocks},
		{"decisions", testDecisions},
		{"the inbox of approvals", testInbox},
		{"approvals with hidden characters", testDisguisedCalls},
		{"health", testHealth},
		{"credentials", testCredentials},
		{"routes", testRoutes},
		{"catalog", testCatalog},
		{"a document is edited", testEditing},
		{"two people apply the same first document", testConcurrentFirstApply},
		{"the editor without and with permission", testEditorPermissions},
		{"documents as YAML", testYAML},
		{"a rerun beside its original", testRerun},
		{"every view of an installation", testViews},
		{"conversations of all users", testConversations},
		{"finding turns", testFindingTurns},
		{"usage, and leaving its view", testLeavingUsage},
		{"changes of workflows", testWorkflowPatches},
		{"the server restarts", testRestart},
		{"citations", testCitations},
		{"hostile text", testHostileText},
		{"a hundred thousand words", testLongText},
		{"keyboard", testKeyboard},
		{"phone and dark", testPhone},
		{"the pictures of the documentation", testPictures},
	} {
		t.Run(test.name, func(t *testing.T) { test.run(t, b) })
	}
}

// testModules runs the unit tests in JavaScript of modules that need no page.
func testModules(t *testing.T, b *browser) {
	h := newServer(t, nil)
	p := b.open(t, h.url, "/")
	tests, err := os.ReadFile("testdata/unit.js")
	require.NoError(t, err)
	require.Empty(t, eval[[]string](p, "("+string(tests)+")("+quoted(h.filesPath(t))+")"))
}

// filesPath returns the path of the console's files.
func (h *server) filesPath(t *testing.T) string {
	t.Helper()
	_, page := get(t, http.MethodGet, h.url+"/")
	return regexp.MustCompile(`console/[0-9a-f]{16}/`).FindString(page)
}
