package app_test

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// operations is docs/guides/operations.md.
func operations(t *testing.T) string {
	t.Helper()
	content, err := os.ReadFile("../../docs/guides/operations.md")
	require.NoError(t, err)
	return string(content)
}

// runbookParts begin the paragraphs of a runbook, in this order.
var runbookParts = []string{"**Symptom.**", "**Look.**", "**Likely causes.**", "**Do.**", "**Afterwards.**"}

// TestRunbooks: whoever follows an alert finds the runbook it names, with all its parts and something to type.
func TestRunbooks(t *testing.T) {
	_, text, ok := strings.Cut(operations(t), "\n## Runbooks\n")
	require.True(t, ok)
	text, _, _ = strings.Cut(text, "\n## ")
	runbooks := map[string]string{} // by anchor
	for _, section := range strings.Split(text, "\n### ")[1:] {
		title, body, _ := strings.Cut(section, "\n")
		runbooks[strings.ReplaceAll(strings.ToLower(strings.TrimSpace(title)), " ", "-")] = body
	}
	for anchor, body := range runbooks {
		last := -1
		for _, part := range runbookParts {
			at := strings.Index(body, part)
			require.Greater(t, at, last, "%s: %s", anchor, part)
			last = at
		}
		require.Contains(t, body, "```sh\n", anchor)
	}
	alerts, err := os.ReadFile("../../deploy/prometheus/alerts.yaml")
	require.NoError(t, err)
	named := regexp.MustCompile(`docs/guides/operations\.md#([\w-]+)`).FindAllStringSubmatch(string(alerts), -1)
	require.NotEmpty(t, named)
	asked := map[string]bool{}
	for _, m := range named {
		require.Contains(t, runbooks, m[1], "an alert leads there")
		asked[m[1]] = true
	}
	for anchor := range runbooks {
		require.True(t, asked[anchor], "no alert leads to %s", anchor)
	}
	names := regexp.MustCompile(`(?m)^\s*- alert: (\w+)$`).FindAllStringSubmatch(string(alerts), -1)
	for _, m := range regexp.MustCompile("[Aa]lerts? (`\\w+`(, `\\w+`)*)").FindAllStringSubmatch(text, -1) {
		for _, name := range regexp.MustCompile(`\w+`).FindAllString(m[1], -1) {
			require.True(t, slices.ContainsFunc(names, func(n []string) bool { return n[1] == name }), "there is no alert %s", name)
		}
	}
}
