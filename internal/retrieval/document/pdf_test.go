package document_test

import (
	"bytes"
	"compress/zlib"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/retrieval/document"
)

// pdfFile returns a PDF with objects numbered from 1. The first one is the catalog.
func pdfFile(trailer string, objects ...string) []byte {
	var b bytes.Buffer
	b.WriteString("%PDF-1.4\n%\xe2\xe3\xcf\xd3\n")
	offsets := make([]int, len(objects))
	for i, o := range objects {
		offsets[i] = b.Len()
		fmt.Fprintf(&b, "%d 0 obj\n%s\nendobj\n", i+1, o)
	}
	start := b.Len()
	fmt.Fprintf(&b, "xref\n0 %d\n0000000000 65535 f \n", len(objects)+1)
	for _, offset := range offsets {
		fmt.Fprintf(&b, "%010d 00000 n \n", offset)
	}
	fmt.Fprintf(&b, "trailer\n<</Size %d/Root 1 0 R%s>>\nstartxref\n%d\n%%%%EOF\n", len(objects)+1, trailer, start)
	return b.Bytes()
}

func pdfStream(dict, data string) string {
	return fmt.Sprintf("<<%s/Length %d>>\nstream\n%s\nendstream", dict, len(data), data)
}

func deflate(data string) string {
	var b bytes.Buffer
	w := zlib.NewWriter(&b)
	_, _ = w.Write([]byte(data))
	_ = w.Close()
	return b.String()
}

const pdfFont = "<</Type/Font/Subtype/Type1/BaseFont/Helvetica/Encoding/WinAnsiEncoding>>"

// pdfPages returns a file with a page for each content stream.
func pdfPages(trailer string, contents ...string) []byte {
	objects := []string{"<</Type/Catalog/Pages 2 0 R>>", "", pdfFont, "<</Title(The  Manual)>>"}
	kids := ""
	for _, c := range contents {
		kids += fmt.Sprintf("%d 0 R ", len(objects)+1)
		objects = append(objects, fmt.Sprintf("<</Type/Page/Parent 2 0 R/Contents %d 0 R>>", len(objects)+2), c)
	}
	objects[1] = fmt.Sprintf("<</Type/Pages/Count %d/Kids[%s]/Resources<</Font<</F1 3 0 R>>>>>>", len(contents), kids)
	return pdfFile(trailer, objects...)
}

// showText returns a content stream that shows lines.
func showText(lines ...string) string {
	return "BT /F1 12 Tf 14 TL 72 720 Td " + "(" + strings.Join(lines, ") Tj T* (") + ") Tj ET"
}

func parsePDF(t *testing.T, data []byte) document.Document {
	t.Helper()
	documents, err := document.Parse(t.Context(), document.File{Name: "manual.pdf", Data: data})
	require.NoError(t, err)
	require.Len(t, documents, 1)
	return documents[0]
}

func pdfText(t *testing.T, content string) string {
	t.Helper()
	d := parsePDF(t, pdfPages("", pdfStream("", content)))
	require.Len(t, d.Sections, 1)
	return d.Sections[0].Text
}

func TestPDFByPage(t *testing.T) {
	d := parsePDF(t, pdfPages("/Info 4 0 R", pdfStream("", showText("Open the lid.", "Then wait.")), pdfStream("", ""),
		pdfStream("/Filter/FlateDecode", deflate(showText("Close it \\(slowly\\) \x96 done.")))))
	require.Equal(t, document.MIMEPDF, d.MIMEType)
	require.Equal(t, "The Manual", d.Title)
	require.Equal(t, []document.Section{{Page: 1, Text: "Open the lid.\nThen wait."}, {Page: 3, Text: "Close it (slowly) – done."}}, d.Sections)
}

func TestPDFText(t *testing.T) {
	for name, c := range map[string]struct{ content, want string }{
		"kerned":             {"BT /F1 10 Tf [(Wo) 20 (rd) -300 (next)] TJ ET", "Word next"},
		"words placed":       {"BT /F1 10 Tf 1 0 0 1 50 700 Tm (ill) Tj 1 0 0 1 63 700 Tm (will) Tj ET", "ill will"},
		"glyphs placed":      {"BT /F1 10 Tf 1 0 0 1 50 700 Tm (h) Tj 1 0 0 1 55.4 700 Tm (e) Tj 1 0 0 1 61 700 Tm (y) Tj ET", "hey"},
		"paragraphs":         {"BT /F1 10 Tf 50 700 Td (one) Tj 0 -12 Td (two) Tj 0 -30 Td (three) Tj ET", "one\ntwo\n\nthree"},
		"leading by TD":      {"BT /F1 10 Tf 50 700 Td (a) Tj 0 -12 TD (b) Tj T* (c) Tj (d) ' 1 2 (e) \" ET", "a\nb\nc\nd\ne"},
		"moved by cm":        {"q 1 0 0 1 0 700 cm BT /F1 10 Tf (top) Tj ET Q q 1 0 0 1 0 600 cm BT /F1 10 Tf (below) Tj ET Q", "top\n\nbelow"},
		"no font, no text":   {"BT (lost) Tj /F1 10 Tf (kept) Tj ET", "kept"},
		"too few operands":   {"Q Q Tm Td BT /F1 10 Tf Tj 1 Tm (kept) Tj ET", "kept"},
		"an open string":     {"BT /F1 10 Tf (kept) Tj (lost", "kept"},
		"an open array":      {"BT /F1 10 Tf (kept) Tj [(lost)", "kept"},
		"an open hex string": {"BT /F1 10 Tf (kept) Tj <41", "kept"},
		"stray delimiters":   {") > } ] >> BT /F1 10 Tf <</A [/B (c)]>> BDC (kept) Tj EMC ET", "kept"},
		"escapes":            {"BT /F1 10 Tf (\\101\\%\\\\ \\(b\\) (c) d\\\ne) Tj ET % (lost) Tj", "A%\\ (b) (c) de"},
		"hex":                {"BT /F1#31 10 Tf /F#31 10 Tf <48 6 5 7> Tj ET", "Hep"},
		"an inline image":    {"BT /F1 10 Tf (a) Tj ET BI /W 1 /H 1 ID \x01)<[EI\x02 EI BT /F1 10 Tf 30 0 Td (b) Tj ET", "a b"},
		"control characters": {"BT /F1 10 Tf (a\\000b\\tc) Tj ET", "ab c"},
	} {
		t.Run(name, func(t *testing.T) { require.Equal(t, c.want, pdfText(t, c.content)) })
	}
}

func TestPDFForms(t *testing.T) {
	d := parsePDF(t, pdfFile("",
		"<</Type/Catalog/Pages 2 0 R>>", "<</Type/Pages/Count 1/Kids[3 0 R]>>",
		"<</Type/Page/Parent 2 0 R/Contents[5 0 R 6 0 R]/Resources<</XObject<</X 7 0 R>>/Font<</F1 4 0 R>>>>>>", pdfFont,
		pdfStream("", "BT /F1 10 Tf 50 700 Td (first) Tj ET"), pdfStream("", "/X Do BT /F1 10 Tf 50 500 Td (last) Tj ET"),
		// A form that uses itself.
		pdfStream("/Subtype/Form/Matrix[1 0 0 1 0 600]", "BT /F1 10 Tf (within) Tj ET /X Do"),
	))
	require.True(t, strings.HasPrefix(d.Sections[0].Text, "first\n\nwithin"), "%q", d.Sections[0].Text)
	require.True(t, strings.HasSuffix(d.Sections[0].Text, "last"))

	// A form does not change the graphics state of the page.
	d = parsePDF(t, pdfFile("", "<</Type/Catalog/Pages 2 0 R>>", "<</Type/Pages/Count 1/Kids[3 0 R]>>",
		"<</Type/Page/Contents 5 0 R/Resources<</XObject<</X 6 0 R>>/Font<</F1 4 0 R>>>>>>", pdfFont,
		pdfStream("", "/F1 10 Tf /X Do BT 100 600 Td (after) Tj ET"), pdfStream("/Subtype/Form/Matrix[1 0 0 1 0 600]", "BT /None 99 Tf /F1 10 Tf 50 0 Td (under) Tj ET")))
	require.Equal(t, "under after", d.Sections[0].Text)
}

func TestPDFToUnicode(t *testing.T) {
	cmap := "1 begincodespacerange <0000> <FFFF> endcodespacerange 2 beginbfchar <0001> <0047> <0002> <00F6> endbfchar"
	d := parsePDF(t, pdfFile("", "<</Type/Catalog/Pages 2 0 R>>", "<</Type/Pages/Count 1/Kids[3 0 R]>>",
		"<</Type/Page/Contents 5 0 R/Resources<</Font<</F1 4 0 R>>>>>>", "<</Type/Font/Subtype/Type0/Encoding/Identity-H/ToUnicode 6 0 R>>",
		pdfStream("", "BT /F1 10 Tf <000100020003> Tj ET"), pdfStream("", cmap)))
	require.Equal(t, "Gö\ufffd", d.Sections[0].Text)
}

func TestPDFEncodings(t *testing.T) {
	for encoding, want := range map[string]string{"/MacRomanEncoding": "ä", "<</Differences[138/germandbls]>>": "ß", "/WinAnsiEncoding": "Š", "null": "−"} {
		d := parsePDF(t, pdfFile("", "<</Type/Catalog/Pages 2 0 R>>", "<</Type/Pages/Count 1/Kids[3 0 R]>>",
			"<</Type/Page/Contents 5 0 R/Resources<</Font<</F1 4 0 R>>>>>>", "<</Type/Font/Subtype/Type1/Encoding "+encoding+">>",
			pdfStream("", "BT /F1 10 Tf (\x8a) Tj ET")))
		require.Equal(t, want, d.Sections[0].Text, encoding)
	}
}

// packObjects returns a file with objects, numbered from 1, in a compressed object stream. Object 9, the content of the page, is not in it.
func packObjects(parts ...string) []byte {
	head, body := "", ""
	for i, p := range parts {
		head += fmt.Sprintf("%d %d ", i+1, len(body))
		body += p + " "
	}
	var b bytes.Buffer
	b.WriteString("%PDF-2.0\n")
	fmt.Fprintf(&b, "8 0 obj\n%s\nendobj\n", pdfStream(fmt.Sprintf("/Type/ObjStm/N %d/First %d/Filter/FlateDecode", len(parts), len(head)), deflate(head+body)))
	fmt.Fprintf(&b, "9 0 obj\n%s\nendobj\n", pdfStream("", showText("old")))
	fmt.Fprintf(&b, "9 0 obj\n%s\nendobj\n", pdfStream("", showText("packed")))
	fmt.Fprintf(&b, "10 0 obj\n<</Type/XRef/Root 1 0 R/Size 999999999999/W[1 1 1]>>\nstream\n\nendstream\nendobj\nstartxref\n7\n%%%%EOF")
	return b.Bytes()
}

// Objects are read from an object stream, unless a newer object has the same number.
func TestPDFObjectStreams(t *testing.T) {
	data := packObjects("<</Type/Catalog/Pages 2 0 R>>", "<</Type/Pages/Count 1/Kids[3 0 R]>>", "<</Type/Page/Contents 9 0 R/Resources<</Font<</F1 4 0 R>>>>>>", pdfFont)
	require.Equal(t, "packed", parsePDF(t, data).Sections[0].Text)
	newer := append(bytes.Clone(data), "\n4 0 obj\nnull\nendobj\n"...)
	_, err := document.Parse(t.Context(), document.File{Name: "x.pdf", Data: append(newer, "2 0 obj\n<</Type/Pages/Kids[]>>\nendobj"...)})
	require.ErrorContains(t, err, "no pages", "the appended object counts")
}

func TestPDFErrors(t *testing.T) {
	page := pdfStream("", showText("text"))
	bomb := pdfFile("", "<</Type/Catalog/Pages 2 0 R>>", "<</Type/Pages/Count 1/Kids[3 0 R]>>",
		"<</Type/Page/Contents["+strings.Repeat("4 0 R ", 17)+"]>>", pdfStream("/Filter/FlateDecode", deflate("ID "+strings.Repeat(" ", 8<<20))))
	loop := pdfFile("", "<</Type/Catalog/Pages 2 0 R>>", "<</Type/Pages/Count 1/Kids[2 0 R 2 0 R]>>")
	for name, c := range map[string]struct {
		data    []byte
		code    agent.Code
		message string
	}{
		"encrypted":      {pdfPages("/Encrypt 9 0 R", page), agent.CodeInvalid, "encrypted"},
		"images alone":   {pdfPages("", pdfStream("", "q 100 0 0 100 0 0 cm /Im0 Do Q"), pdfStream("", "")), agent.CodeInvalid, "2 pages and no text"},
		"no PDF":         {[]byte("hello"), agent.CodeInvalid, "no PDF"},
		"header alone":   {[]byte("%PDF-1.4\n"), agent.CodeInvalid, "no catalog"},
		"no pages":       {pdfFile("", "<</Type/Catalog>>"), agent.CodeInvalid, "no pages"},
		"a circle":       {loop, agent.CodeOverflow, "page tree"},
		"a bomb":         {bomb, agent.CodeOverflow, "unpacks to more than"},
		"deep":           {pdfPages("", pdfStream("", strings.Repeat("[", 200_000))), agent.CodeInvalid, "nested"},
		"deep, packed":   {packObjects(strings.Repeat("[", 200_000)), agent.CodeInvalid, "brackets nested"},
		"no catalog":     {packObjects("<</Type/Catalog"), agent.CodeInvalid, "malformed PDF"},
		"many columns":   {pdfPages("", page, pdfStream("/Filter/FlateDecode/DecodeParms<</Predictor 12/Columns 99999999999>>", "x")), agent.CodeInvalid, "page 2: a stream of"},
		"unknown filter": {pdfPages("", page, pdfStream("/Filter/LZWDecode", "x")), agent.CodeInvalid, "page 2: unknown filter"},
		"huge number":    {[]byte("%PDF-1.4\n99999999 0 obj\n<</Root 1 0 R>>\nendobj"), agent.CodeOverflow, "objects"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := document.Parse(t.Context(), document.File{Name: "x.pdf", Data: c.data})
			require.Equal(t, c.code, agent.CodeOf(err), "%v", err)
			require.ErrorContains(t, err, c.message)
			var e *agent.Error
			require.ErrorAs(t, err, &e)
			require.Equal(t, "body", e.Field)
		})
	}
}

// A file is read although its cross-reference table is wrong, cyclic or missing.
func TestPDFWithoutTable(t *testing.T) {
	data := pdfPages("", pdfStream("", showText("text")))
	cut := data[:bytes.LastIndex(data, []byte("xref\n0"))]
	for _, tail := range []string{
		"trailer<</Root 1 0 R>>", "xref\n0 1\ntrailer<</Root 1 0 R/Size 1/Prev 0>>\nstartxref\n0\n%%EOF", "xref\n999999999999 1\ntrailer<</Root 1 0 R>>startxref\n5",
	} {
		require.Equal(t, "text", parsePDF(t, append(bytes.Clone(cut), tail...)).Sections[0].Text)
	}
}

func FuzzPDF(f *testing.F) {
	f.Add(pdfPages("/Info 4 0 R", pdfStream("", showText("Open the lid.", "Then wait.")), pdfStream("/Filter/FlateDecode", deflate(showText("a")))))
	f.Fuzz(func(t *testing.T, data []byte) {
		documents, err := document.Parse(t.Context(), document.File{MIMEType: document.MIMEPDF, Data: data})
		if err != nil {
			require.NotEqual(t, agent.CodeInternal, agent.CodeOf(err), "%v", err)
			return
		}
		require.NotEmpty(t, documents[0].Sections)
	})
}
