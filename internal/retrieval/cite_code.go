package retrieval

import (
	"strings"

	"github.com/turnstone-run/turnstone/internal/retrieval/document"
)

// codeScanner finds code in a Markdown text: fenced blocks and inline spans, as in CommonMark. Asked with rising positions, it reads the text
// once. Indented blocks count as text: a list's second level is indented as deeply.
type codeScanner struct {
	text string
	pos  int        // of the next line
	code []codeSpan // of what was read last: a fenced block or a paragraph
}

type codeSpan struct{ start, end int }

// isCode reports whether the byte at pos is code.
func (s *codeScanner) isCode(pos int) bool {
	for s.pos <= pos && s.pos < len(s.text) {
		s.advance()
	}
	for len(s.code) > 0 && s.code[0].end <= pos {
		s.code = s.code[1:]
	}
	return len(s.code) > 0 && s.code[0].start <= pos
}

// advance reads a fenced block or a paragraph: the lines up to the next fence or blank line.
func (s *codeScanner) advance() {
	s.code = s.code[:0]
	start := s.pos
	for s.pos < len(s.text) {
		line := s.nextLine()
		if fence := document.OpeningFence(line); fence != "" {
			if s.pos > start {
				break // the paragraph before it comes first
			}
			s.pos += len(line)
			s.readFencedBlock(start, fence)
			return
		}
		s.pos += len(line)
		if strings.TrimSpace(line) == "" {
			break
		}
	}
	s.findInlineCode(start, s.pos)
}

func (s *codeScanner) nextLine() string {
	rest := s.text[s.pos:]
	if i := strings.IndexByte(rest, '\n'); i >= 0 {
		return rest[:i+1]
	}
	return rest
}

// readFencedBlock reads to the closing fence, or to the end of the text.
func (s *codeScanner) readFencedBlock(start int, fence string) {
	for s.pos < len(s.text) {
		line := s.nextLine()
		s.pos += len(line)
		if document.ClosesFence(line, fence) {
			break
		}
	}
	s.code = append(s.code, codeSpan{start, s.pos})
}

// findInlineCode finds the inline code between two bytes: a run of backticks up to the next run of the same length.
func (s *codeScanner) findInlineCode(start, end int) {
	last := map[int]int{} // length of a run → where the last such run begins
	for at := start; at < end; {
		if s.text[at] != '`' {
			at++
			continue
		}
		n := countTicks(s.text[at:end])
		last[n] = at
		at += n
	}
	for at := start; at < end; {
		switch s.text[at] {
		case '\\':
			at += 2
			continue
		case '`':
		default:
			at++
			continue
		}
		n := countTicks(s.text[at:end])
		if last[n] <= at {
			at += n // nothing closes it
			continue
		}
		closing := at + n
		for s.text[closing] != '`' || countTicks(s.text[closing:end]) != n {
			closing += max(1, countTicks(s.text[closing:end]))
		}
		s.code = append(s.code, codeSpan{at, closing + n})
		at = closing + n
	}
}

// countTicks counts the backticks that s begins with.
func countTicks(s string) int { return len(s) - len(strings.TrimLeft(s, "`")) }
