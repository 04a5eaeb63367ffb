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
	return Document{Sections: sections(nil, Section{Text: text})}, nil
}

// sections appends a section unless there is nothing in it.
func sections(list []Section, s Section) []Section {
	s.Text = strings.TrimSpace(s.Text)
	if s.Text == "" && len(s.Path) == 0 {
		return list
	}
	return append(list, s)
}

// decodeText turns UTF-8, or UTF-16 with its mark, into text with \n as its line break.
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
	return clean(string(data)), nil
}

func hasUTF16Mark(data []byte) bool {
	return bytes.HasPrefix(data, []byte{0xfe, 0xff}) || bytes.HasPrefix(data, []byte{0xff, 0xfe})
}

func firstInvalid(data []byte) int {
	at := 0
	for at < len(data) {
		r, n := utf8.DecodeRune(data[at:])
		if r == utf8.RuneError && n <= 1 {
			break
		}
		at += n
	}
	return at
}

// clean makes line breaks uniform, drops NUL, which PostgreSQL cannot keep, and replaces what is no UTF-8.
func clean(s string) string {
	return strings.NewReplacer("\r\n", "\n", "\r", "\n", "\x00", "").Replace(strings.ToValidUTF8(s, "\ufffd"))
}
