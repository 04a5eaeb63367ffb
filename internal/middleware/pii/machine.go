package pii

import (
	"regexp/syntax"
	"unicode/utf8"
)

// machine runs a pattern over text rune by rune, with Pike's algorithm, as regexp does: it follows all ways in which a match may continue at
// once, in the order of their priority. So it knows at every point what may still become a match.
type machine struct {
	*pattern

	next    []thread // after the last rune, before the empty-width steps; earlier values come first
	run     []thread // waiting for the next rune
	seen    []uint32 // the round in which an instruction was reached
	round   uint32
	prev    rune // the rune before the current one; -1 at the beginning of the text
	match   value
	matched bool
}

// thread is one way in which a match may go on.
type thread struct {
	pc    uint32
	start int
}

func (p *pattern) newMachine(text string, from int) *machine {
	m := &machine{pattern: p, seen: make([]uint32, len(p.prog.Inst))}
	m.setPreviousRune(text, from)
	return m
}

func (m *machine) setPreviousRune(text string, at int) {
	m.prev = -1
	if at > 0 {
		m.prev, _ = utf8.DecodeLastRuneInString(text[:at])
	}
}

// find implements [finder]. It returns a value once nothing with priority over it can match. hold is where the first thread began, because
// no thread with priority begins later.
func (m *machine) find(text string, from int, more bool) (v value, hold int, ok bool) {
	for i := from; ; {
		if len(m.next) == 0 {
			if m.matched {
				return m.match, 0, true
			}
			if skip := m.firstByte(text[i:]); skip > 0 {
				i += skip
				m.setPreviousRune(text, i)
			}
		}
		if i == len(text) && more {
			if len(m.next) > 0 {
				i = m.next[0].start
			}
			return value{}, i, false
		}
		c, w := m.takeEmptySteps(text, i)
		if i == len(text) {
			return m.match, len(text), m.matched
		}
		if m.advance(c, i+w) { // the value has reached the bound
			return value{start: m.match.start, end: i + w, rest: &patternRest{m}}, 0, true
		}
		i += w
	}
}

// firstByte returns the index of the first byte that a value can begin with.
func (m *machine) firstByte(text string) int {
	for i := range len(text) {
		if m.first[text[i]] {
			return i
		}
	}
	return len(text)
}

// takeEmptySteps takes the empty-width steps at text[i:] and returns the rune there, -1 at the end. Unless something matched, a value may
// begin here.
func (m *machine) takeEmptySteps(text string, i int) (c rune, width int) {
	c, width = -1, 0
	if i < len(text) {
		c, width = utf8.DecodeRuneInString(text[i:])
	}
	around := syntax.EmptyOpContext(m.prev, c)
	m.run = m.run[:0]
	m.round++
	for _, t := range m.next {
		if m.addThread(t.pc, t.start, i, around) {
			return c, width
		}
	}
	if !m.matched {
		m.addThread(uint32(m.prog.Start), i, i, around) //nolint:gosec // an index of Inst
	}
	return c, width
}

// addThread follows a thread to the instructions that wait for a rune. It returns true if the thread matched, which ends later threads.
func (m *machine) addThread(pc uint32, start, i int, around syntax.EmptyOp) bool {
	if m.seen[pc] == m.round {
		return false
	}
	m.seen[pc] = m.round
	inst := &m.prog.Inst[pc]
	switch inst.Op {
	case syntax.InstAlt, syntax.InstAltMatch:
		return m.addThread(inst.Out, start, i, around) || m.addThread(inst.Arg, start, i, around)
	case syntax.InstCapture, syntax.InstNop:
		return m.addThread(inst.Out, start, i, around)
	case syntax.InstEmptyWidth:
		return syntax.EmptyOp(inst.Arg)&^around == 0 && m.addThread(inst.Out, start, i, around) //nolint:gosec // what Arg holds
	case syntax.InstMatch:
		m.match, m.matched = value{start: start, end: i}, true
		return true
	case syntax.InstFail:
	case syntax.InstRune, syntax.InstRune1, syntax.InstRuneAny, syntax.InstRuneAnyNotNL:
		m.run = append(m.run, thread{pc, start})
	}
	return false
}

// advance moves the threads that match c to end, the offset behind c. A thread longer than the limit is dropped, unless it has already
// matched: then advance returns true.
func (m *machine) advance(c rune, end int) (reached bool) {
	m.next = m.next[:0]
	m.prev = c
	for _, t := range m.run {
		inst := &m.prog.Inst[t.pc]
		if !inst.MatchRune(c) {
			continue
		}
		if end-t.start > m.limit {
			if !m.matched || m.match.start != t.start {
				continue
			}
			reached = true
		}
		m.next = append(m.next, thread{inst.Out, t.start})
	}
	return reached
}

// patternRest takes whatever the expression can continue to match. That may be more than the match, which is only known at the end.
type patternRest struct{ *machine }

func (r *patternRest) take(text string, more bool) (n int, done bool) {
	for n < len(text) {
		c, w := r.takeEmptySteps(text, n)
		r.advance(c, 0) // no limit any more
		if len(r.next) == 0 {
			return n, true
		}
		n += w
	}
	return n, !more
}
