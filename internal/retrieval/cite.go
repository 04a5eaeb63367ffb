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

// typeCitation is the type of an annotation that cites.
const typeCitation = "citation"

const (
	maxCited       = 500 // runes of cited_text
	maxAnnotations = 500 // of one answer
	maxMarker      = 200 // bytes between the brackets
)

// citationExtras are the fields of an annotation beyond LangChain's.
type citationExtras struct {
	Collection string `json:"collection,omitempty"`
	DocumentID string `json:"document_id"`
	ChunkID    string `json:"chunk_id,omitempty"`
	Page       int    `json:"page,omitempty"`
}

// Cite finds the markers [1], [2][3] and [1, 2] in an answer and returns an annotation for each number that names a passage, in the
// order of the text, at most 500. StartIndex and EndIndex span the marker, brackets included, end exclusive, in characters (Unicode code
// points) of text: LangChain's string indices. URL is set when the passage's source is an http address. A number without a
// passage, a marker in inline code or a code block, an escaped one (\[1]), a footnote ([^1]) and a link ([1](…), [text][1]) are none.
func Cite(text string, passages []agent.Passage) []agent.Annotation {
	if len(passages) == 0 {
		return nil
	}
	var found []agent.Annotation
	made := make([]*agent.Annotation, len(passages))
	at, runes := 0, 0 // a byte of text and its index in runes
	chained := false  // the text up to at ends with a marker
	scan := codeScanner{text: text}
	for len(found) < maxAnnotations {
		open := strings.IndexByte(text[at:], '[')
		if open < 0 {
			break
		}
		open += at
		chained = chained && open == at
		runes += utf8.RuneCountInString(text[at:open])
		at = open
		numbers, end := parseMarker(text, open)
		if end == 0 || scan.isCode(open) || !chained && isReferenceLink(text, open) || isEscaped(text, open) || isLinkOrDefinition(text, open, end) {
			at++
			runes++
			chained = false
			continue
		}
		start, stop := runes, runes+utf8.RuneCountInString(text[open:end])
		for _, n := range numbers {
			if n < 1 || n > len(passages) || len(found) >= maxAnnotations {
				continue
			}
			if made[n-1] == nil {
				made[n-1] = citationAnnotation(&passages[n-1])
			}
			a := *made[n-1]
			first, last := start, stop
			a.StartIndex, a.EndIndex = &first, &last
			found = append(found, a)
		}
		at, runes, chained = end, stop, true
	}
	return found
}

// parseMarker parses "[1]" or "[1, 2]" at open and returns its numbers, each once, and where it ends; 0 when it is none.
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

// parseNumber parses a number as models write it: no sign, no leading zero, at most four digits.
func parseNumber(s string) (int, bool) {
	if s == "" || len(s) > 4 || s[0] < '1' || s[0] > '9' {
		return 0, false
	}
	n, err := strconv.Atoi(s)
	return n, err == nil
}

// isReferenceLink reports the second half of a reference link: [text][1].
func isReferenceLink(text string, open int) bool { return open > 0 && text[open-1] == ']' }

// isLinkOrDefinition reports the first half of a link, [1](…), and a link's definition at the begin of a line, [1]: https://….
func isLinkOrDefinition(text string, open, end int) bool {
	rest := text[end:]
	if strings.HasPrefix(rest, "(") {
		return true
	}
	if !strings.HasPrefix(rest, ": http") {
		return false
	}
	before := strings.TrimRight(text[:open], " ")
	return before == "" || before[len(before)-1] == '\n'
}

func isEscaped(text string, open int) bool {
	n := 0
	for open-n > 0 && text[open-n-1] == '\\' {
		n++
	}
	return n%2 == 1
}

func citationAnnotation(p *agent.Passage) *agent.Annotation {
	a := &agent.Annotation{Type: typeCitation, Title: p.Title, CitedText: firstRunes(strings.TrimSpace(p.Text), maxCited)}
	if isWebAddress(p.Source) {
		a.URL = p.Source
	}
	if a.Title == "" && a.URL == "" {
		a.Title = p.Source
	}
	// Strings and a number: this cannot fail.
	a.Extras, _ = json.Marshal(citationExtras{Collection: p.Collection, DocumentID: p.DocumentID, ChunkID: p.ID, Page: p.Page})
	return a
}

func isWebAddress(source string) bool {
	if strings.ContainsFunc(source, unicode.IsSpace) {
		return false
	}
	u, err := url.Parse(source)
	return err == nil && (u.Scheme == "http" || u.Scheme == "https") && u.Host != ""
}
