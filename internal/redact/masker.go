package redact

import (
	"bytes"
	"slices"
	"strings"
)

// Masker takes given secrets out of texts, however their characters are written: literally, or escaped as in JSON, URLs, HTML or XML, in
// any mix. It is safe for concurrent use.
type Masker struct {
	secrets [256][]string // by their first byte
	starts  [256]bool     // bytes that a secret may begin with, written in some way
	any     bool
}

// NewMasker returns a masker of secrets. It ignores empty ones; callers leave out those below [ShortestSecret].
func NewMasker(secrets ...string) *Masker {
	m := &Masker{}
	for _, s := range secrets {
		if s == "" || slices.Contains(m.secrets[s[0]], s) {
			continue
		}
		m.secrets[s[0]] = append(m.secrets[s[0]], s)
		m.starts[s[0]], m.any = true, true
		m.starts['+'] = m.starts['+'] || s[0] == ' '
	}
	m.starts['\\'], m.starts['%'], m.starts['&'] = m.any, m.any, m.any
	return m
}

// Mask returns text with [Placeholder] in place of every secret. Of several secrets that begin at one place it takes the longest.
func (m *Masker) Mask(text []byte) []byte {
	if !m.any {
		return text
	}
	out, _ := m.maskPrefix(make([]byte, 0, len(text)), text, true)
	return out
}

// maskPrefix appends the masked text to out and returns the tail that it cannot decide yet, because a secret may begin in it. A last
// text has no tail.
func (m *Masker) maskPrefix(out, text []byte, last bool) (masked, tail []byte) {
	from := 0
	for at := 0; at < len(text); {
		if !m.starts[text[at]] {
			at++
			continue
		}
		end, open := m.find(text, at)
		switch {
		case open && !last:
			return append(out, text[from:at]...), text[at:]
		case end > at:
			out = append(append(out, text[from:at]...), Placeholder...)
			at, from = end, end
		default:
			at++
		}
	}
	return append(out, text[from:]...), nil
}

// find returns where the longest secret that begins at a place ends, 0 if none does. open reports that more text may change the answer.
func (m *Masker) find(text []byte, at int) (end int, open bool) {
	var buffer [maxReadings]reading
	begun, open := readings(text, at, buffer[:0])
	for i := range begun {
		r := &begun[i]
		for _, s := range m.secrets[r.value[0]] {
			if !strings.HasPrefix(s, string(r.bytes())) {
				continue
			}
			e, o := match(text, at+r.length, s[r.size:])
			end, open = max(end, e), open || o
		}
	}
	return end, open
}

// maxPlaces bounds how many places are followed for each byte of a secret. Beyond it, which takes a secret full of backslashes or the like,
// the secret is looked for literally.
const maxPlaces = 8

// place is how many bytes of a text were read as how many bytes of a secret.
type place struct{ text, secret int }

// match returns where a secret ends whose rest begins at a place of a text, 0 if the text differs. A place that several readings lead to
// is followed once.
func match(text []byte, at int, rest string) (end int, open bool) {
	var (
		buffer [maxReadings]reading
		todo   []place
		seen   map[place]bool
	)
	for p, more := (place{text: at}), true; more; {
		next, n := place{}, 0
		switch {
		case p.secret == len(rest):
			end = max(end, p.text)
		case p.text == len(text):
			open = true
		case !canEscape(text[p.text]):
			if text[p.text] == rest[p.secret] {
				next, n = place{p.text + 1, p.secret + 1}, 1
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
				next = place{p.text + ways[i].length, p.secret + ways[i].size}
			}
		}
		if n > 1 && seen == nil {
			seen = map[place]bool{}
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
