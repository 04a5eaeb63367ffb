package retrieval

import (
	"strings"

	"github.com/turnstone-run/turnstone/internal/retrieval/document"
)

// codeScanner finds code in a Markdown text: fenced blocks and inline code, as in CommonMark. It reads the text once, so positions have to be asked in
// ascending order. Indented blocks are text, because the second level of a list is indented as much.
type codeScanner struct {
	text string
	pos  int        // of the next line
	code []codeSpan // in the fenced block or paragraph that was read last
}

type codeSpan struct{ start, end int }

// isCode reports whether the byte at pos is code.
func (s *codeScanner) isCode(pos int) bool {
	for s.pos <= pos && s.pos < len(s.text) {
		s.readBlock()
	}
	for len(s.code) > 0 && s.code[0].end <= pos {
		s.code = s.code[1:]
	}
	return len(s.code) > 0 && s.code[0].start <= pos
}

// readBlock reads a fenced block or a paragraph: the lines up to the next fence or blank line.
func (s *codeScanner) readBlock() {
	s.code = s.code[:0]
	start := s.pos
	for s.pos < len(s.text) {
		line := s.nextLine()
		if fence := document.OpeningFence(line); fence != "" {
			if s.pos > start {
				break // read the paragraph before it first
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

// nextLine returns the line at pos with its line end.
func (s *codeScanner) nextLine() string {
	text := s.text[s.pos:]
	if i := strings.IndexByte(text, '\n'); i >= 0 {
		return text[:i+1]
	}
	return text
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

// findInlineCode finds the inline code between two positions: from a run of backticks to the next run of the same length.
func (s *codeScanner) findInlineCode(start, end int) {
	last := map[int]int{} // by the length of a run: where the last one begins
	for pos := start; pos < end; {
		if s.text[pos] != '`' {
			pos++
			continue
		}
		n := countTicks(s.text[pos:end])
		last[n] = pos
		pos += n
	}
	for pos := start; pos < end; {
		switch s.text[pos] {
		case '\\':
			pos += 2
			continue
		case '`':
		default:
			pos++
			continue
		}
		n := countTicks(s.text[pos:end])
		if last[n] <= pos {
			pos += n // it is not closed
			continue
		}
		closing := pos + n
		for s.text[closing] != '`' || countTicks(s.text[closing:end]) != n {
			closing += max(1, countTicks(s.text[closing:end]))
		}
		s.code = append(s.code, codeSpan{pos, closing + n})
		pos = closing + n
	}
}

// countTicks counts the backticks that s begins with.
func countTicks(s string) int { return len(s) - len(strings.TrimLeft(s, "`")) }
