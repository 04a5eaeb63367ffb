package health

import (
	"strings"
	"unicode"

	"github.com/turnstone-run/turnstone/internal/clip"
	"github.com/turnstone-run/turnstone/internal/redact"
)

// redactor returns a function that hides what looks like a secret, and then what known, if not nil, hides.
func redactor(known func(string) string) func(string) string {
	credentials := redact.New(redact.Rules{})
	if known == nil {
		return credentials.Text
	}
	return func(text string) string { return known(credentials.Text(text)) }
}

// clean returns a text on one line, bounded and without secrets.
func clean(text string, hideSecrets func(string) string) string {
	text = hideSecrets(text)
	text = strings.Join(strings.FieldsFunc(text, func(r rune) bool { return r == '\n' || r == '\r' || r == '\t' || unicode.IsControl(r) }), " ")
	return clip.Bytes(text, maxDetail)
}
