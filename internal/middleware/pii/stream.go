package pii

import (
	"strings"
	"unicode/utf8"
)

// contextBytes is how many bytes before the held text finders may look back on.
const contextBytes = utf8.UTFMax

// Stream filters text that comes in chunks. Its whole output is what [Rule.Apply] makes of the whole text, one rule after the other, however
// the text is cut. It emits text as soon as, and not before, the outcome is certain.
//
// It holds back only text that may be part of a value: at most 512 bytes for an e-mail address, 2 KiB for a URL, 64 bytes for the other
// built-in types, its lookback for a detector. At the bound a longer value is certain; the rest of it is dropped as it comes and replaced
// with it. A run of characters that is no value passes, however long it is.
//
// Under block nothing is emitted from the first value on, and Err says why. Not safe for concurrent use.
type Stream struct {
	stages []*stage
}

// NewStream returns a filter that applies rules in order.
func NewStream(rules ...*Rule) *Stream {
	s := &Stream{}
	for _, r := range rules {
		s.stages = append(s.stages, &stage{rule: r})
	}
	return s
}

// Write adds a chunk and returns the text that is certain now.
func (s *Stream) Write(chunk string) (emit string) {
	for _, g := range s.stages {
		chunk = g.filter(chunk, true)
	}
	return chunk
}

// Flush ends the text and returns the rest of it. Later chunks begin another text.
func (s *Stream) Flush() (rest string) {
	for _, g := range s.stages {
		rest = g.filter(rest, false)
	}
	return rest
}

// Err returns an [agent.CodeDenied] error once a blocking rule has found a value.
func (s *Stream) Err() error {
	for _, g := range s.stages {
		if g.blocked {
			return g.rule.deniedError(g.found)
		}
	}
	return nil
}

// stage is one rule of a stream.
type stage struct {
	rule    *Rule
	text    string     // what may be a part of a value, after some context
	from    int        // where the context ends
	long    *longValue // not nil: inside of a value that is longer than the bound
	found   int
	blocked bool
}

// filter adds a chunk and returns the text that is certain now.
func (g *stage) filter(chunk string, more bool) string {
	if g.blocked {
		return ""
	}
	text := g.text + chunk
	known := text
	if more {
		known = text[:len(text)-incompleteRuneLength(text)]
	}
	var out strings.Builder
	at := g.from
	for {
		if g.long != nil {
			n, done := g.long.rest.take(known[at:], more)
			g.long.add(known[at : at+n])
			at += n
			if !done {
				break
			}
			out.WriteString(g.long.replacement())
			g.long = nil
		}
		v, hold, ok := g.rule.finder.find(known, at, more)
		if !ok {
			out.WriteString(known[at:hold])
			at = hold
			break
		}
		out.WriteString(known[at:v.start])
		g.found++
		at = v.end
		switch {
		case g.rule.strategy == StrategyBlock:
			g.blocked, g.text = true, ""
			return out.String()
		case v.rest != nil:
			g.long = g.rule.newLongValue(v)
			g.long.add(known[v.start:v.end])
		default:
			out.WriteString(g.rule.replacement(known[v.start:v.end]))
		}
	}
	g.text, g.from = "", 0
	if more {
		keep := max(0, at-contextBytes)
		g.text, g.from = strings.Clone(text[keep:]), at-keep
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
