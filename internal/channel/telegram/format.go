package telegram

import (
	"cmp"
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/go-telegram/bot/models"
)

// piece is formatted text of at most one message. Its entities are spans in UTF-16 units, in which Telegram counts. Two entities are disjoint, or one
// is within the other.
type piece struct {
	text     string
	entities []models.MessageEntity
}

func (p piece) equal(q piece) bool { return p.text == q.text && slices.Equal(p.entities, q.entities) }

func plainText(text string) piece { return piece{text: text} }

// writer builds a piece.
type writer struct {
	text     strings.Builder
	units    int // length of text
	entities []models.MessageEntity
}

func (w *writer) write(text string) {
	w.text.WriteString(text)
	w.units += units(text)
}

// mark puts an entity over the text from a unit to the end.
func (w *writer) mark(from int, e models.MessageEntity) {
	if w.units > from {
		e.Offset, e.Length = from, w.units-from
		w.entities = append(w.entities, e)
	}
}

// piece returns the text with its entities, sorted by their beginning, the longer ones first.
func (w *writer) piece() piece {
	slices.SortStableFunc(w.entities, func(a, b models.MessageEntity) int {
		return cmp.Or(a.Offset-b.Offset, b.Length-a.Length)
	})
	return piece{text: w.text.String(), entities: w.entities}
}

var (
	fencePattern   = regexp.MustCompile("^ {0,3}(```+|~~~+)[ \t]*([A-Za-z0-9_+#.-]{0,40})[^`]*$")
	headingPattern = regexp.MustCompile(`^ {0,3}#{1,6}[ \t]+(.*?)[ \t]*#*[ \t]*$`)
	bulletPattern  = regexp.MustCompile(`^([ \t]*)[-*+][ \t]+(.*)$`)
)

// render converts a model's Markdown to text with entities. Signs of incomplete Markdown remain in the text.
func render(markdown string) piece {
	var w writer
	lines := strings.Split(sanitize(markdown), "\n")
	for i := 0; i < len(lines); i++ {
		if i > 0 {
			w.write("\n")
		}
		line := lines[i]
		if m := fencePattern.FindStringSubmatch(line); m != nil {
			end := fenceEnd(lines, i+1, m[1])
			w.block(lines[i+1:min(end, len(lines))], m[2])
			i = end
			continue
		}
		if strings.HasPrefix(line, "|") {
			end := i
			for end < len(lines) && strings.HasPrefix(lines[end], "|") {
				end++
			}
			w.block(lines[i:end], "")
			i = end - 1
			continue
		}
		from := w.units
		if m := headingPattern.FindStringSubmatch(line); m != nil {
			w.inline(m[1], 0)
			w.mark(from, models.MessageEntity{Type: models.MessageEntityTypeBold})
			continue
		}
		if m := bulletPattern.FindStringSubmatch(line); m != nil {
			w.write(m[1] + "• ")
			line = m[2]
		}
		w.inline(line, 0)
	}
	return w.piece()
}

// fenceEnd returns the index of the line that closes a fence, or the number of lines.
func fenceEnd(lines []string, from int, fence string) int {
	for i := from; i < len(lines); i++ {
		line := strings.TrimSpace(lines[i])
		if len(line) >= len(fence) && strings.Trim(line, fence[:1]) == "" {
			return i
		}
	}
	return len(lines)
}

// block writes lines as a code block.
func (w *writer) block(lines []string, language string) {
	from := w.units
	w.write(strings.Join(lines, "\n"))
	w.mark(from, models.MessageEntity{Type: models.MessageEntityTypePre, Language: language})
}

// Bounds of marked text.
const (
	maxSpan    = 1000 // bytes between two signs
	maxNesting = 3
)

// mark is a sign of Markdown that surrounds a text.
type mark struct {
	sign  string
	kinds []models.MessageEntityType
}

// marks returns all marks, the longer ones first.
func marks() []mark {
	const bold, italic, strike = models.MessageEntityTypeBold, models.MessageEntityTypeItalic, models.MessageEntityTypeStrikethrough
	return []mark{
		{"***", []models.MessageEntityType{bold, italic}},
		{"**", []models.MessageEntityType{bold}},
		{"__", []models.MessageEntityType{bold}},
		{"~~", []models.MessageEntityType{strike}},
		{"*", []models.MessageEntityType{italic}},
		{"_", []models.MessageEntityType{italic}},
	}
}

// inline writes one line without its Markdown signs. depth is the number of marks around it.
func (w *writer) inline(line string, depth int) {
	written := 0
	flush := func(end int) { w.write(line[written:end]) } // writes the text before end that was not written yet
	for i := 0; i < len(line); {
		n := 0
		switch line[i] {
		case '\\':
			if i+1 < len(line) && strings.IndexByte("\\`*_{}[]()#+-.!~|>", line[i+1]) >= 0 {
				flush(i)
				written = i + 1
				i++
			}
		case '`':
			n = w.code(line, i, flush)
		case '[':
			n = w.link(line, i, flush)
		case '*', '_', '~':
			if depth < maxNesting {
				n = w.markedText(line, i, depth, flush)
			}
		}
		if n > 0 {
			i += n
			written = i
			continue
		}
		_, size := utf8.DecodeRuneInString(line[i:])
		i += size
	}
	flush(len(line))
}

// code writes the code span that begins at i, after it has called flush(i). It returns the span's length in line, or 0 if no code span begins at i.
func (w *writer) code(line string, i int, flush func(end int)) int {
	sign := line[i : i+runLength(line[i:], "`")]
	inner, ok := textBefore(line[i+len(sign):], sign)
	if !ok || strings.TrimSpace(inner) == "" {
		return 0
	}
	flush(i)
	from := w.units
	w.write(inner)
	w.mark(from, models.MessageEntity{Type: models.MessageEntityTypeCode})
	return len(inner) + 2*len(sign)
}

// link does for a link what [writer.code] does for a code span.
func (w *writer) link(line string, i int, flush func(end int)) int {
	label, ok := textBefore(line[i+1:], "](")
	if !ok || strings.TrimSpace(label) == "" || strings.Contains(label, "[") {
		return 0
	}
	address, ok := textBefore(line[i+len(label)+3:], ")")
	if !ok || strings.ContainsAny(address, " \t<>\"") || (!strings.HasPrefix(address, "https://") && !strings.HasPrefix(address, "http://")) {
		return 0
	}
	flush(i)
	from := w.units
	w.write(label)
	w.mark(from, models.MessageEntity{Type: models.MessageEntityTypeTextLink, URL: address})
	return len(label) + len(address) + 4
}

// markedText does for text between two marks what [writer.code] does for a code span.
func (w *writer) markedText(line string, i, depth int, flush func(end int)) int {
	for _, m := range marks() {
		if !strings.HasPrefix(line[i:], m.sign) || (m.sign[0] == '_' && endsWithLetter(line[:i])) {
			continue
		}
		inner, ok := textBeforeClosing(line[i+len(m.sign):], m.sign)
		if !ok {
			continue
		}
		flush(i)
		from := w.units
		w.inline(inner, depth+1)
		for _, kind := range m.kinds {
			w.mark(from, models.MessageEntity{Type: kind})
		}
		return len(inner) + 2*len(m.sign)
	}
	return 0
}

// textBeforeClosing returns the text before the first sign that can close a mark.
func textBeforeClosing(text, sign string) (string, bool) {
	if r, _ := utf8.DecodeRuneInString(text); text == "" || unicode.IsSpace(r) || text[0] == sign[0] {
		return "", false
	}
	limit := min(len(text), maxSpan)
	for i := 0; ; {
		found := strings.Index(text[i:limit], sign)
		if found < 0 {
			return "", false
		}
		i += found
		if canClose(text[:i], sign, text[i+len(sign):]) {
			return text[:i], true
		}
		i += runLength(text[i:limit], sign[:1])
	}
}

// canClose reports whether a sign between two texts can close a mark. It must follow a visible character. A single sign must not be part of a longer
// one, and underscores must not precede a letter.
func canClose(before, sign, after string) bool {
	last, _ := utf8.DecodeLastRuneInString(before)
	switch {
	case unicode.IsSpace(last) || last == '\\':
		return false
	case len(sign) == 1 && (strings.HasPrefix(after, sign) || strings.HasSuffix(before, sign)):
		return false
	default:
		return sign[0] != '_' || !beginsWithLetter(after)
	}
}

// endsWithLetter reports whether the last character of text is a letter or a digit.
func endsWithLetter(text string) bool {
	r, _ := utf8.DecodeLastRuneInString(text)
	return unicode.IsLetter(r) || unicode.IsDigit(r)
}

// beginsWithLetter reports whether the first character of text is a letter or a digit.
func beginsWithLetter(text string) bool {
	r, _ := utf8.DecodeRuneInString(text)
	return unicode.IsLetter(r) || unicode.IsDigit(r)
}

// textBefore returns the text before the next sign.
func textBefore(text, sign string) (string, bool) {
	before, _, ok := strings.Cut(text[:min(len(text), maxSpan)], sign)
	return before, ok
}

// runLength returns how often sign, which is one byte, repeats at the beginning of text.
func runLength(text, sign string) int { return len(text) - len(strings.TrimLeft(text, sign)) }
