package egress

import (
	"bytes"
	"slices"
	"strings"
)

// Masker takes secrets out of texts, however their characters are written: as they are, as JSON, URLs, HTML or XML escape them, in any mix.
// It may be used by several goroutines at once.
type Masker struct {
	secrets [256][]string // by their first byte
	starts  [256]bool     // bytes that a secret may begin with, written in some way
	any     bool
}

// NewMasker makes one. Empty secrets are left out; very short ones are for the caller to leave out: they are found by chance.
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

// Mask returns a text with "[redacted]" in the place of every secret. Of several that begin at one place the longest is taken.
func (m *Masker) Mask(text []byte) []byte {
	if !m.any {
		return text
	}
	out, _ := m.judge(make([]byte, 0, len(text)), text, true)
	return out
}

// judge appends to out what can be said of a text, and returns what cannot yet: the tail that a secret may begin with. Of a last text
// there is none.
func (m *Masker) judge(out, text []byte, last bool) (judged, tail []byte) {
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
			out = append(append(out, text[from:at]...), masked...)
			at, from = end, end
		default:
			at++
		}
	}
	return append(out, text[from:]...), nil
}

// find is where the longest secret ends that begins at a place, 0 when there is none. open says that more of the text may make it another.
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

// maxPlaces bounds how many places are gone on from, for each byte of a secret. Where there are more, which takes a secret of nothing but
// backslashes or the like, it is looked for as it is.
const maxPlaces = 8

// place is how far a text was read as a secret, in bytes of both.
type place struct{ text, secret int }

// match is where a secret ends whose rest begins at a place of a text, 0 when it does not go on there. A place that several readings lead to
// is gone on from once.
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
		case !escapes(text[p.text]):
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
