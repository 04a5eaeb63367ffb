package redact

import (
	"encoding/base64"
	"encoding/hex"
	"slices"
	"strings"
)

const (
	// shortestWord is [ShortestSecret] for a secret of letters in one case: whoever uses "postgres" as a password keeps that word in logs.
	shortestWord    = 12
	maxSecretLength = 16 << 10 // bytes; only the first of a longer one are looked for
	maxSecrets      = 1_000
)

// secretSet is the secrets that the process knows by value. It does not change.
type secretSet struct {
	values    []string
	forms     []string
	masker    *Masker
	byPair    map[uint16][]string // forms by their first two bytes
	pairs     [1 << 10]uint64     // the keys of byPair, one bit each, which rules out most places of a text
	hasSpace  bool                // a secret contains a space, which a URL writes as +
	hasNumber bool                // a secret may be written as a number
	longest   int
}

// isFindable reports whether a secret differs from the words that texts contain by chance.
func isFindable(secret string) bool {
	if len(secret) < ShortestSecret {
		return false
	}
	lower, upper := false, false
	for i := range len(secret) {
		switch c := secret[i]; {
		case 'a' <= c && c <= 'z':
			lower = true
		case 'A' <= c && c <= 'Z':
			upper = true
		default:
			return true
		}
	}
	return lower && upper || len(secret) >= shortestWord
}

func newSecretSet(secrets []string) *secretSet {
	s := &secretSet{byPair: map[uint16][]string{}}
	for _, value := range secrets {
		value = strings.TrimSpace(value)
		value = value[:min(len(value), maxSecretLength)]
		if !isFindable(value) || slices.Contains(s.values, value) || len(s.values) == maxSecrets {
			continue
		}
		s.values = append(s.values, value)
		s.forms = append(s.forms, encodedForms(value)...)
		s.hasSpace = s.hasSpace || strings.Contains(value, " ")
		s.hasNumber = s.hasNumber || strings.Trim(value, "0123456789+-.eEi") == ""
	}
	for _, f := range s.forms {
		pair := uint16(f[0])<<8 | uint16(f[1])
		s.byPair[pair] = append(s.byPair[pair], f)
		s.pairs[pair>>6] |= 1 << (pair & 63)
		s.longest = max(s.longest, len(f))
	}
	s.masker = NewMasker(s.forms...)
	return s
}

// encodedForms returns a secret literally, in hex, and in base64 at every offset within a longer text.
func encodedForms(secret string) []string {
	all := []string{secret, hex.EncodeToString([]byte(secret)), strings.ToUpper(hex.EncodeToString([]byte(secret)))}
	for before := range 3 {
		text := slices.Concat(make([]byte, before), []byte(secret))
		// Characters that share bits with neighbouring bytes are left out.
		first, last := (before*8+5)/6, len(text)*8/6
		for _, e := range []*base64.Encoding{base64.RawStdEncoding, base64.RawURLEncoding} {
			if f := e.EncodeToString(text)[first:last]; !slices.Contains(all, f) {
				all = append(all, f)
			}
		}
	}
	return all
}

func (s *secretSet) mask(text string) string {
	if !s.mayOccur(text) {
		return text
	}
	out := s.masker.Mask([]byte(text))
	if string(out) == text {
		return text
	}
	return string(out)
}

// mayOccur reports whether text contains a secret literally, or an escape that only the masker reads.
func (s *secretSet) mayOccur(text string) bool {
	if len(s.forms) == 0 {
		return false
	}
	for i := range len(text) {
		switch text[i] {
		case '\\', '&':
			return true
		case '%':
			if i+2 < len(text) && isAlnum(text[i+1]) && isAlnum(text[i+2]) {
				return true
			}
		case '+':
			if s.hasSpace {
				return true
			}
		}
		if i+1 == len(text) {
			break
		}
		pair := uint16(text[i])<<8 | uint16(text[i+1])
		if s.pairs[pair>>6]&(1<<(pair&63)) == 0 {
			continue
		}
		for _, f := range s.byPair[pair] {
			if strings.HasPrefix(text[i:], f) {
				return true
			}
		}
	}
	return false
}
