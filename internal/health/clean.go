package health

import (
	"regexp"
	"strings"
	"unicode"

	"github.com/turnstone-run/turnstone/internal/clip"
)

// Passwords in addresses of any scheme, and in settings such as those of PostgreSQL connection strings.
var (
	addressPassword = regexp.MustCompile(`([a-zA-Z][a-zA-Z0-9+.-]*://)[^\s/@"'` + "`" + `]*@`)
	secretSetting   = regexp.MustCompile(`(?i)\b(password|passwd|pwd|secret|token|api_?key|access_?key)(\s*[=:]\s*)('[^']*'|"[^"]*"|[^\s&'"]+)`)
)

const masked = "[REDACTED]"

// clean returns a text on one line, bounded and without secrets.
func clean(text string, redact func(string) string) string {
	if text == "" {
		return ""
	}
	text = addressPassword.ReplaceAllString(text, "${1}"+masked+"@")
	text = secretSetting.ReplaceAllString(text, "${1}${2}"+masked)
	if redact != nil {
		text = redact(text)
	}
	text = strings.Join(strings.FieldsFunc(text, func(r rune) bool { return r == '\n' || r == '\r' || r == '\t' || unicode.IsControl(r) }), " ")
	return clip.Bytes(text, maxDetail)
}
