package document

import (
	"bytes"
	"strconv"
	"strings"
)

// This file reads content streams and character maps, and skips unreadable parts, as viewers do. The library's lexer never returns if a stream ends
// in an open array or string, and fails on inline images and unusual escapes.

const (
	maxOperands   = 10_000  // of one operator
	maxArrayItems = 100_000 // of one array
)

type operandKind byte

const (
	operandOther operandKind = iota // booleans, null, dictionaries
	operandNumber
	operandName
	operandString
	operandArray
)

type operand struct {
	kind   operandKind
	number float64
	text   string    // of a name or a string
	items  []operand // of an array, with the items of arrays in it
}

// pdfLexer reads a content stream.
type pdfLexer struct {
	data []byte
	pos  int
}

// interpret calls do for each operator with the operands before it, until do returns false.
func interpret(data []byte, do func(op string, args []operand) bool) {
	l := pdfLexer{data: data}
	var args []operand
	dicts := 0 // open dictionaries, whose content is ignored
	var array *operand
	add := func(o operand) {
		switch {
		case dicts > 0:
		case array != nil:
			if len(array.items) < maxArrayItems {
				array.items = append(array.items, o)
			}
		case len(args) < maxOperands:
			args = append(args, o)
		}
	}
	for {
		switch c := l.next(); {
		case c == 0:
			return
		case c == '(':
			add(operand{kind: operandString, text: l.readString()})
		case c == '<' && l.peek() == '<':
			l.pos++
			dicts++
		case c == '<':
			add(operand{kind: operandString, text: l.readHex()})
		case c == '>' && l.peek() == '>':
			l.pos++
			dicts = max(0, dicts-1)
		case c == '[':
			if array == nil {
				array = &operand{kind: operandArray}
			}
		case c == ']':
			if array != nil {
				done := *array
				array = nil
				add(done)
			}
		case c == '/':
			add(operand{kind: operandName, text: l.readName()})
		case isDelimiter(c): // ignored
		default:
			l.pos--
			word := l.readWord()
			if n, err := strconv.ParseFloat(word, 64); err == nil && word[0] <= '9' { // not "Inf" and "NaN"
				add(operand{kind: operandNumber, number: n})
				continue
			}
			switch {
			case word == "true" || word == "false" || word == "null":
				add(operand{})
				continue
			case word == "ID":
				l.skipImage()
			case dicts == 0 && !do(word, args):
				return
			}
			args, array, dicts = args[:0], nil, 0
		}
	}
}

// next returns the next byte that is not white space or part of a comment, 0 at the end.
func (l *pdfLexer) next() byte {
	for l.pos < len(l.data) {
		c := l.data[l.pos]
		l.pos++
		switch {
		case c == '%':
			for l.pos < len(l.data) && l.data[l.pos] != '\n' && l.data[l.pos] != '\r' {
				l.pos++
			}
		case !isBlank(c):
			return c
		}
	}
	return 0
}

// peek returns the next byte, 0 at the end.
func (l *pdfLexer) peek() byte {
	if l.pos < len(l.data) {
		return l.data[l.pos]
	}
	return 0
}

// readWord reads up to the next white space or delimiter.
func (l *pdfLexer) readWord() string {
	start := l.pos
	for l.pos < len(l.data) && !isBlank(l.data[l.pos]) && !isDelimiter(l.data[l.pos]) {
		l.pos++
	}
	return string(l.data[start:l.pos])
}

// readName reads a name after its slash.
func (l *pdfLexer) readName() string {
	raw := l.readWord()
	if len(raw) < 3 || !strings.Contains(raw, "#") {
		return raw
	}
	var b []byte
	for i := 0; i < len(raw); i++ {
		if raw[i] == '#' && i+2 < len(raw) {
			if n, err := strconv.ParseUint(raw[i+1:i+3], 16, 8); err == nil {
				b = append(b, byte(n))
				i += 2
				continue
			}
		}
		b = append(b, raw[i])
	}
	return string(b)
}

// readString reads a string after its opening parenthesis (ISO 32000-1, 7.3.4.2).
func (l *pdfLexer) readString() string {
	var b []byte
	for depth := 1; l.pos < len(l.data); {
		c := l.data[l.pos]
		l.pos++
		switch c {
		case '(':
			depth++
		case ')':
			if depth--; depth == 0 {
				return string(b)
			}
		case '\\':
			if c, ok := l.readEscape(); ok {
				b = append(b, c)
			}
			continue
		}
		b = append(b, c)
	}
	return string(b)
}

// readEscape reads a character after its backslash, false for a line end, which is ignored.
func (l *pdfLexer) readEscape() (byte, bool) {
	c := l.peek()
	l.pos++
	switch c {
	case 'n':
		return '\n', true
	case 'r':
		return '\r', true
	case 't':
		return '\t', true
	case 'b':
		return '\b', true
	case 'f':
		return '\f', true
	case '\r':
		if l.peek() == '\n' {
			l.pos++
		}
		return 0, false
	case '\n':
		return 0, false
	}
	if c < '0' || c > '7' {
		return c, true
	}
	n := int(c - '0')
	for range 2 {
		if d := l.peek(); d >= '0' && d <= '7' {
			n = n*8 + int(d-'0')
			l.pos++
		} else {
			break
		}
	}
	return byte(n), true // the high bit of an overflow is ignored (7.3.4.2)
}

// readHex reads a string of hexadecimal digits after its opening bracket. A missing last digit is 0.
func (l *pdfLexer) readHex() string {
	var b []byte
	var digits int
	for l.pos < len(l.data) {
		c := l.data[l.pos]
		l.pos++
		if c == '>' {
			break
		}
		n, err := strconv.ParseUint(string(c), 16, 8)
		if err != nil {
			continue
		}
		if digits++; digits%2 == 1 {
			b = append(b, byte(n)<<4)
		} else {
			b[len(b)-1] |= byte(n)
		}
	}
	return string(b)
}

// skipImage skips the bytes of an inline image, up to an EI between white space.
func (l *pdfLexer) skipImage() {
	for l.pos < len(l.data) {
		i := bytes.Index(l.data[l.pos:], []byte("EI"))
		if i < 0 {
			l.pos = len(l.data)
			return
		}
		i += l.pos
		l.pos = i + len("EI")
		if isBlank(l.data[i-1]) && (l.pos == len(l.data) || isBlank(l.data[l.pos])) {
			return
		}
	}
}

func isBlank(c byte) bool {
	switch c {
	case 0, '\t', '\n', '\f', '\r', ' ':
		return true
	default:
		return false
	}
}

func isDelimiter(c byte) bool {
	switch c {
	case '(', ')', '<', '>', '[', ']', '{', '}', '/', '%':
		return true
	default:
		return false
	}
}
