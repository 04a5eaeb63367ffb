package retrieval

import (
	"encoding/json"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/turnstone-run/turnstone/agent"
)

// typeCitation is the type of annotations.
const typeCitation = "citation"

const (
	maxCited       = 500 // runes of cited_text
	maxAnnotations = 500 // of one answer
	maxMarker      = 200 // bytes after the opening bracket
)

// citationExtras are the fields of an annotation that LangChain does not have.
type citationExtras struct {
	Collection string `json:"collection,omitempty"`
	DocumentID string `json:"document_id"`
	ChunkID    string `json:"chunk_id,omitempty"`
	Page       int    `json:"page,omitempty"`
}

// Cite finds markers such as [1], [2][3] and [1, 2] in an answer. It returns an annotation for each number of a passage, in the order of the text, at most
// 500. StartIndex and EndIndex are the position of the marker with its brackets, in Unicode code points like the string indices of LangChain. URL is
// set if the source of the passage is an http address. Cite ignores numbers without a passage, markers in code, escaped markers (\[1]), footnotes
// ([^1]) and links ([1](…), [text][1]).
func Cite(text string, passages []agent.Passage) []agent.Annotation {
	if len(passages) == 0 {
		return nil
	}
	var annotations []agent.Annotation
	byPassage := make([]*agent.Annotation, len(passages))
	scanner := markerScanner{text: text, code: codeScanner{text: text}}
	for len(annotations) < maxAnnotations {
		numbers, start, end, ok := scanner.next()
		if !ok {
			break
		}
		for _, n := range numbers {
			if n > len(passages) || len(annotations) >= maxAnnotations {
				continue
			}
			if byPassage[n-1] == nil {
				byPassage[n-1] = citationAnnotation(&passages[n-1])
			}
			a := *byPassage[n-1]
			a.StartIndex, a.EndIndex = new(start), new(end)
			annotations = append(annotations, a)
		}
	}
	return annotations
}

// markerScanner finds the markers of a text.
type markerScanner struct {
	text        string
	code        codeScanner
	pos, runes  int  // where the scanner is, in bytes and in runes
	afterMarker bool // the text before pos ends with a marker
}

// next returns the numbers of the next marker, and where it starts and ends in runes.
func (s *markerScanner) next() (numbers []int, start, end int, ok bool) {
	for {
		skipped := strings.IndexByte(s.text[s.pos:], '[')
		if skipped < 0 {
			return nil, 0, 0, false
		}
		s.afterMarker = s.afterMarker && skipped == 0
		s.runes += utf8.RuneCountInString(s.text[s.pos : s.pos+skipped])
		s.pos += skipped
		numbers, stop := parseMarker(s.text, s.pos)
		if stop > 0 && s.isMarker(stop) {
			start, end = s.runes, s.runes+utf8.RuneCountInString(s.text[s.pos:stop])
			s.pos, s.runes, s.afterMarker = stop, end, true
			return numbers, start, end, true
		}
		s.pos++
		s.runes++
		s.afterMarker = false
	}
}

// isMarker reports whether the brackets from pos to stop are a marker, and not code, escaped or part of a link.
func (s *markerScanner) isMarker(stop int) bool {
	isReferenceLink := !s.afterMarker && s.pos > 0 && s.text[s.pos-1] == ']' // the [1] in [text][1]
	return !s.code.isCode(s.pos) && !isReferenceLink && !isEscaped(s.text, s.pos) && !isLinkOrDefinition(s.text, s.pos, stop)
}

// parseMarker parses "[1]" or "[1, 2]" at open. It returns the numbers without repetitions and the end, which is 0 if there is no marker.
func parseMarker(text string, open int) (numbers []int, end int) {
	body := text[open+1 : min(len(text), open+1+maxMarker)]
	stop := strings.IndexByte(body, ']')
	if stop < 0 {
		return nil, 0
	}
	for part := range strings.SplitSeq(body[:stop], ",") {
		n, ok := parseNumber(strings.Trim(part, " \t"))
		if !ok {
			return nil, 0
		}
		if !slices.Contains(numbers, n) {
			numbers = append(numbers, n)
		}
	}
	return numbers, open + 1 + stop + 1
}

// parseNumber parses a number without a sign or a leading zero, of at most four digits.
func parseNumber(s string) (int, bool) {
	if s == "" || len(s) > 4 || s[0] < '1' || s[0] > '9' {
		return 0, false
	}
	n, err := strconv.Atoi(s)
	return n, err == nil
}

// isLinkOrDefinition reports whether brackets belong to a link, [1](…), or to the definition of a link at the start of a line, [1]: https://….
func isLinkOrDefinition(text string, open, end int) bool {
	after := text[end:]
	if strings.HasPrefix(after, "(") {
		return true
	}
	if !strings.HasPrefix(after, ": http") {
		return false
	}
	before := strings.TrimRight(text[:open], " ")
	return before == "" || before[len(before)-1] == '\n'
}

// isEscaped reports whether an odd number of backslashes is before a position.
func isEscaped(text string, pos int) bool {
	before := text[:pos]
	return (len(before)-len(strings.TrimRight(before, `\`)))%2 == 1
}

func citationAnnotation(p *agent.Passage) *agent.Annotation {
	a := &agent.Annotation{Type: typeCitation, Title: p.Title, CitedText: firstRunes(strings.TrimSpace(p.Text), maxCited)}
	if isWebAddress(p.Source) {
		a.URL = p.Source
	}
	if a.Title == "" && a.URL == "" {
		a.Title = p.Source
	}
	a.Extras, _ = json.Marshal(citationExtras{Collection: p.Collection, DocumentID: p.DocumentID, ChunkID: p.ID, Page: p.Page}) // cannot fail
	return a
}

func isWebAddress(source string) bool {
	if strings.ContainsFunc(source, unicode.IsSpace) {
		return false
	}
	u, err := url.Parse(source)
	return err == nil && (u.Scheme == "http" || u.Scheme == "https") && u.Host != ""
}
