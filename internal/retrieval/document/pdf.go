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

// Bounds of the work that one PDF makes.
const (
	pdfTime     = time.Minute
	pdfUnpacked = 128 << 20 // bytes of streams of text, each time that one is used
	pdfColumns  = 1 << 20   // of a stream with a predictor
	pdfDepth    = 50        // of the page tree
	pdfNesting  = 100_000   // of arrays and dictionaries: the library's lexer recurses
)

// parsePDF reads the text of each page. The library finds objects, unpacks streams and knows encodings. It also panics on unexpected input
// and trusts the file, so this package recovers its panics, replaces the file's cross-reference table ([openPDF]), and reads the page tree
// and the content itself. The interpreter earns its place by that: hostile files stay bounded in time and memory, which the library alone
// does not ensure.
func parsePDF(ctx context.Context, data []byte) (d Document, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, pdfTime, agent.FieldErrorf(agent.CodeOverflow, "body", "the PDF takes longer than %s to read", pdfTime))
	defer cancel()
	f := &pdfFile{ctx: ctx, unpack: pdfUnpacked, text: maxText}
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
	ctx    context.Context
	unpack int64 // bytes that streams may still unpack to
	text   int   // bytes of text that may still come
	nodes  int   // of the page tree
	pages  int
	texts  []string // by page
	fonts  map[string]*pdfFont
}

// open opens data with the library, whose reads fail once the time is over.
func (f *pdfFile) open(data []byte) (*pdf.Reader, error) {
	r, err := pdf.NewReader(timedReader{f.ctx, bytes.NewReader(data)}, int64(len(data)))
	if err != nil {
		return nil, f.malformed(err)
	}
	return r, nil
}

// malformed returns the error for an error of the library or a panic.
func (f *pdfFile) malformed(cause any) error {
	if f.ctx.Err() != nil {
		if late, ok := context.Cause(f.ctx).(*agent.Error); ok { //nolint:errorlint // our own cause, as it was given
			return late
		}
		return agent.Interrupted(f.ctx, "read PDF")
	}
	if f.pages > 0 {
		return agent.Invalid("body", "malformed PDF: page %d: %v", f.pages, cause)
	}
	return agent.Invalid("body", "malformed PDF: %v", cause)
}

// readPages reads a node of the page tree, which a hostile file may make deep, wide or cyclic.
func (f *pdfFile) readPages(node, resources pdf.Value, depth int) error {
	f.nodes++
	if depth > pdfDepth || f.nodes > 2*maxPages {
		return agent.FieldErrorf(agent.CodeOverflow, "body", "the PDF has more than %d pages, or a page tree that is no tree", maxPages)
	}
	if own := node.Key("Resources"); !own.IsNull() {
		resources = own
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
	f.text -= len(text)
	if w.full || f.text < 0 {
		return "", agent.FieldErrorf(agent.CodeOverflow, "body", "the PDF holds more than %d MiB of text", maxText>>20)
	}
	return text, nil
}

// unpackStream returns the content of a stream.
func (f *pdfFile) unpackStream(stream pdf.Value) ([]byte, error) {
	params := stream.Key("DecodeParms")
	for i := range max(1, params.Len()) {
		one := params
		if params.Kind() == pdf.Array {
			one = params.Index(i)
		}
		if n := one.Key("Columns").Int64(); n < 0 || n > pdfColumns { // the library allocates them
			return nil, f.malformed(fmt.Sprintf("a stream of %d columns", n))
		}
	}
	data, err := io.ReadAll(io.LimitReader(stream.Reader(), f.unpack+1))
	f.unpack -= int64(len(data))
	switch {
	case f.unpack < 0:
		return nil, agent.FieldErrorf(agent.CodeOverflow, "body", "the PDF unpacks to more than %d MiB", pdfUnpacked>>20)
	case err != nil && (f.ctx.Err() != nil || len(data) == 0):
		return nil, f.malformed(err)
	default: // a stream that is cut off has text before that
		return data, nil
	}
}

// checkNesting refuses brackets so deep that the library's recursive lexer would overflow the stack.
func (f *pdfFile) checkNesting(data []byte) error {
	depth := 0
	for _, c := range data {
		switch c {
		case '[', '<':
			if depth++; depth > pdfNesting {
				return f.malformed(fmt.Sprintf("brackets nested %d deep", depth))
			}
		case ']', '>':
			depth = max(0, depth-1)
		}
	}
	return nil
}

// timedReader fails once its context has ended, because only a failing read ends some loops of the library.
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
