package pii

import (
	"net/netip"
	"strings"
	"unicode"
	"unicode/utf8"
)

// maxURL is the longest URL in bytes that is looked at whole; a longer one ends where no character of a URL follows.
const maxURL = 2048

// urlFinder finds what LangChain finds: http and https URLs, and host/path and www.host without a scheme. LangChain's characters end both
// forms. Punctuation at the end is not part of a URL. A host without a scheme needs a top-level domain of letters or is an IPv4 address:
// 1.5/2 and python3.11/lib are no URLs.
type urlFinder struct{}

func (urlFinder) find(text string, from int, more bool) (v value, hold int, ok bool) {
	for i := from; i < len(text); i++ {
		if !isAlnum(text[i]) {
			continue
		}
		for _, match := range []func(string, int) (value, bool, bool){matchScheme, matchHost} {
			v, ok, cut := match(text, i)
			if cut && more {
				return value{}, i, false
			}
			if ok {
				return v, 0, true
			}
		}
	}
	return value{}, len(text), false
}

// matchScheme finds a URL with a scheme at text[i:].
func matchScheme(text string, i int) (v value, ok, cut bool) {
	if text[i]|0x20 != 'h' {
		return value{}, false, false
	}
	for _, scheme := range []string{"http://", "https://"} {
		n := min(len(scheme), len(text)-i)
		if !strings.EqualFold(text[i:i+n], scheme[:n]) {
			continue
		}
		if n < len(scheme) {
			cut = true
			continue
		}
		host := i + n
		if host < len(text) && strings.IndexByte("/?#", text[host]) >= 0 {
			return value{}, false, false
		}
		v, cut = urlFrom(text, i, host)
		return v, v.end > host, cut
	}
	return value{}, false, cut
}

// matchHost finds a URL without a scheme at text[i:], where no word ends.
func matchHost(text string, i int) (v value, ok, cut bool) {
	if isPrecededBy(text, i, isWord) {
		return value{}, false, false
	}
	stop := i
	for stop < min(len(text), i+maxDomain+1) && isDomain(text[stop]) {
		stop++
	}
	if stop == len(text) {
		cut = true
	}
	if stop-i > maxDomain {
		return value{}, false, false
	}
	if isClassAt(text, stop, func(c byte) bool { return c == '/' }) {
		if !isHost(text[i:stop]) {
			return value{}, false, false
		}
		v, cut = urlFrom(text, i, stop)
		return v, true, cut
	}
	host := strings.TrimRight(text[i:stop], ".-")
	if len(host) < 4 || !strings.EqualFold(host[:4], "www.") || !isHost(host) {
		return value{}, false, cut
	}
	return value{start: i, end: i + len(host)}, true, cut
}

// urlFrom returns the URL that begins at start and has URL characters from body on.
func urlFrom(text string, start, body int) (v value, cut bool) {
	end := body
	for end < len(text) {
		w := urlChar(text[end:])
		if w == 0 {
			return value{start: start, end: trimURL(text, body, end)}, false
		}
		if end >= start+maxURL {
			return value{start: start, end: end, rest: urlRest{}}, false
		}
		end += w
	}
	return value{start: start, end: trimURL(text, body, end)}, true
}

// trimURL returns the end of a URL without the punctuation of its sentence.
func trimURL(text string, body, end int) int {
	for end > body {
		switch c := text[end-1]; {
		case strings.IndexByte(".,;:!?'*_~", c) >= 0:
		case c == ')' && strings.Count(text[body:end], ")") > strings.Count(text[body:end], "("):
		default:
			return end
		}
		end--
	}
	return end
}

// urlChar returns the width of the URL character that text begins with, 0 if it is none.
func urlChar(text string) int {
	c, w := utf8.DecodeRuneInString(text)
	switch {
	case c < utf8.RuneSelf:
		if c <= ' ' || c == 0x7f || strings.IndexByte("<>\"{}|\\^`[]", byte(c)) >= 0 {
			return 0
		}
	case unicode.IsSpace(c), unicode.IsPunct(c), unicode.IsControl(c):
		return 0
	}
	return w
}

// isHost reports whether s is an IPv4 address or a name of at least two labels with a top-level domain of letters.
func isHost(s string) bool {
	labels := 0
	last := ""
	for label := range strings.SplitSeq(s, ".") {
		if label == "" || len(label) > 63 || !isAlnum(label[0]) || !isAlnum(label[len(label)-1]) {
			return false
		}
		labels++
		last = label
	}
	if labels < 2 {
		return false
	}
	if len(last) > 1 && isLetter(last[0]) && (isLetter(last[1]) || strings.HasPrefix(last, "xn--")) {
		return true
	}
	a, err := netip.ParseAddr(s)
	return err == nil && a.Is4()
}

// urlRest takes the characters of a URL.
type urlRest struct{}

func (urlRest) take(text string, more bool) (n int, done bool) {
	for n < len(text) {
		w := urlChar(text[n:])
		if w == 0 {
			return n, true
		}
		n += w
	}
	return n, !more
}
