package retrieval

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/clip"
)

// maxQuotedRunes bounds the result of [QuotePassages] to about 12,000 tokens of English.
const maxQuotedRunes = 48_000

const (
	maxShownTitle  = 200 // runes
	maxShownSource = 500 // runes
	minQuotedRunes = 200 // of a passage that is cut; if less fits, the passage is left out
	quoteMark      = "> "
)

// QuotePassages renders passages for a prompt, within 48,000 runes:
//
//	[1] Title — https://example.com/a (page 3)
//	> the first line of the text
//	> the second
//
// The result is empty if there are no passages.
func QuotePassages(passages []agent.Passage) string { return quoteWithin(passages, maxQuotedRunes) }

// quoteWithin is [QuotePassages] with a bound in runes. The passage that exceeds it is cut and ends with "…". The passages after it are left out.
func quoteWithin(passages []agent.Passage, limit int) string {
	var b strings.Builder
	room := limit
	for i := range passages {
		head := passageHeading(i+1, &passages[i])
		if i > 0 {
			head = "\n" + head
		}
		room -= utf8.RuneCountInString(head)
		if room < 0 {
			break
		}
		body := quoteLines(passages[i].Text)
		n := utf8.RuneCountInString(body)
		if n > room {
			if room >= minQuotedRunes {
				b.WriteString(head)
				b.WriteString(firstRunes(body, room-2) + "…\n")
			}
			break
		}
		room -= n
		b.WriteString(head)
		b.WriteString(body)
	}
	return b.String()
}

// passageHeading returns the line above the text of a passage.
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

// quoteLines returns a text with the quotation mark before every line. All line breaks of Unicode count, because models read them as such.
func quoteLines(text string) string {
	var b strings.Builder
	atLineStart := true
	for _, r := range strings.TrimRightFunc(strings.ReplaceAll(text, "\r\n", "\n"), unicode.IsSpace) {
		if isLineBreak(r) {
			if atLineStart {
				b.WriteString(strings.TrimSpace(quoteMark))
			}
			b.WriteByte('\n')
			atLineStart = true
			continue
		}
		if isHidden(r) {
			continue
		}
		if atLineStart {
			b.WriteString(quoteMark)
			atLineStart = false
		}
		b.WriteRune(r)
	}
	if atLineStart {
		b.WriteString(strings.TrimSpace(quoteMark))
	}
	b.WriteByte('\n')
	return b.String()
}

// singleLine returns s on one line, cut to limit runes. Each run of white space becomes a space.
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

// isHidden reports whether a model sees a rune that a person does not see: a control character, or a format character, such as a tag or a text direction.
// The two joiners do not count, because words and emoji need them.
func isHidden(r rune) bool {
	if r == '\t' || r == '\u200c' || r == '\u200d' {
		return false
	}
	return unicode.Is(unicode.Cc, r) || unicode.Is(unicode.Cf, r)
}

// firstRunes returns the first n runes of s.
func firstRunes(s string, n int) string {
	for i := range s {
		if n <= 0 {
			return s[:i]
		}
		n--
	}
	return s
}
