package pii

import "strings"

// The bounds of an address, in bytes. A name allows 64 and a domain 255; a longer name is taken from its last maxLocal bytes.
const (
	maxLocal  = 256
	maxDomain = 255
)

const labelBytes = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-" // of a domain's label

// emailFinder finds [A-Za-z0-9._%+-]+@[A-Za-z0-9.-]+\.[A-Za-z]{2,} at the end of a word. The last label may be an internationalized one in
// ASCII, as in user@example.xn--p1ai.
type emailFinder struct{}

func (emailFinder) find(text string, from int, more bool) (v value, hold int, ok bool) {
	next := from
	for {
		i := strings.IndexByte(text[next:], '@')
		if i < 0 {
			break
		}
		sign := next + i
		start := localStart(text, from, sign)
		if start < sign {
			end, cut := domainEnd(text, sign+1)
			if cut && more {
				return value{}, start, false
			}
			if end > 0 {
				return value{start: start, end: end}, 0, true
			}
		}
		next = sign + 1
	}
	if more {
		return value{}, localStart(text, next, len(text)), false
	}
	return value{}, len(text), false
}

// localStart returns where the name before text[end] begins, not before from.
func localStart(text string, from, end int) int {
	from = max(from, end-maxLocal)
	for end > from && isLocal(text[end-1]) {
		end--
	}
	return end
}

// domainEnd returns where the domain at text[start:] ends, 0 without one. cut reports that more text may change that.
func domainEnd(text string, start int) (end int, cut bool) {
	stop := start
	for stop < min(len(text), start+maxDomain) && isDomain(text[stop]) {
		stop++
	}
	for dot := start + 1; dot < stop; dot++ {
		if text[dot] != '.' {
			continue
		}
		if e := topLevelEnd(text[:stop], dot+1); e-dot > 2 && !isClassAt(text, e, isWord) {
			end = e
		}
	}
	return end, stop == len(text)
}

// topLevelEnd returns where the letters at text[start:] end, or the label that begins with xn--.
func topLevelEnd(text string, start int) int {
	const punycode = "xn--"
	end := start
	for end < len(text) && isLetter(text[end]) {
		end++
	}
	if label := text[start:]; len(label) > len(punycode) && strings.EqualFold(label[:len(punycode)], punycode) && isAlnum(label[len(punycode)]) {
		rest := strings.TrimLeft(label[len(punycode):], labelBytes)
		end = start + len(strings.TrimRight(label[:len(label)-len(rest)], "-"))
	}
	return end
}

func isLocal(c byte) bool  { return isWord(c) || c == '.' || c == '%' || c == '+' || c == '-' }
func isDomain(c byte) bool { return isAlnum(c) || c == '.' || c == '-' }
