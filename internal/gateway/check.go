package gateway

import (
	"cmp"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/turnstone-run/turnstone/agent"
)

func checkKind(k agent.Kind) error {
	if slices.Contains(agent.Kinds(), k) {
		return nil
	}
	var all []string
	for _, kind := range agent.Kinds() {
		all = append(all, string(kind))
	}
	return agent.Invalid("kind", "want one of %s, got %.60q", strings.Join(all, ", "), k)
}

// checkName returns an error unless a name is empty or valid.
func checkName(field, value string) error {
	if value != "" && !agent.ValidName(value) {
		return agent.Invalid(field, "want 1 to 128 of A-Z a-z 0-9 . _ -")
	}
	return nil
}

// checkText returns an error if text is too long, holds control characters or is not UTF-8.
func checkText(field, text string, maxBytes int) error {
	switch {
	case len(text) > maxBytes:
		return agent.Invalid(field, "is %d bytes, at most %d", len(text), maxBytes)
	case !utf8.ValidString(text) || strings.ContainsFunc(text, func(r rune) bool { return r < ' ' && r != '\n' && r != '\t' }):
		return agent.Invalid(field, "holds control characters or is not UTF-8")
	}
	return nil
}

// checkLine is checkText for text of one line.
func checkLine(field, text string, maxBytes int) error {
	if strings.ContainsAny(text, "\n\t") {
		return agent.Invalid(field, "holds a line break or a tab")
	}
	return checkText(field, text, maxBytes)
}

func checkLabels(field string, labels map[string]string) error {
	if len(labels) > maxLabels {
		return agent.Invalid(field, "are %d, at most %d", len(labels), maxLabels)
	}
	for key, value := range labels {
		if key == "" {
			return agent.Invalid(field, "has an empty key")
		}
		if err := cmp.Or(checkText(field, key, maxText), checkText(field, value, maxText)); err != nil {
			return err
		}
	}
	return nil
}

// parsePage returns a page. Size 0 means the default.
func parsePage(size int64, token string) (agent.Page, error) {
	if size < 0 || size > maxPageSize {
		return agent.Page{}, agent.Invalid("page_size", "want 1 to %d, got %d", maxPageSize, size)
	}
	return agent.Page{Size: int(cmp.Or(size, defaultPage)), Token: token}, checkText("page_token", token, maxToken)
}
