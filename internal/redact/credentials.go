package redact

import (
	"encoding/base64"
	"strings"
)

// credentialFinder finds what looks like a credential, and the values of pairs whose names say that they are secret.
type credentialFinder struct {
	prefixes [256][]credentialPrefix // by their first byte
}

// credentialPrefix is how the keys of one issuer begin.
type credentialPrefix struct {
	text string
	// end returns where the credential ends whose prefix ends at start; 0 if it is none.
	end func(text string, start int) int
}

func newCredentialFinder() *credentialFinder {
	f := &credentialFinder{}
	add := func(end func(string, int) int, prefixes ...string) {
		for _, p := range prefixes {
			f.prefixes[p[0]] = append(f.prefixes[p[0]], credentialPrefix{text: p, end: end})
		}
	}
	key := func(minLength int) func(string, int) int {
		return func(text string, start int) int { return keyEnd(text, start, minLength) }
	}
	add(key(16), "tsk_", "sk-", "sk_live_", "sk_test_", "rk_live_", "rk_test_", "gsk_", "xai-", "hf_", "whsec_", "glpat-", "npm_", "dop_v1_", "dapi", "pplx-")
	add(key(10), "xoxa-", "xoxb-", "xoxe-", "xoxo-", "xoxp-", "xoxr-", "xoxs-", "xapp-")
	add(key(20), "ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat_", "ya29.", "AGE-SECRET-KEY-")
	add(key(16), "AKIA", "ASIA", "ABIA", "ACCA")
	add(key(30), "AIza")
	add(jwtEnd, "eyJ")
	add(privateKeyEnd, "-----BEGIN ")
	add(bearerEnd, "Bearer", "bearer", "BEARER")
	add(basicAuthEnd, "Basic", "basic", "BASIC")
	return f
}

// redact returns text with [Placeholder] in place of each credential.
func (f *credentialFinder) redact(text string) string {
	var out []byte
	copied := 0
	for at := 0; at < len(text); {
		start, end := 0, 0
		switch c := text[at]; c {
		case '=', ':':
			start, end = secretBehindSeparator(text, at, 1)
		case '%':
			if strings.HasPrefix(text[at:], "%3") && at+2 < len(text) && (text[at+2]|0x20 == 'd' || text[at+2]|0x20 == 'a') {
				start, end = secretBehindSeparator(text, at, 3)
			}
		default:
			if f.prefixes[c] != nil && (at == 0 || !isAlnum(text[at-1])) {
				start, end = at, f.credentialEnd(text, at)
			}
		}
		if end <= max(start, copied) {
			at++
			continue
		}
		if text[start:end] != Placeholder {
			out = append(append(out, text[copied:start]...), Placeholder...)
			copied = end
		}
		at = end
	}
	if out == nil {
		return text
	}
	return string(append(out, text[copied:]...))
}

// credentialEnd returns where the credential that begins at start ends, 0 if none begins there.
func (f *credentialFinder) credentialEnd(text string, start int) int {
	for _, p := range f.prefixes[text[start]] {
		if !strings.HasPrefix(text[start:], p.text) {
			continue
		}
		if end := p.end(text, start+len(p.text)); end > 0 {
			return end
		}
	}
	return 0
}

// runEnd returns where a run of bytes of a class ends.
func runEnd(text string, start int, class func(byte) bool) int {
	for start < len(text) && class(text[start]) {
		start++
	}
	return start
}

// looksRandom reports whether a text is more than words: it contains a digit, or a capital behind its first letter.
func looksRandom(text string) bool {
	for i := range len(text) {
		if isDigit(text[i]) || i > 0 && 'A' <= text[i] && text[i] <= 'Z' {
			return true
		}
	}
	return false
}

// window returns text up to a number of bytes behind start. It bounds the work for texts full of prefixes that begin no credential.
func window(text string, start, bytes int) string { return text[:min(len(text), start+bytes)] }

func keyEnd(text string, start, minLength int) int {
	if end := runEnd(window(text, start, 64), start, isTokenChar); end-start < minLength || !looksRandom(text[start:end]) {
		return 0
	}
	return runEnd(text, start, isTokenChar)
}

// jwtEnd finds three to five parts with dots between them. Signatures and encrypted keys may be empty.
func jwtEnd(text string, start int) int {
	const maxHeader = 2 << 10
	end := runEnd(window(text, start, maxHeader), start, isTokenChar)
	if end-start < 8 {
		return 0
	}
	if end-start == maxHeader {
		return runEnd(text, end, isBearerChar)
	}
	parts := 1
	for parts < 5 && end < len(text) && text[end] == '.' {
		end = runEnd(text, end+1, isTokenChar)
		parts++
	}
	if parts < 3 {
		return 0
	}
	return end
}

// privateKeyEnd returns the end of a PEM block, or of the text if the block does not end.
func privateKeyEnd(text string, start int) int {
	label, _, _ := strings.Cut(window(text, start, 64)[start:], "-----")
	if !strings.Contains(label, "PRIVATE KEY") {
		return 0
	}
	end := strings.Index(text[start:], "-----END ")
	if end < 0 {
		return len(text)
	}
	end += start + len("-----END ")
	if last := strings.Index(text[end:], "-----"); last >= 0 {
		return end + last + len("-----")
	}
	return len(text)
}

func isBearerChar(c byte) bool {
	return isTokenChar(c) || c == '.' || c == '~' || c == '+' || c == '/' || c == '='
}

// authValueStart returns where the value behind an authorization scheme begins, 0 if no space follows the scheme.
func authValueStart(text string, schemeEnd int) int {
	start := runEnd(text, schemeEnd, func(c byte) bool { return c == ' ' || c == '+' || c == '\t' })
	for strings.HasPrefix(text[start:], "%20") {
		start += len("%20")
	}
	if start == schemeEnd {
		return 0
	}
	return start
}

func bearerEnd(text string, schemeEnd int) int {
	start := authValueStart(text, schemeEnd)
	if start == 0 {
		return 0
	}
	end := runEnd(text, start, isBearerChar)
	if end-start < 8 || !looksRandom(text[start:end]) && end-start < 20 {
		return 0
	}
	return end
}

// basicAuthEnd accepts only base64 of a name and a password.
func basicAuthEnd(text string, schemeEnd int) int {
	start := authValueStart(text, schemeEnd)
	if start == 0 {
		return 0
	}
	end := runEnd(window(text, start, 1<<10), start, func(c byte) bool { return isTokenChar(c) || c == '+' || c == '/' })
	decoded, err := base64.RawStdEncoding.DecodeString(text[start : start+(end-start)/4*4]) // the last characters may belong to other text
	if err != nil || !strings.Contains(string(decoded), ":") {
		return 0
	}
	return runEnd(text, end, isBearerChar)
}
