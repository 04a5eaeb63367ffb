package pii

import (
	"strings"
	"unicode/utf8"
)

// behind is how many bytes before the held text are kept for finders to look back on.
const behind = utf8.UTFMax

// Stream filters text that comes in chunks. What it emits in all is what [Rule.Apply] makes of the whole text, one rule after the
// other, however the text is cut; nothing is emitted before it is certain, and what is certain is emitted at once.
//
// It holds back what may still become a part of a value, and no more than that: at most 512 bytes for an e-mail address, 2 KiB for a
// URL, 64 bytes for the other built-in types, its lookback for a detector. A value that is longer does not wait for its end: at the
// bound it is certain to be one, and all that still belongs to it is taken in without being kept, and replaced with it. A run of
// characters that is no value passes through, however long it is.
//
// Under block nothing is emitted from the first value on, and Err says why. Not safe for concurrent use.
type Stream struct {
	stages []*stage
}

// NewStream makes a filter that applies rules in order. Without rules it changes nothing.
func NewStream(rules ...*Rule) *Stream {
	s := &Stream{}
	for _, r := range rules {
		s.stages = append(s.stages, &stage{rule: r})
	}
	return s
}

// Write takes the next chunk and returns what can be shown by now.
func (s *Stream) Write(chunk string) (emit string) {
	for _, g := range s.stages {
		chunk = g.push(chunk, true)
	}
	return chunk
}

// Flush ends the text and returns the rest of it. What is written afterwards is another text.
func (s *Stream) Flush() (rest string) {
	for _, g := range s.stages {
		rest = g.push(rest, false)
	}
	return rest
}

// Err is a [agent.CodeDenied] error once a rule that blocks has found a value. It stays.
func (s *Stream) Err() error {
	for _, g := range s.stages {
		if g.blocked {
			return g.rule.denied(g.found)
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

// push adds a chunk and returns what is certain.
func (g *stage) push(chunk string, more bool) string {
	if g.blocked {
		return ""
	}
	text := g.text + chunk
	known := text
	if more {
		known = text[:len(text)-partialRune(text)]
	}
	var out strings.Builder
	at := g.from
	for {
		if g.long != nil {
			n, done := g.long.rest.take(known[at:], more)
			g.long.absorb(known[at : at+n])
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
			g.long.absorb(known[v.start:v.end])
		default:
			out.WriteString(g.rule.replacement(known[v.start:v.end]))
		}
	}
	g.text, g.from = "", 0
	if more {
		keep := max(0, at-behind)
		g.text, g.from = strings.Clone(text[keep:]), at-keep
	}
	return out.String()
}

// partialRune is the number of bytes at the end of text that are the beginning of a rune.
func partialRune(text string) int {
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
