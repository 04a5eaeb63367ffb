package telegram

import (
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/go-telegram/bot/models"
)

// piece is formatted text. Its entities are spans in UTF-16 units, as Telegram counts, and do not overlap in part.
type piece struct {
	text     string
	entities []models.MessageEntity
}

func (p piece) equal(q piece) bool { return p.text == q.text && slices.Equal(p.entities, q.entities) }

func plainText(text string) piece { return piece{text: text} }

// writer builds a piece.
type writer struct {
	text     strings.Builder
	at       int // units written
	entities []models.MessageEntity
}

func (w *writer) write(text string) {
	w.text.WriteString(text)
	w.at += units(text)
}

// mark puts an entity over what was written since from.
func (w *writer) mark(from int, e models.MessageEntity) {
	if w.at > from {
		e.Offset, e.Length = from, w.at-from
		w.entities = append(w.entities, e)
	}
}

func (w *writer) piece() piece {
	slices.SortStableFunc(w.entities, func(a, b models.MessageEntity) int {
		if a.Offset != b.Offset {
			return a.Offset - b.Offset
		}
		return b.Length - a.Length
	})
	return piece{text: w.text.String(), entities: w.entities}
}

var (
	fencePattern   = regexp.MustCompile("^ {0,3}(```+|~~~+)[ \t]*([A-Za-z0-9_+#.-]{0,40})[^`]*$")
	headingPattern = regexp.MustCompile(`^ {0,3}#{1,6}[ \t]+(.*?)[ \t]*#*[ \t]*$`)
	bulletPattern  = regexp.MustCompile(`^([ \t]*)[-*+][ \t]+(.*)$`)
)

// render converts Markdown, which models write, to text with entities. Incomplete Markdown stays as it is.
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
		from := w.at
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

func (w *writer) block(lines []string, language string) {
	from := w.at
	w.write(strings.Join(lines, "\n"))
	w.mark(from, models.MessageEntity{Type: models.MessageEntityTypePre, Language: language})
}

// Bounds of the search for the end of a mark.
const (
	maxSpan    = 1000 // bytes
	maxNesting = 3
)

// bothKinds stands for bold and italic.
const bothKinds models.MessageEntityType = "bold italic"

// marks returns the marks of Markdown that surround a text, the longer ones first.
func marks() []struct {
	sign string
	kind models.MessageEntityType
} {
	return []struct {
		sign string
		kind models.MessageEntityType
	}{
		{"***", bothKinds},
		{"**", models.MessageEntityTypeBold},
		{"__", models.MessageEntityTypeBold},
		{"~~", models.MessageEntityTypeStrikethrough},
		{"*", models.MessageEntityTypeItalic},
		{"_", models.MessageEntityTypeItalic},
	}
}

// inline writes one line.
func (w *writer) inline(line string, depth int) {
	written := 0
	flush := func(to int) { w.write(line[written:to]) }
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

// code writes the code span that begins at i, and returns its length in line; 0 if there is none. So do link and markedText.
func (w *writer) code(line string, i int, flush func(int)) int {
	sign := line[i : i+runLength(line[i:], '`')]
	inner, ok := textBefore(line[i+len(sign):], sign)
	if !ok || strings.TrimSpace(inner) == "" {
		return 0
	}
	flush(i)
	from := w.at
	w.write(inner)
	w.mark(from, models.MessageEntity{Type: models.MessageEntityTypeCode})
	return len(inner) + 2*len(sign)
}

func (w *writer) link(line string, i int, flush func(int)) int {
	label, ok := textBefore(line[i+1:], "](")
	if !ok || strings.TrimSpace(label) == "" || strings.Contains(label, "[") {
		return 0
	}
	address, ok := textBefore(line[i+len(label)+3:], ")")
	if !ok || strings.ContainsAny(address, " \t<>\"") || (!strings.HasPrefix(address, "https://") && !strings.HasPrefix(address, "http://")) {
		return 0
	}
	flush(i)
	from := w.at
	w.write(label)
	w.mark(from, models.MessageEntity{Type: models.MessageEntityTypeTextLink, URL: address})
	return len(label) + len(address) + 4
}

func (w *writer) markedText(line string, i, depth int, flush func(int)) int {
	for _, m := range marks() {
		if !strings.HasPrefix(line[i:], m.sign) || (m.sign[0] == '_' && wordBefore(line, i)) {
			continue
		}
		inner, ok := textBeforeClosing(line[i+len(m.sign):], m.sign)
		if !ok {
			continue
		}
		flush(i)
		from := w.at
		w.inline(inner, depth+1)
		for kind := range strings.FieldsSeq(string(m.kind)) {
			w.mark(from, models.MessageEntity{Type: models.MessageEntityType(kind)})
		}
		return len(inner) + 2*len(m.sign)
	}
	return 0
}

// textBeforeClosing returns the text before the closing sign, which must follow a visible character. Underscores must not precede a word.
func textBeforeClosing(rest, sign string) (string, bool) {
	if r, _ := utf8.DecodeRuneInString(rest); rest == "" || unicode.IsSpace(r) || rest[0] == sign[0] {
		return "", false
	}
	within := rest[:min(len(rest), maxSpan)]
	for at := 0; ; {
		found := strings.Index(within[at:], sign)
		if found < 0 {
			return "", false
		}
		at += found
		end := at + len(sign)
		before, _ := utf8.DecodeLastRuneInString(within[:at])
		single := len(sign) > 1 || (runLength(within[at:], sign[0]) == 1 && !strings.HasSuffix(within[:at], sign))
		if single && !unicode.IsSpace(before) && before != '\\' && (sign[0] != '_' || !wordAfter(rest, end)) {
			return within[:at], true
		}
		at += max(1, runLength(within[at:], sign[0]))
	}
}

func wordBefore(line string, i int) bool {
	r, _ := utf8.DecodeLastRuneInString(line[:i])
	return i > 0 && (unicode.IsLetter(r) || unicode.IsDigit(r))
}

func wordAfter(line string, i int) bool {
	r, _ := utf8.DecodeRuneInString(line[i:])
	return i < len(line) && (unicode.IsLetter(r) || unicode.IsDigit(r))
}

func textBefore(rest, sign string) (string, bool) {
	before, _, ok := strings.Cut(rest[:min(len(rest), maxSpan)], sign)
	return before, ok
}

func runLength(s string, c byte) int {
	n := 0
	for n < len(s) && s[n] == c {
		n++
	}
	return n
}
