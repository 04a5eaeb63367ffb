// Package document reads plain text, Markdown, HTML, PDF and JSONL for knowledge collections, and splits it into chunks.
//
//	file → Parse → documents, each a list of sections → Split → chunks
//
// A section is a page of a PDF, or the text below one heading of Markdown. HTML is converted to Markdown first. No chunk crosses a section.
//
// Files come from strangers, so time, memory and text are bounded. A hostile file, such as a PDF with a cyclic page tree or a stream that unpacks to
// gigabytes, is an error.
package document

import "encoding/json"

// Bounds of one file.
const (
	MaxBytes     = 32 << 20
	MaxDocuments = 20_000   // lines of a JSONL file
	MaxLine      = 4 << 20  // bytes of such a line
	maxText      = 64 << 20 // bytes of text in an unpacked file
	maxPages     = 10_000   // of a PDF
)

// File is a file to read.
type File struct {
	MIMEType string // from the sender, may have parameters; empty: unknown
	Name     string // for its extension, and for errors; may be empty
	Data     []byte
}

// Document is one document of a file. Fields that are not in the file are empty.
type Document struct {
	Line     int             // JSONL: the line, from 1; else 0
	ID       string          // JSONL
	Title    string          // JSONL, Markdown, HTML, PDF
	Source   string          // JSONL: url or source
	MIMEType string          // of the format: one of the MIME constants
	Metadata json.RawMessage // JSONL: the line's other fields, an object; else nil
	Sections []Section       // without blank ones
}

// Section is a part of a document that no chunk crosses.
type Section struct {
	Page int      // from 1; 0: the format has no pages
	Path []string // the headings above the text, outermost first
	Text string   // valid UTF-8 without NUL; empty for a heading without text
}
