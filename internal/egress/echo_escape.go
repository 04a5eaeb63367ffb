package egress

import (
	"bytes"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"
)

// The bounds of one escaped character. Text that is encoded twice, such as JSON in JSON, doubles its backslashes and writes %25 for a %.
const (
	maxSlashes  = 8
	maxPercents = 3
	maxEntity   = 10 // bytes, from & to ;
	maxReadings = 8  // at one position: its byte, three runs of backslashes, and an escape
)

// reading is one way to read a text at a position: as a character, or as a byte of one.
type reading struct {
	value  [utf8.UTFMax]byte
	size   int // bytes of the value
	length int // bytes of the text
}

func (r *reading) bytes() []byte { return r.value[:r.size] }

func ofByte(b byte, length int) reading {
	return reading{value: [utf8.UTFMax]byte{b}, size: 1, length: length}
}

func ofRune(c rune, length int) reading {
	r := reading{length: length}
	r.size = utf8.EncodeRune(r.value[:], c)
	return r
}

// mayBeEscape reports whether an escape may begin with a byte.
func mayBeEscape(b byte) bool { return b == '\\' || b == '%' || b == '&' || b == '+' }

// readings appends the ways to read a text at a position: as its byte, as \uXXXX or another escape of JSON, as %XX, + for a space, &#NN;
// or &lt;. cut reports whether the text ends within a possible escape.
func readings(text []byte, at int, out []reading) (_ []reading, cut bool) {
	out = append(out, ofByte(text[at], 1))
	switch text[at] {
	case '\\':
		return readSlashes(text, at, out)
	case '%':
		return readPercents(text, at, out)
	case '&':
		return readEntity(text, at, out)
	case '+':
		return append(out, ofByte(' ', 1)), false
	default:
		return out, false
	}
}

// readSlashes reads backslashes and the character that they escape.
func readSlashes(text []byte, at int, out []reading) (_ []reading, cut bool) {
	end := slashesEnd(text, at)
	for n := 2; n <= end-at; n *= 2 {
		out = append(out, ofByte('\\', n))
	}
	if end == len(text) {
		return out, true
	}
	switch c := text[end]; c {
	case '"', '\'', '/':
		out = append(out, ofByte(c, end+1-at))
	case 'b':
		out = append(out, ofByte('\b', end+1-at))
	case 'f':
		out = append(out, ofByte('\f', end+1-at))
	case 'n':
		out = append(out, ofByte('\n', end+1-at))
	case 'r':
		out = append(out, ofByte('\r', end+1-at))
	case 't':
		out = append(out, ofByte('\t', end+1-at))
	case 'x':
		v, ok, short := readHex(text, end+1, 2)
		if ok {
			out = append(out, ofByte(byte(v), end+3-at)) //nolint:gosec // two digits
		}
		return out, short
	case 'u':
		c, end, ok, short := readUnicode(text, end)
		if ok {
			out = append(out, ofRune(c, end-at))
		}
		return out, short
	}
	return out, false
}

// slashesEnd returns the end of a run of at most eight backslashes.
func slashesEnd(text []byte, at int) int {
	end := at
	for end < len(text) && end-at < maxSlashes && text[end] == '\\' {
		end++
	}
	return end
}

// readUnicode reads XXXX after a u, and the second half of a surrogate pair with its own backslashes.
func readUnicode(text []byte, u int) (c rune, end int, ok, cut bool) {
	v, ok, cut := readHex(text, u+1, 4)
	end = u + 5
	if !ok || !utf16.IsSurrogate(v) {
		return v, end, ok, cut
	}
	next := slashesEnd(text, end)
	if next == len(text) {
		return 0, 0, false, true
	}
	if next == end || text[next] != 'u' {
		return 0, 0, false, false
	}
	low, ok, cut := readHex(text, next+1, 4)
	if c = utf16.DecodeRune(v, low); !ok || c == utf8.RuneError {
		return 0, 0, false, cut
	}
	return c, next + 5, true, false
}

// readPercents reads %XX, and %25XX for text that is encoded twice.
func readPercents(text []byte, at int, out []reading) (_ []reading, cut bool) {
	for i := at + 1; i <= at+2*maxPercents; i += 2 {
		v, ok, short := readHex(text, i, 2)
		if !ok {
			return out, short
		}
		out = append(out, ofByte(byte(v), i+2-at)) //nolint:gosec // two digits
		if v != '%' {
			break
		}
	}
	return out, false
}

// readHex reads a number of digits; cut reports whether the text ends within them.
func readHex(text []byte, at, digits int) (v rune, ok, cut bool) {
	for i := at; i < at+digits; i++ {
		if i >= len(text) {
			return 0, false, true
		}
		switch c := text[i]; {
		case c >= '0' && c <= '9':
			v = v<<4 | rune(c-'0')
		case c >= 'a' && c <= 'f':
			v = v<<4 | rune(c-'a'+10)
		case c >= 'A' && c <= 'F':
			v = v<<4 | rune(c-'A'+10)
		default:
			return 0, false, false
		}
	}
	return v, true, false
}

// readEntity reads &#NN; &#xHH; and the five named entities of XML.
func readEntity(text []byte, at int, out []reading) (_ []reading, cut bool) {
	window := text[at+1 : min(len(text), at+maxEntity)]
	end := bytes.IndexByte(window, ';')
	if end < 0 {
		return out, len(text) < at+maxEntity && !bytes.ContainsAny(window, " \"<>&\\\n")
	}
	name, length := string(window[:end]), end+2
	switch name {
	case "amp":
		return append(out, ofByte('&', length)), false
	case "lt":
		return append(out, ofByte('<', length)), false
	case "gt":
		return append(out, ofByte('>', length)), false
	case "quot":
		return append(out, ofByte('"', length)), false
	case "apos":
		return append(out, ofByte('\'', length)), false
	}
	if len(name) < 2 || name[0] != '#' {
		return out, false
	}
	digits, base := name[1:], 10
	if digits[0] == 'x' || digits[0] == 'X' {
		digits, base = digits[1:], 16
	}
	if v, err := strconv.ParseUint(digits, base, 21); err == nil && utf8.ValidRune(rune(v)) {
		out = append(out, ofRune(rune(v), length))
	}
	return out, false
}
