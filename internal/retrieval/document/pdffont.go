package document

import (
	"encoding/binary"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/ledongthuc/pdf"
	"golang.org/x/text/encoding/charmap"
)

const (
	maxPDFFonts = 10_000
	maxPDFCodes = 1 << 16 // of one character map
)

// pdfFont decodes the strings that are shown in a font. It decodes each code once, because the library is slow.
type pdfFont struct {
	font       pdf.Font
	encoder    pdf.TextEncoding  // for codes that are not in toUnicode; nil: they are Latin-1
	toUnicode  map[string]string // text by code
	codeLength int               // bytes of a code: 1 or 2
	glyphs     map[string]glyph  // by code
}

type glyph struct {
	text  string
	width float64 // in thousandths of the font's size
}

// font returns a font of the resources of a page. Fonts with equal dictionaries are the same.
func (f *pdfFile) font(v pdf.Value) (*pdfFont, error) {
	key := v.String()
	if font, ok := f.fonts[key]; ok {
		return font, nil
	}
	p := &pdfFont{font: pdf.Font{V: v}, codeLength: 1, glyphs: map[string]glyph{}}
	if v.Key("Subtype").Name() == "Type0" {
		p.codeLength = 2
	}
	stream := v.Key("ToUnicode")
	if stream.Kind() == pdf.Stream {
		data, err := f.unpackStream(stream)
		if err != nil {
			return nil, err
		}
		p.toUnicode = parseCharacterMap(data, p.codeLength)
	}
	encoding := v.Key("Encoding")
	hasEncoding := encoding.Kind() == pdf.Dict || encoding.Kind() == pdf.Name && encoding.Name() != "Identity-H"
	if hasEncoding || stream.Kind() != pdf.Stream { // otherwise the library would read the character map
		p.encoder = p.font.Encoder()
	}
	if f.fonts == nil || len(f.fonts) >= maxPDFFonts {
		f.fonts = map[string]*pdfFont{}
	}
	f.fonts[key] = p
	return p, nil
}

// parseCharacterMap parses a ToUnicode map (ISO 32000-1, 9.10.3) with codes of codeLength bytes.
func parseCharacterMap(data []byte, codeLength int) map[string]string {
	codes := map[string]string{}
	put := func(code, text string) {
		if len(code) == codeLength && len(codes) < maxPDFCodes {
			codes[code] = text
		}
	}
	interpret(data, func(op string, args []operand) bool {
		switch op {
		case "endbfchar":
			for i := 0; i+1 < len(args); i += 2 {
				put(args[i].text, utf16Text(args[i+1].text, 0))
			}
		case "endbfrange":
			for i := 0; i+2 < len(args); i += 3 {
				low, ok1 := parseCode(args[i].text)
				high, ok2 := parseCode(args[i+1].text)
				for n := low; ok1 && ok2 && n <= high && len(codes) < maxPDFCodes; n++ {
					code := formatCode(n, len(args[i].text))
					if to := args[i+2]; to.kind != operandArray {
						put(code, utf16Text(to.text, n-low))
					} else if n-low < len(to.items) {
						put(code, utf16Text(to.items[n-low].text, 0))
					}
				}
			}
		}
		return len(codes) < maxPDFCodes
	})
	return codes
}

func parseCode(s string) (int, bool) {
	switch len(s) {
	case 1:
		return int(s[0]), true
	case 2:
		return int(s[0])<<8 | int(s[1]), true
	default:
		return 0, false
	}
}

func formatCode(n, length int) string {
	if length == 1 {
		return string([]byte{byte(n)}) //nolint:gosec // less than 1<<8
	}
	return string([]byte{byte(n >> 8), byte(n)}) //nolint:gosec // less than 1<<16
}

// utf16Text decodes big-endian UTF-16 after adding n to its last unit.
func utf16Text(s string, n int) string {
	if len(s) == 1 {
		s = "\x00" + s
	}
	units := make([]uint16, len(s)/2)
	for i := range units {
		units[i] = binary.BigEndian.Uint16([]byte(s[2*i:]))
	}
	if len(units) > 0 {
		units[len(units)-1] += uint16(n) //nolint:gosec // at most 65,535
	}
	return string(utf16.Decode(units))
}

// decode returns the text of a string, its width in thousandths of the font's size, and how many glyphs and blanks it has.
func (p *pdfFont) decode(raw string) (text string, width float64, glyphs, blanks int) {
	if p == nil {
		return "", 0, 0, 0
	}
	var b strings.Builder
	for i := 0; i+p.codeLength <= len(raw); i += p.codeLength {
		code := raw[i : i+p.codeLength]
		g, ok := p.glyphs[code]
		if !ok {
			g = p.glyph(code)
			p.glyphs[code] = g
		}
		b.WriteString(g.text)
		width += g.width
		glyphs++
		if code == " " {
			blanks++
		}
	}
	return b.String(), width, glyphs, blanks
}

// glyph returns the text and the width of a code.
func (p *pdfFont) glyph(code string) glyph {
	g := glyph{text: printable(p.text(code))}
	if p.codeLength == 1 {
		g.width = p.font.Width(int(code[0]))
	}
	if g.width <= 0 { // the 14 standard fonts have no widths
		r, _ := utf8.DecodeRuneInString(g.text)
		g.width = typicalWidth(r)
	}
	return g
}

// text returns the text of a code.
func (p *pdfFont) text(code string) string {
	if text, ok := p.toUnicode[code]; ok {
		return text
	}
	if p.codeLength == 2 {
		return "\ufffd"
	}
	r := rune(code[0])
	if p.encoder != nil {
		text := p.encoder.Decode(code)
		if one, n := utf8.DecodeRuneInString(text); n != len(text) || one != r {
			return text
		}
	}
	if r >= 0x80 && r < 0xa0 { // most likely Windows-1252
		return string(charmap.Windows1252.DecodeByte(code[0]))
	}
	return string(r)
}

// printable returns s without invisible characters, and with spaces for all white space.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\t' || r == '\n' || r == '\r' || r == '\u00a0':
			return ' '
		case unicode.IsControl(r) || r == '\u00ad':
			return -1
		default:
			return r
		}
	}, strings.ToValidUTF8(s, "\ufffd"))
}

// typicalWidth returns about the width of a character in Helvetica, in thousandths of the font's size.
func typicalWidth(r rune) float64 {
	switch {
	case strings.ContainsRune("iljtfI.,:;'!|()[]/ ", r):
		return 280
	case strings.ContainsRune("mwMW@%—", r):
		return 850
	case unicode.IsUpper(r):
		return 690
	case unicode.In(r, unicode.Han, unicode.Hangul, unicode.Hiragana, unicode.Katakana):
		return 1000
	default:
		return 540
	}
}
