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

// maxSecrets is the number of values that are remembered. Tokens change, and a server can repeat only the last ones.
const maxSecrets = 64

// secrets masks in a server's words the credentials that it was sent.
type secrets struct {
	mu     sync.RWMutex
	values []string // in the order they came
	masker *redact.Masker
}

func newSecrets(values ...string) *secrets {
	s := &secrets{}
	s.add(values...)
	return s
}

// add remembers values, each once.
func (s *secrets) add(values ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	grown := false
	for _, v := range values {
		if len(v) < redact.ShortestSecret || slices.Contains(s.values, v) {
			continue
		}
		s.values, grown = append(s.values, v), true
	}
	if !grown {
		return
	}
	if over := len(s.values) - maxSecrets; over > 0 {
		s.values = append([]string(nil), s.values[over:]...)
	}
	all := slices.Clone(s.values)
	for _, v := range s.values {
		all = append(all, base64.StdEncoding.EncodeToString([]byte(v)))
	}
	s.masker = redact.NewMasker(all...)
}

// mask returns a text with the secrets masked.
func (s *secrets) mask(text string) string {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if s.masker == nil {
		return text
	}
	return string(s.masker.Mask([]byte(text)))
}

// maskJSON returns JSON with the secrets masked. If the result is no JSON, because a number was a secret, it becomes a string.
func (s *secrets) maskJSON(raw json.RawMessage) json.RawMessage {
	text := string(raw)
	cleaned := s.mask(text)
	if cleaned == text {
		return raw
	}
	if json.Valid([]byte(cleaned)) {
		return json.RawMessage(cleaned)
	}
	quoted, err := json.Marshal(cleaned)
	if err != nil {
		return json.RawMessage(`"` + redact.Placeholder + `"`)
	}
	return quoted
}

// displayText returns a server's words with at most n runes, without secrets, and without control characters and invisible ones, which hide
// instructions from people but not from models. Line feeds stay.
func (s *secrets) displayText(text string, n int) string {
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
