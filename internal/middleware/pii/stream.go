package pii

import (
	"strings"
	"unicode/utf8"
)

// contextBytes is how many bytes before the held text finders may look back on.
const contextBytes = utf8.UTFMax

// Stream filters text that comes in chunks. Its whole output is what [Rule.Apply] makes of the whole text, however the text is cut. It emits text
// as soon as, and not before, the outcome is certain.
//
// It holds back only text that may be part of a value: at most 512 bytes for an e-mail address, 2 KiB for a URL, 64 bytes for the other
// built-in types, its lookback for a detector. At the bound a longer value is certain; the rest of it is dropped as it comes and replaced
// with it. A run of characters that is no value passes, however long it is.
//
// Under block nothing is emitted from the first value on, and Err says why. Not safe for concurrent use.
type Stream struct {
	rule    *Rule
	text    string     // what may be a part of a value, after some context
	from    int        // where the context ends
	long    *longValue // not nil: inside of a value that is longer than the bound
	found   int
	blocked bool
}

// NewStream returns a filter that applies a rule.
func NewStream(r *Rule) *Stream { return &Stream{rule: r} }

// Write adds a chunk and returns the text that is certain now.
func (s *Stream) Write(chunk string) (emit string) { return s.filter(chunk, true) }

// Flush ends the text and returns the rest of it. Later chunks begin another text.
func (s *Stream) Flush() (rest string) { return s.filter("", false) }

// Err returns an [agent.CodeDenied] error once a blocking rule has found a value.
func (s *Stream) Err() error {
	if !s.blocked {
		return nil
	}
	return s.rule.deniedError(s.found)
}

func (s *Stream) filter(chunk string, more bool) string {
	if s.blocked {
		return ""
	}
	text := s.text + chunk
	known := text
	if more {
		known = text[:len(text)-incompleteRuneLength(text)]
	}
	var out strings.Builder
	at := s.from
	for {
		if s.long != nil {
			n, done := s.long.rest.take(known[at:], more)
			s.long.add(known[at : at+n])
			at += n
			if !done {
				break
			}
			out.WriteString(s.long.replacement())
			s.long = nil
		}
		v, hold, ok := s.rule.finder.find(known, at, more)
		if !ok {
			out.WriteString(known[at:hold])
			at = hold
			break
		}
		out.WriteString(known[at:v.start])
		s.found++
		at = v.end
		switch {
		case s.rule.strategy == StrategyBlock:
			s.blocked, s.text = true, ""
			return out.String()
		case v.rest != nil:
			s.long = s.rule.newLongValue(v)
			s.long.add(known[v.start:v.end])
		default:
			out.WriteString(s.rule.replacement(known[v.start:v.end]))
		}
	}
	s.text, s.from = "", 0
	if more {
		keep := max(0, at-contextBytes)
		s.text, s.from = strings.Clone(text[keep:]), at-keep
	}
	return out.String()
}

// incompleteRuneLength returns how many bytes at the end of text begin a rune that is not complete.
func incompleteRuneLength(text string) int {
	for n := 1; n < utf8.UTFMax && n <= len(text); n++ {
		if tail := text[len(text)-n:]; utf8.RuneStart(tail[0]) {
			if utf8.FullRuneInString(tail) {
				return 0
			}
			return n
		}
	}
	return 0
}
