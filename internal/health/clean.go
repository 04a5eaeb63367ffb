package health

import (
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"
)

// A password in an address, whatever its scheme, and in the other form of a PostgreSQL connection string.
var (
	inAddress = regexp.MustCompile(`([a-zA-Z][a-zA-Z0-9+.-]*://)[^\s/@"'` + "`" + `]*@`)
	inSetting = regexp.MustCompile(`(?i)\b(password|passwd|pwd|secret|token|api_?key|access_?key)(\s*[=:]\s*)('[^']*'|"[^"]*"|[^\s&'"]+)`)
)

const masked = "[REDACTED]"

// clean makes a text fit to be shown: no secrets, one line, bounded.
func clean(text string, redact func(string) string) string {
	if text == "" {
		return ""
	}
	text = inAddress.ReplaceAllString(text, "${1}"+masked+"@")
	text = inSetting.ReplaceAllString(text, "${1}${2}"+masked)
	if redact != nil {
		text = redact(text)
	}
	text = strings.Join(strings.FieldsFunc(text, func(r rune) bool { return r == '\n' || r == '\r' || r == '\t' || unicode.IsControl(r) }), " ")
	if len(text) <= maxDetail {
		return text
	}
	cut := maxDetail
	for !utf8.RuneStart(text[cut]) {
		cut--
	}
	return text[:cut] + "…"
}
