package document

import (
	"iter"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/tmc/langchaingo/textsplitter"

	"github.com/turnstone-run/turnstone/agent"
)

// pieceBytes bounds the text that the splitter gets at once, because it makes a string for each character of a text without spaces.
const pieceBytes = 256 << 10

// Split returns a document as chunks of at most size runes of text. Consecutive chunks of a section share up to overlap runes. Split prefers to cut at
// blank lines, then at line ends, then between words. Only white space is lost. In a text with headings each chunk begins with their path, "Guide >
// Install", and a blank line, which do not count. More than limit chunks are [agent.CodeOverflow]. overlap has to be smaller than size.
func Split(d *Document, size, overlap, limit int) ([]agent.KnowledgeChunk, error) {
	splitter := textsplitter.NewRecursiveCharacter(
		textsplitter.WithChunkSize(size),
		textsplitter.WithChunkOverlap(overlap),
		textsplitter.WithLenFunc(utf8.RuneCountInString),
		// Without this option the splitter exceeds the size by a separator, and loses separators.
		textsplitter.WithKeepSeparator(true),
	)
	pieceSize := max(4*size, pieceBytes*(size-overlap)/size) // smaller with a large overlap, which makes more text of a piece
	var chunks []agent.KnowledgeChunk
	for i := range d.Sections {
		for text, err := range chunkTexts(&d.Sections[i], splitter, pieceSize) {
			if err != nil {
				return nil, err
			}
			if len(chunks) == limit {
				return nil, agent.FieldErrorf(agent.CodeOverflow, "body", "makes more than %d chunks", limit)
			}
			chunks = append(chunks, agent.KnowledgeChunk{Position: len(chunks), Page: d.Sections[i].Page, Text: text})
		}
	}
	return chunks, nil
}

// chunkTexts returns the texts of the chunks of a section, with the path of its headings.
func chunkTexts(s *Section, splitter textsplitter.TextSplitter, pieceSize int) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		path := strings.Join(s.Path, " > ")
		if s.Text == "" && path != "" {
			yield(path, nil)
			return
		}
		if path != "" {
			path += "\n\n"
		}
		for text := s.Text; text != ""; {
			var piece string
			piece, text = cutPiece(text, pieceSize)
			chunks, err := splitter.SplitText(piece)
			if err != nil {
				yield("", agent.Errorf(agent.CodeInternal, "split document", "%w", err))
				return
			}
			for _, chunk := range chunks {
				if chunk = strings.TrimSpace(chunk); chunk != "" && !yield(path+chunk, nil) {
					return
				}
			}
		}
	}
}

// cutPiece cuts a text after at most n bytes. It prefers a blank line, a line end or a space in the second half of these.
func cutPiece(text string, n int) (piece, after string) {
	if len(text) <= n {
		return text, ""
	}
	window := text[:n]
	for _, end := range []int{strings.LastIndex(window, "\n\n"), strings.LastIndexByte(window, '\n'), strings.LastIndexFunc(window, unicode.IsSpace)} {
		if end > n/2 {
			return text[:end], text[end:]
		}
	}
	for n > 0 && !utf8.RuneStart(text[n]) {
		n--
	}
	return text[:n], text[n:]
}
