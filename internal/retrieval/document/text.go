package document

import (
	"bytes"
	"strings"
	"unicode/utf8"

	"golang.org/x/text/encoding/unicode"
	"golang.org/x/text/transform"

	"github.com/turnstone-run/turnstone/agent"
)

func parseText(data []byte) (Document, error) {
	text, err := decodeText(data)
	if err != nil {
		return Document{}, err
	}
	return Document{Sections: appendSection(nil, Section{Text: text})}, nil
}

// appendSection appends a section without surrounding white space, unless it has neither text nor headings.
func appendSection(list []Section, s Section) []Section {
	s.Text = strings.TrimSpace(s.Text)
	if s.Text == "" && len(s.Path) == 0 {
		return list
	}
	return append(list, s)
}

// decodeText decodes UTF-8, or UTF-16 with a byte order mark, and cleans the text.
func decodeText(data []byte) (string, error) {
	if hasUTF16Mark(data) {
		decoded, _, err := transform.Bytes(unicode.BOMOverride(transform.Nop), data)
		if err != nil {
			return "", agent.Invalid("body", "malformed UTF-16: %w", err)
		}
		data = decoded
	}
	data = bytes.TrimPrefix(data, []byte("\ufeff"))
	if !utf8.Valid(data) {
		return "", agent.Invalid("body", "is not UTF-8: the byte at %d", firstInvalid(data))
	}
	return cleanText(string(data)), nil
}

func hasUTF16Mark(data []byte) bool {
	return bytes.HasPrefix(data, []byte{0xfe, 0xff}) || bytes.HasPrefix(data, []byte{0xff, 0xfe})
}

// firstInvalid returns the index of the first byte that is not valid UTF-8.
func firstInvalid(data []byte) int {
	for i, r := range string(data) {
		if r == utf8.RuneError && !bytes.HasPrefix(data[i:], []byte("\ufffd")) {
			return i
		}
	}
	return len(data)
}

// cleanText returns s with \n as the only line break, without NUL, which PostgreSQL cannot store, and with U+FFFD for invalid UTF-8.
func cleanText(s string) string {
	return strings.NewReplacer("\r\n", "\n", "\r", "\n", "\x00", "").Replace(strings.ToValidUTF8(s, "\ufffd"))
}
