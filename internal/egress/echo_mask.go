package egress

import (
	"bytes"
	"slices"
	"strings"
)

// Masker masks secrets in texts, also if JSON, URLs, HTML or XML escape some of their characters. It is safe for concurrent use.
type Masker struct {
	secrets    [256][]string // by their first byte
	starts     [256]bool     // bytes that a secret may begin with, written in some way
	hasSecrets bool
}

// NewMasker returns a masker. It ignores empty secrets. The caller should leave out very short ones, which are found by chance.
func NewMasker(secrets ...string) *Masker {
	m := &Masker{}
	for _, s := range secrets {
		if s == "" || slices.Contains(m.secrets[s[0]], s) {
			continue
		}
		m.secrets[s[0]] = append(m.secrets[s[0]], s)
		m.starts[s[0]], m.hasSecrets = true, true
		m.starts['+'] = m.starts['+'] || s[0] == ' '
	}
	m.starts['\\'], m.starts['%'], m.starts['&'] = m.hasSecrets, m.hasSecrets, m.hasSecrets
	return m
}

// Mask returns a text with "[redacted]" in place of every secret. Of several that begin at one position, the longest counts.
func (m *Masker) Mask(text []byte) []byte {
	if !m.hasSecrets {
		return text
	}
	out, _ := m.mask(make([]byte, 0, len(text)), text, true)
	return out
}

// mask appends the masked text to out, and returns the tail that may be the beginning of a secret. The last text has no tail.
func (m *Masker) mask(out, text []byte, last bool) (judged, tail []byte) {
	from := 0
	for at := 0; at < len(text); {
		if !m.starts[text[at]] {
			at++
			continue
		}
		end, open := m.findSecret(text, at)
		switch {
		case open && !last:
			return append(out, text[from:at]...), text[at:]
		case end > at:
			out = append(append(out, text[from:at]...), masked...)
			at, from = end, end
		default:
			at++
		}
	}
	return append(out, text[from:]...), nil
}

// findSecret returns the end of the longest secret that begins at a position, 0 if there is none. open reports whether more text may
// change it.
func (m *Masker) findSecret(text []byte, at int) (end int, open bool) {
	var buffer [maxReadings]reading
	begun, open := readings(text, at, buffer[:0])
	for i := range begun {
		r := &begun[i]
		for _, s := range m.secrets[r.value[0]] {
			if !strings.HasPrefix(s, string(r.bytes())) {
				continue
			}
			e, o := matchSecret(text, at+r.length, s[r.size:])
			end, open = max(end, e), open || o
		}
	}
	return end, open
}

// maxPlaces is the maximum number of positions to continue from, for each byte of a secret. Only a secret of backslashes or the like has
// more; it is then looked for without escapes.
const maxPlaces = 8

// position is how far a text was read as a secret, in bytes of both.
type position struct{ text, secret int }

// matchSecret returns where a secret ends whose rest begins at a position of a text, 0 if it does not continue there. It continues once
// from a position that several readings lead to.
func matchSecret(text []byte, at int, rest string) (end int, open bool) {
	var (
		buffer [maxReadings]reading
		todo   []position
		seen   map[position]bool
	)
	for p, more := (position{text: at}), true; more; {
		next, n := position{}, 0
		switch {
		case p.secret == len(rest):
			end = max(end, p.text)
		case p.text == len(text):
			open = true
		case !mayBeEscape(text[p.text]):
			if text[p.text] == rest[p.secret] {
				next, n = position{p.text + 1, p.secret + 1}, 1
			}
		default:
			ways, cut := readings(text, p.text, buffer[:0])
			open = open || cut
			for i := range ways {
				if !strings.HasPrefix(rest[p.secret:], string(ways[i].bytes())) {
					continue
				}
				if n++; n > 1 {
					todo = append(todo, next)
				}
				next = position{p.text + ways[i].length, p.secret + ways[i].size}
			}
		}
		if n > 1 && seen == nil {
			seen = map[position]bool{}
		}
		for p, more = next, n > 0; !more || seen[p]; {
			if len(todo) == 0 {
				return end, open
			}
			p, more, todo = todo[len(todo)-1], true, todo[:len(todo)-1]
		}
		if seen == nil {
			continue
		}
		if seen[p] = true; len(seen) > maxPlaces*(len(rest)+1) {
			if bytes.HasPrefix(text[at:], []byte(rest)) {
				end = max(end, at+len(rest))
			}
			return end, open
		}
	}
	return end, open
}
