package document

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/ledongthuc/pdf"

	"github.com/turnstone-run/turnstone/agent"
)

// Bounds of one PDF.
const (
	maxPDFTime     = time.Minute
	maxPDFUnpacked = 128 << 20 // bytes of all streams; a stream counts each time it is used
	maxPDFColumns  = 1 << 20   // of a stream with a predictor
	maxPDFDepth    = 50        // of the page tree
	maxPDFNesting  = 100_000   // of arrays and dictionaries, because the library's lexer recurses
)

// parsePDF reads the text of each page. The library finds objects, unpacks streams and decodes fonts. But it panics on unexpected input and trusts the
// file, so that a hostile file could take all time and memory. So this package recovers panics, makes a new cross-reference table (openPDF), and
// reads the page tree and the content itself.
func parsePDF(ctx context.Context, data []byte) (d Document, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, maxPDFTime, agent.FieldErrorf(agent.CodeOverflow, "body", "the PDF takes longer than %s to read", maxPDFTime))
	defer cancel()
	f := &pdfFile{ctx: ctx, unpackBudget: maxPDFUnpacked, textBudget: maxText}
	defer func() {
		if r := recover(); r != nil {
			d, err = Document{}, f.malformed(r)
		}
	}()
	if !bytes.HasPrefix(data, []byte("%PDF-")) {
		return Document{}, agent.Invalid("body", "is no PDF: it does not begin with %%PDF-")
	}
	reader, err := openPDF(f, data)
	if err != nil {
		return Document{}, err
	}
	d.Title = strings.Join(strings.Fields(cleanText(reader.Trailer().Key("Info").Key("Title").Text())), " ")
	if err := f.readPages(reader.Trailer().Key("Root").Key("Pages"), pdf.Value{}, 0); err != nil {
		return Document{}, err
	}
	if f.pages == 0 {
		return Document{}, agent.Invalid("body", "malformed PDF: it has no pages")
	}
	for i, text := range f.texts {
		if text = strings.TrimSpace(text); text != "" {
			d.Sections = appendSection(d.Sections, Section{Page: i + 1, Text: text})
		}
	}
	if len(d.Sections) == 0 {
		return Document{}, agent.Invalid("body", "the PDF has %d pages and no text: a scan needs text recognition first", f.pages)
	}
	return d, nil
}

// pdfFile is a PDF that is being read.
type pdfFile struct {
	ctx          context.Context
	unpackBudget int64    // bytes that streams may still unpack to
	textBudget   int      // bytes of text that may still be read
	nodes        int      // of the page tree, so far
	pages        int      // so far
	texts        []string // by page
	fonts        map[string]*pdfFont
}

// open opens data with the library. Reads fail once the context has ended.
func (f *pdfFile) open(data []byte) (*pdf.Reader, error) {
	r, err := pdf.NewReader(timedReader{f.ctx, bytes.NewReader(data)}, int64(len(data)))
	if err != nil {
		return nil, f.malformed(err)
	}
	return r, nil
}

// malformed returns an error for an error or a panic of the library, or for the end of the context.
func (f *pdfFile) malformed(cause any) error {
	if f.ctx.Err() != nil {
		if timeout, ok := context.Cause(f.ctx).(*agent.Error); ok { //nolint:errorlint // set by parsePDF
			return timeout
		}
		return agent.Interrupted(f.ctx, "read PDF")
	}
	if f.pages > 0 {
		return agent.Invalid("body", "malformed PDF: page %d: %v", f.pages, cause)
	}
	return agent.Invalid("body", "malformed PDF: %v", cause)
}

// readPages reads the pages below a node of the page tree. The tree of a hostile file may be deep, wide or cyclic.
func (f *pdfFile) readPages(node, resources pdf.Value, depth int) error {
	f.nodes++
	if depth > maxPDFDepth || f.nodes > 2*maxPages {
		return agent.FieldErrorf(agent.CodeOverflow, "body", "the PDF has more than %d pages, or a page tree that is no tree", maxPages)
	}
	if local := node.Key("Resources"); !local.IsNull() {
		resources = local
	}
	kids := node.Key("Kids")
	if kids.Kind() != pdf.Array {
		if node.Kind() != pdf.Dict {
			return nil
		}
		f.pages++
		if f.pages > maxPages {
			return agent.FieldErrorf(agent.CodeOverflow, "body", "the PDF has more than %d pages", maxPages)
		}
		text, err := f.readPage(node, resources)
		if err != nil {
			return err
		}
		f.texts = append(f.texts, text)
		return nil
	}
	for i := range kids.Len() {
		if err := f.readPages(kids.Index(i), resources, depth+1); err != nil {
			return err
		}
	}
	return nil
}

// readPage returns the text of one page.
func (f *pdfFile) readPage(node, resources pdf.Value) (string, error) {
	w := newPDFWriter(f)
	if err := w.showContents(node.Key("Contents"), resources, 0); err != nil {
		return "", err
	}
	if f.ctx.Err() != nil {
		return "", f.malformed(f.ctx.Err())
	}
	text := cleanText(w.out.String())
	f.textBudget -= len(text)
	if w.isFull || f.textBudget < 0 {
		return "", agent.FieldErrorf(agent.CodeOverflow, "body", "the PDF holds more than %d MiB of text", maxText>>20)
	}
	return text, nil
}

// unpackStream returns the content of a stream.
func (f *pdfFile) unpackStream(stream pdf.Value) ([]byte, error) {
	params := stream.Key("DecodeParms")
	for i := range max(1, params.Len()) {
		filter := params
		if params.Kind() == pdf.Array {
			filter = params.Index(i)
		}
		if n := filter.Key("Columns").Int64(); n < 0 || n > maxPDFColumns { // the library allocates memory for them
			return nil, f.malformed(fmt.Sprintf("a stream of %d columns", n))
		}
	}
	data, err := io.ReadAll(io.LimitReader(stream.Reader(), f.unpackBudget+1))
	f.unpackBudget -= int64(len(data))
	switch {
	case f.unpackBudget < 0:
		return nil, agent.FieldErrorf(agent.CodeOverflow, "body", "the PDF unpacks to more than %d MiB", maxPDFUnpacked>>20)
	case err != nil && (f.ctx.Err() != nil || len(data) == 0):
		return nil, f.malformed(err)
	default: // the text of a truncated stream is kept
		return data, nil
	}
}

// checkNesting returns an error for brackets that are nested so deep that the library's lexer would overflow the stack.
func (f *pdfFile) checkNesting(data []byte) error {
	depth := 0
	for _, c := range data {
		switch c {
		case '[', '<':
			if depth++; depth > maxPDFNesting {
				return f.malformed(fmt.Sprintf("brackets nested %d deep", depth))
			}
		case ']', '>':
			depth = max(0, depth-1)
		}
	}
	return nil
}

// timedReader is a reader that fails once its context has ended. Some loops of the library end only when a read fails.
type timedReader struct {
	ctx context.Context
	r   io.ReaderAt
}

func (t timedReader) ReadAt(p []byte, off int64) (int, error) {
	if err := t.ctx.Err(); err != nil {
		return 0, err
	}
	return t.r.ReadAt(p, off)
}
