package document

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/tmc/langchaingo/textsplitter"

	"github.com/turnstone-run/turnstone/agent"
)

// pieceBytes is how much is given to the splitter at once: it keeps a string per character of a text without spaces. The more neighbours
// share, the larger is what comes back.
const pieceBytes = 256 << 10

// Split cuts a document into chunks of at most size characters (runes) of text, neighbours of a section sharing up to overlap of them.
// It cuts at blank lines where it can, else at line ends, else between words, else anywhere. Nothing but white space is lost. Each
// chunk of a text with headings begins with their path, "Guide > Install", and a blank line, beyond size. More than limit chunks are
// [agent.CodeOverflow]. Size is positive, overlap smaller and not negative.
func Split(d *Document, size, overlap, limit int) ([]agent.KnowledgeChunk, error) {
	splitter := textsplitter.NewRecursiveCharacter(
		textsplitter.WithChunkSize(size),
		textsplitter.WithChunkOverlap(overlap),
		textsplitter.WithLenFunc(utf8.RuneCountInString),
		// Without it the splitter exceeds the size by a separator, and drops those that it recurses through.
		textsplitter.WithKeepSeparator(true),
	)
	var chunks []agent.KnowledgeChunk
	add := func(s *Section, text string) error {
		if len(chunks) == limit {
			return agent.FieldErrorf(agent.CodeOverflow, "body", "makes more than %d chunks", limit)
		}
		chunks = append(chunks, agent.KnowledgeChunk{Position: len(chunks), Page: s.Page, Text: text})
		return nil
	}
	for i := range d.Sections {
		s := &d.Sections[i]
		path := strings.Join(s.Path, " > ")
		if s.Text == "" && path != "" {
			if err := add(s, path); err != nil {
				return nil, err
			}
			continue
		}
		if path != "" {
			path += "\n\n"
		}
		for rest := s.Text; rest != ""; {
			var piece string
			piece, rest = cutPiece(rest, max(4*size, pieceBytes*(size-overlap)/size))
			texts, err := splitter.SplitText(piece)
			if err != nil {
				return nil, agent.Errorf(agent.CodeInternal, "split document", "%w", err)
			}
			for _, text := range texts {
				if text = strings.TrimSpace(text); text == "" {
					continue
				}
				if err := add(s, path+text); err != nil {
					return nil, err
				}
			}
		}
	}
	return chunks, nil
}

// cutPiece takes at most n bytes off a text, if possible up to a blank line, a line end or a space in the second half.
func cutPiece(text string, n int) (piece, rest string) {
	if len(text) <= n {
		return text, ""
	}
	window := text[:n]
	for _, at := range []int{strings.LastIndex(window, "\n\n"), strings.LastIndexByte(window, '\n'), strings.LastIndexFunc(window, unicode.IsSpace)} {
		if at > n/2 {
			return text[:at], text[at:]
		}
	}
	for n > 0 && !utf8.RuneStart(text[n]) {
		n--
	}
	return text[:n], text[n:]
}
