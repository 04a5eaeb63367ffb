package logs

import (
	"encoding/base64"
	"strings"
)

// shapes finds what looks like a credential, and pairs whose name says so.
type shapes struct {
	starts [256][]prefix // by the byte that it begins with; more than none for the separators too
}

// prefix is how keys of one issuer begin.
type prefix struct {
	text string
	find func(text string, at int) (end int) // of what begins with the prefix at a place; 0: it is none
}

func newShapes() *shapes {
	s := &shapes{}
	add := func(find func(string, int) int, texts ...string) {
		for _, t := range texts {
			s.starts[t[0]] = append(s.starts[t[0]], prefix{text: t, find: find})
		}
	}
	key := func(least int) func(string, int) int {
		return func(text string, at int) int { return keyEnd(text, at, least) }
	}
	add(key(16), "tsk_", "sk-", "sk_live_", "sk_test_", "rk_live_", "rk_test_", "gsk_", "xai-", "hf_", "whsec_", "glpat-", "npm_", "dop_v1_", "dapi", "pplx-")
	add(key(10), "xoxa-", "xoxb-", "xoxe-", "xoxo-", "xoxp-", "xoxr-", "xoxs-", "xapp-")
	add(key(20), "ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat_", "ya29.", "AGE-SECRET-KEY-")
	add(key(16), "AKIA", "ASIA", "ABIA", "ACCA")
	add(key(30), "AIza")
	add(jwtEnd, "eyJ")
	add(pemEnd, "-----BEGIN ")
	add(bearerEnd, "Bearer", "bearer", "BEARER")
	add(basicEnd, "Basic", "basic", "BASIC")
	return s
}

// redact puts [redacted] in the place of each.
func (s *shapes) redact(text string) string {
	var out []byte
	from := 0
	for at := 0; at < len(text); {
		start, end := 0, 0
		switch c := text[at]; c {
		case '=', ':':
			start, end = separated(text, at, 1)
		case '%':
			if strings.HasPrefix(text[at:], "%3") && at+2 < len(text) && (text[at+2]|0x20 == 'd' || text[at+2]|0x20 == 'a') {
				start, end = separated(text, at, 3)
			}
		default:
			if s.starts[c] != nil && (at == 0 || !isAlnum(text[at-1])) {
				start, end = at, s.begin(text, at)
			}
		}
		if end <= max(start, from) {
			at++
			continue
		}
		if text[start:end] != redacted {
			out = append(append(out, text[from:start]...), redacted...)
			from = end
		}
		at = end
	}
	if out == nil {
		return text
	}
	return string(append(out, text[from:]...))
}

// begin is the end of what begins at a place, 0 when nothing does.
func (s *shapes) begin(text string, at int) int {
	for _, p := range s.starts[text[at]] {
		if !strings.HasPrefix(text[at:], p.text) {
			continue
		}
		if end := p.find(text, at+len(p.text)); end > 0 {
			return end
		}
	}
	return 0
}

// run is where a run of bytes of a class ends.
func run(text string, at int, class func(byte) bool) int {
	for at < len(text) && class(text[at]) {
		at++
	}
	return at
}

// random reports whether a text is more than words: it has a digit, or a capital behind its beginning.
func random(text string) bool {
	for i := range len(text) {
		if isDigit(text[i]) || i > 0 && 'A' <= text[i] && text[i] <= 'Z' {
			return true
		}
	}
	return false
}

// far bounds what is looked at of a text before it is clear that a key is there, or else texts of nothing but beginnings would take long.
func far(text string, at, bytes int) string { return text[:min(len(text), at+bytes)] }

func keyEnd(text string, at, least int) int {
	if end := run(far(text, at, 64), at, isToken); end-at < least || !random(text[at:end]) {
		return 0
	}
	return run(text, at, isToken)
}

// jwtEnd is the end of three to five parts with dots between; those of a signature or a key may be empty.
func jwtEnd(text string, at int) int {
	end := run(far(text, at, 2<<10), at, isToken)
	if end-at < 8 {
		return 0
	}
	if end-at == 2<<10 {
		return run(text, end, isBearer)
	}
	parts := 1
	for parts < 5 && end < len(text) && text[end] == '.' {
		end = run(text, end+1, isToken)
		parts++
	}
	if parts < 3 {
		return 0
	}
	return end
}

// pemEnd is the end of a private key's block, or of the text where it does not end.
func pemEnd(text string, at int) int {
	label, _, _ := strings.Cut(text[at:min(len(text), at+64)], "-----")
	if !strings.Contains(label, "PRIVATE KEY") {
		return 0
	}
	end := strings.Index(text[at:], "-----END ")
	if end < 0 {
		return len(text)
	}
	end += at + len("-----END ")
	if last := strings.Index(text[end:], "-----"); last >= 0 {
		return end + last + len("-----")
	}
	return len(text)
}

func isBearer(c byte) bool {
	return isToken(c) || c == '.' || c == '~' || c == '+' || c == '/' || c == '='
}

// after is where the value of an authorization scheme begins; 0: nothing does.
func after(text string, at int) int {
	start := at
	for start < len(text) && (text[start] == ' ' || text[start] == '+' || text[start] == '\t') {
		start++
	}
	for strings.HasPrefix(text[start:], "%20") {
		start += len("%20")
	}
	if start == at {
		return 0
	}
	return start
}

func bearerEnd(text string, at int) int {
	start := after(text, at)
	if start == 0 {
		return 0
	}
	end := run(text, start, isBearer)
	if end-start < 8 || !random(text[start:end]) && end-start < 20 {
		return 0
	}
	return end
}

// basicEnd wants what a name and a password look like in base64.
func basicEnd(text string, at int) int {
	start := after(text, at)
	if start == 0 {
		return 0
	}
	letters := run(far(text, start, 1<<10), start, func(c byte) bool { return isToken(c) || c == '+' || c == '/' })
	plain, err := base64.RawStdEncoding.DecodeString(text[start : start+(letters-start)/4*4]) // what stands behind may be no part of it
	if err != nil || !strings.Contains(string(plain), ":") {
		return 0
	}
	return run(text, letters, isBearer)
}
