// Package document reads the formats that a knowledge collection takes in — plain text, Markdown, HTML, PDF and JSONL — and splits them
// into chunks.
//
//	file → Parse → documents, each a list of sections → Split → chunks
//
// A section is what a chunk never crosses: a page of a PDF, the text below one heading of Markdown (to which HTML is converted first).
// Files come from strangers, so everything is bounded: a hostile file (a PDF's cyclic page tree, a stream that unpacks to gigabytes) ends in
// an error that says so.
package document

import "encoding/json"

// Bounds of one file.
const (
	MaxBytes     = 32 << 20
	MaxDocuments = 20_000   // lines of a JSONL file
	MaxLine      = 4 << 20  // bytes of one of them
	maxText      = 64 << 20 // bytes of text that a file may unpack to
	maxPages     = 10_000   // of a PDF
)

// File is a file as it came.
type File struct {
	MIMEType string // as its sender says, parameters allowed; empty: not known
	Name     string // for its extension, and for errors; may be empty
	Data     []byte
}

// Document is one document of a file. Fields that the file does not give are empty.
type Document struct {
	Line     int             // JSONL: the line, from 1; else 0
	ID       string          // JSONL
	Title    string          // JSONL, Markdown, HTML, PDF
	Source   string          // JSONL: url or source
	MIMEType string          // of the format: one of the MIME constants
	Metadata json.RawMessage // JSONL: the line's other fields, an object; else nil
	Sections []Section       // none is blank
}

// Section is a part of a document that no chunk crosses.
type Section struct {
	Page int      // from 1; 0: the format has no pages
	Path []string // the headings above the text, outermost first
	Text string   // valid UTF-8 without NUL; empty for a heading with nothing below it
}
