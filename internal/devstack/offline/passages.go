package offline

import (
	"regexp"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// The bounds of what is read of a prompt's passages.
const (
	maxContext   = 256 << 10 // bytes
	maxSentences = 5_000
	maxSentence  = 400 // runes
)

// passage is a numbered quotation of a prompt.
type passage struct {
	number int
	title  string
	text   string
}

var (
	numberedHead  = regexp.MustCompile(`(?m)^\[1\] .*\n>`)
	markers       = regexp.MustCompile(`\s*\[\^?\d{1,4}(?:\s*,\s*\d{1,4})*\]`)
	markdownLink  = regexp.MustCompile(`!?\[([^\]\n]*)\]\([^()\s]*\)`)
	bullet        = regexp.MustCompile(`^\s*(?:[-*+]|\d{1,3}[.)])\s+`)
	headingLine   = regexp.MustCompile(`^\s{0,3}#{1,6}\s+`)
	tableRule     = regexp.MustCompile(`^[\s|:-]+$`)
	fenceLine     = regexp.MustCompile("^\\s*(```+|~~~+)(.*)$")
	sentenceBreak = regexp.MustCompile(`[.!?…]["')\]]*\s+`)
)

// readPassages reads the numbered passages of a prompt: a heading "[1] Title — source" and the text behind "> ", line by line.
func readPassages(system string) []passage {
	at := numberedHead.FindStringIndex(system)
	if at == nil {
		return nil
	}
	var out []passage
	for line := range strings.Lines(clipBytes(system[at[0]:], maxContext)) {
		line = strings.TrimRight(line, "\r\n")
		head := "[" + strconv.Itoa(len(out)+1) + "] "
		switch {
		case strings.HasPrefix(line, head):
			out = append(out, passage{number: len(out) + 1, title: line[len(head):]})
		case strings.HasPrefix(line, ">"):
			p := &out[len(out)-1]
			p.text += strings.TrimPrefix(strings.TrimPrefix(line, ">"), " ") + "\n"
		case line != "":
			return out
		}
	}
	return out
}

// sentence is one of a passage, with what stands above it.
type sentence struct {
	number int // of the passage
	text   string
	above  string // title and headings
}

// block is code of a passage, fences included.
type block struct {
	number int
	text   string
	above  string
}

// reader cuts the Markdown of a passage into sentences and code.
type reader struct {
	p         *passage
	heading   string
	paragraph []string
	sentences []sentence
	code      []block
}

func (p *passage) read() ([]sentence, []block) {
	r := &reader{p: p}
	fence, code := "", ""
	for line := range strings.Lines(p.text) {
		line = strings.TrimRight(line, "\n")
		mark := fenceLine.FindStringSubmatch(line)
		switch {
		case fence != "":
			code += line + "\n"
			if mark != nil && strings.HasPrefix(mark[1], fence) && strings.TrimSpace(mark[2]) == "" {
				r.code = append(r.code, block{number: p.number, text: code, above: p.title + " " + r.heading})
				fence = ""
			}
		case mark != nil:
			r.flush()
			fence, code = mark[1], strings.TrimSpace(line)+"\n"
		case strings.TrimSpace(line) == "" || tableRule.MatchString(line):
			r.flush()
		case headingLine.MatchString(line):
			r.flush()
			r.heading = headingLine.ReplaceAllString(line, "")
		case strings.HasPrefix(strings.TrimSpace(line), "|"):
			r.flush()
			r.add(strings.ReplaceAll(strings.Trim(strings.TrimSpace(line), "|"), " |", ","))
		case bullet.MatchString(line):
			r.flush()
			r.paragraph = append(r.paragraph, bullet.ReplaceAllString(line, ""))
		default:
			r.paragraph = append(r.paragraph, line)
		}
	}
	r.flush() // code that no fence ends was cut off, and is left out
	return r.sentences, r.code
}

// flush cuts the paragraph. A sentence ends where white space follows its mark and then no small letter: "e.g. this" goes on.
func (r *reader) flush() {
	text := strings.Join(r.paragraph, " ")
	r.paragraph = nil
	start := 0
	for _, at := range sentenceBreak.FindAllStringIndex(text, -1) {
		if next, _ := utf8.DecodeRuneInString(text[at[1]:]); !unicode.IsLower(next) {
			r.add(text[start:at[1]])
			start = at[1]
		}
	}
	r.add(text[start:])
}

// add keeps a sentence without what would not stand in prose: markers of its own, links, half of a code span.
func (r *reader) add(text string) {
	text = markdownLink.ReplaceAllString(text, "$1")
	text = markers.ReplaceAllString(text, "")
	if strings.Count(text, "`")%2 == 1 {
		text = strings.ReplaceAll(text, "`", "")
	}
	text = strings.Trim(strings.Join(strings.Fields(text), " "), " ,\\")
	if utf8.RuneCountInString(text) > maxSentence {
		text = strings.ReplaceAll(clipRunes(text, maxSentence), "`", "")
	}
	if !strings.ContainsFunc(text, unicode.IsLetter) {
		return
	}
	r.sentences = append(r.sentences, sentence{number: r.p.number, text: text, above: r.p.title + " " + r.heading})
}
