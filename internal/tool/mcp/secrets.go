package mcp

import (
	"encoding/base64"
	"encoding/json"
	"slices"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"

	"github.com/turnstone-run/turnstone/internal/clip"
	"github.com/turnstone-run/turnstone/internal/redact"
)

// maxSecrets is the number of values that are remembered. Older ones are forgotten, because tokens change.
const maxSecrets = 64

// secretMasker masks the credentials that were sent to a server in what the server says. It is safe for concurrent use.
type secretMasker struct {
	mu     sync.RWMutex
	values []string // in the order they came
	masker *redact.Masker
}

func newSecretMasker(values ...string) *secretMasker {
	s := &secretMasker{}
	s.add(values...)
	return s
}

// add remembers values, each once.
func (s *secretMasker) add(values ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	hasNew := false
	for _, v := range values {
		if len(v) < redact.ShortestSecret || slices.Contains(s.values, v) {
			continue
		}
		s.values, hasNew = append(s.values, v), true
	}
	if !hasNew {
		return
	}
	s.values = slices.Delete(s.values, 0, max(0, len(s.values)-maxSecrets))
	all := slices.Clone(s.values)
	for _, v := range s.values {
		all = append(all, base64.StdEncoding.EncodeToString([]byte(v)))
	}
	s.masker = redact.NewMasker(all...)
}

// mask returns a text with the secrets masked.
func (s *secretMasker) mask(text string) string {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if s.masker == nil {
		return text
	}
	return string(s.masker.Mask([]byte(text)))
}

// maskJSON returns JSON with the secrets masked. If the result is no JSON, because a number was a secret, it becomes a string.
func (s *secretMasker) maskJSON(raw json.RawMessage) json.RawMessage {
	text := string(raw)
	masked := s.mask(text)
	if masked == text {
		return raw
	}
	if json.Valid([]byte(masked)) {
		return json.RawMessage(masked)
	}
	quoted, err := json.Marshal(masked)
	if err != nil {
		return json.RawMessage(`"` + redact.Placeholder + `"`)
	}
	return quoted
}

// displayText returns at most n runes of a server's text, with secrets masked and without control and invisible characters, which could hide
// instructions from people but not from models. Line feeds stay.
func (s *secretMasker) displayText(text string, n int) string {
	return clip.Runes(removeInvisible(s.mask(text)), n)
}

func removeInvisible(text string) string {
	return strings.TrimSpace(strings.Map(func(r rune) rune {
		switch {
		case r == '\n':
			return r
		case r == '\t', r == '\r':
			return ' '
		case r == utf8.RuneError, unicode.Is(unicode.Cc, r), unicode.Is(unicode.Cf, r), unicode.Is(unicode.Co, r), unicode.Is(unicode.Variation_Selector, r):
			return -1
		}
		return r
	}, text))
}
