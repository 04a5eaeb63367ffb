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

// maxSecrets bounds how many values are remembered; tokens come and go, and the last are the ones that a server can repeat.
const maxSecrets = 64

// secrets removes from a server's words what it was told in confidence.
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

// clean removes the secrets from a text.
func (s *secrets) clean(text string) string {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if s.masker == nil {
		return text
	}
	return string(s.masker.Mask([]byte(text)))
}

// cleanJSON removes the secrets from JSON. Where that leaves none, because a number was one, the rest becomes a string.
func (s *secrets) cleanJSON(raw json.RawMessage) json.RawMessage {
	text := string(raw)
	cleaned := s.clean(text)
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

// plain makes a server's words fit to be shown: at most n runes, without secrets, without control characters, and without the invisible
// ones that hide instructions from people but not from models. Line feeds stay.
func (s *secrets) plain(text string, n int) string {
	return clip.Runes(visible(s.clean(text)), n)
}

func visible(text string) string {
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
