package retrieval

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/clip"
)

// maxQuotedRunes bounds what [QuotePassages] renders: about 12,000 tokens of English.
const maxQuotedRunes = 48_000

const (
	maxShownTitle  = 200 // runes
	maxShownSource = 500
	minRest        = 200 // of a passage's text: less is not worth a number
	quoteMark      = "> "
)

// QuotePassages renders passages for a prompt, within 48,000 runes:
//
//	[1] Title — https://example.com/a (page 3)
//	> the first line of the text
//	> the second
//
// No passages: the empty string.
func QuotePassages(passages []agent.Passage) string { return quoteWithin(passages, maxQuotedRunes) }

// quoteWithin is [QuotePassages] with another bound, in runes. The passage that goes beyond it is cut and ends with "…"; those behind it
// are left out.
func quoteWithin(passages []agent.Passage, limit int) string {
	var b strings.Builder
	left := limit
	for i := range passages {
		head := passageHeading(i+1, &passages[i])
		if i > 0 {
			head = "\n" + head
		}
		left -= utf8.RuneCountInString(head)
		if left < 0 {
			break
		}
		body := quoteLines(passages[i].Text)
		n := utf8.RuneCountInString(body)
		if n > left {
			if left >= minRest {
				b.WriteString(head)
				b.WriteString(firstRunes(body, left-2) + "…\n")
			}
			break
		}
		left -= n
		b.WriteString(head)
		b.WriteString(body)
	}
	return b.String()
}

func passageHeading(number int, p *agent.Passage) string {
	head := fmt.Sprintf("[%d] ", number)
	title, source := singleLine(p.Title, maxShownTitle), singleLine(p.Source, maxShownSource)
	switch {
	case title == "" && source == "":
		head += singleLine(p.DocumentID, maxShownTitle)
	case title == "" || title == source:
		head += source
	case source == "":
		head += title
	default:
		head += title + " — " + source
	}
	if p.Page > 0 {
		head += fmt.Sprintf(" (page %d)", p.Page)
	}
	return head + "\n"
}

// quoteLines puts the quotation mark before every line, whatever breaks it: models read U+2028 as a new line too.
func quoteLines(text string) string {
	var b strings.Builder
	start := true
	for _, r := range strings.TrimRightFunc(strings.ReplaceAll(text, "\r\n", "\n"), unicode.IsSpace) {
		if isLineBreak(r) {
			if start {
				b.WriteString(strings.TrimSpace(quoteMark))
			}
			b.WriteByte('\n')
			start = true
			continue
		}
		if isHidden(r) {
			continue
		}
		if start {
			b.WriteString(quoteMark)
			start = false
		}
		b.WriteRune(r)
	}
	if start {
		b.WriteString(strings.TrimSpace(quoteMark))
	}
	b.WriteByte('\n')
	return b.String()
}

// singleLine returns s on one line: runs of white space become one space.
func singleLine(s string, limit int) string {
	s = strings.Map(func(r rune) rune {
		switch {
		case isLineBreak(r) || unicode.IsSpace(r):
			return ' '
		case isHidden(r):
			return -1
		default:
			return r
		}
	}, s)
	return clip.Runes(strings.Join(strings.Fields(s), " "), limit)
}

func isLineBreak(r rune) bool {
	switch r {
	case '\n', '\r', '\v', '\f', '\u0085', '\u2028', '\u2029':
		return true
	default:
		return false
	}
}

// isHidden reports runes that a person does not see and a model does: control characters, and the format characters (text direction,
// tags) that smuggle text past a reader. The two joiners are part of words and emoji.
func isHidden(r rune) bool {
	if r == '\t' || r == '\u200c' || r == '\u200d' {
		return false
	}
	return unicode.Is(unicode.Cc, r) || unicode.Is(unicode.Cf, r)
}

// firstRunes returns the first n runes.
func firstRunes(s string, n int) string {
	for i := range s {
		if n <= 0 {
			return s[:i]
		}
		n--
	}
	return s
}
