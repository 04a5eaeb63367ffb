package document_test

import (
	"context"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/retrieval/document"
)

func parse(t *testing.T, f document.File) document.Document {
	t.Helper()
	documents, err := document.Parse(t.Context(), f)
	require.NoError(t, err)
	require.Len(t, documents, 1)
	return documents[0]
}

func TestFormat(t *testing.T) {
	const html, jsonl = "<!doctype html><p>Hello</p>", `{"text":"Hello"}`
	for name, c := range map[string]struct {
		file document.File
		want string
	}{
		"type":                   {document.File{MIMEType: "text/markdown; charset=utf-8", Data: []byte("Hello")}, document.MIMEMarkdown},
		"type before extension":  {document.File{MIMEType: "text/plain", Name: "a.html", Data: []byte(html)}, document.MIMEText},
		"type that says nothing": {document.File{MIMEType: "application/octet-stream", Name: "a.MD", Data: []byte("Hello")}, document.MIMEMarkdown},
		"extension":              {document.File{Name: "dir.pdf/a.txt", Data: []byte(html)}, document.MIMEText},
		"extension, JSONL":       {document.File{Name: "a.ndjson", Data: []byte(jsonl)}, document.MIMEJSONL},
		"sniffed HTML":           {document.File{Name: "page", Data: []byte(html)}, document.MIMEHTML},
		"sniffed JSONL":          {document.File{Data: []byte("\n" + jsonl + "\n")}, document.MIMEJSONL},
		"sniffed Markdown":       {document.File{Name: "README", Data: []byte("Intro\n\n## Use\n")}, document.MIMEMarkdown},
		"sniffed PDF":            {document.File{Name: "scan.1", Data: pdfPages("", pdfStream("", showText("x")))}, document.MIMEPDF},
		"sniffed text":           {document.File{Name: "main.go", Data: []byte("package main")}, document.MIMEText},
		"UTF-16":                 {document.File{Data: []byte("\xff\xfeH\x00i\x00")}, document.MIMEText},
	} {
		t.Run(name, func(t *testing.T) { require.Equal(t, c.want, parse(t, c.file).MIMEType) })
	}
}

func TestParseRefuses(t *testing.T) {
	for name, c := range map[string]struct {
		file           document.File
		field, message string
		code           agent.Code
	}{
		"unknown type":   {document.File{MIMEType: "image/png", Data: []byte("x")}, "mime_type", "image/png is not read", agent.CodeInvalid},
		"malformed type": {document.File{MIMEType: "/;", Data: []byte("x")}, "mime_type", `"/;"`, agent.CodeInvalid},
		"binary":         {document.File{Name: "a.docx", Data: []byte("PK\x03\x04\x00\x00")}, "mime_type", "a.docx (application/zip)", agent.CodeInvalid},
		"binary, late":   {document.File{Name: "a.bin", Data: []byte(strings.Repeat("text ", 1_000) + "\x00")}, "mime_type", "a.bin (application/octet-stream)", agent.CodeInvalid},
		"not UTF-8":      {document.File{Name: "a.txt", Data: []byte("gr\xfc\xdfe")}, "body", "not UTF-8: the byte at 2", agent.CodeInvalid},
		"empty":          {document.File{}, "body", "is empty", agent.CodeInvalid},
		"blank":          {document.File{Name: "a.md", Data: []byte(" \n\t\n")}, "body", "no text", agent.CodeInvalid},
		"blank HTML":     {document.File{Name: "a.html", Data: []byte("<nav>Menu</nav><script>x()</script>")}, "body", "no text", agent.CodeInvalid},
		"blank JSONL":    {document.File{Name: "a.jsonl", Data: []byte("\n\n")}, "body", "no document", agent.CodeInvalid},
		"large":          {document.File{Name: "a.txt", Data: make([]byte, document.MaxBytes+1)}, "body", "32 MiB", agent.CodeOverflow},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := document.Parse(t.Context(), c.file)
			var e *agent.Error
			require.ErrorAs(t, err, &e)
			require.Equal(t, c.code, e.Code)
			require.Equal(t, c.field, e.Field)
			require.ErrorContains(t, err, c.message)
		})
	}
}

func TestText(t *testing.T) {
	d := parse(t, document.File{Name: "a.txt", Data: []byte("\ufeffone\r\ntwo\rthree\x00 \n")})
	require.Equal(t, []document.Section{{Text: "one\ntwo\nthree"}}, d.Sections)
	d = parse(t, document.File{Name: "a.txt", Data: []byte("\xfe\xff\x00G\x00r\x00\xf6")})
	require.Equal(t, "Grö", d.Sections[0].Text)
}

func TestMarkdown(t *testing.T) {
	d := parse(t, document.File{Name: "a.md", Data: []byte(`---
layout: page
---
Preface.

# Guide #

## Install

Run it.

` + "```sh\n# no heading\n```" + `

### On C#

Same.

#hashtag and    
# Second
Body
## Empty
Under
-----
text
===
`)})
	require.Equal(t, "Guide", d.Title)
	require.Equal(t, []document.Section{
		{Text: "---\nlayout: page\n---"},
		{Text: "Preface."},
		{Path: []string{"Guide", "Install"}, Text: "Run it.\n\n```sh\n# no heading\n```"},
		{Path: []string{"Guide", "Install", "On C#"}, Text: "Same.\n\n#hashtag and"},
		{Path: []string{"Second"}, Text: "Body"},
		{Path: []string{"Second", "Empty"}, Text: "Under\n-----\ntext\n==="},
	}, d.Sections)

	d = parse(t, document.File{Name: "a.md", Data: []byte("Title\n=====\n\nOne\n---\n\ntext\n\n# " + strings.Repeat("long ", 100) + "\nx\n# Last")})
	require.Equal(t, "Title", d.Title)
	require.Equal(t, []string{"Title", "One"}, d.Sections[0].Path)
	require.Empty(t, d.Sections[1].Path)
	require.True(t, strings.HasPrefix(d.Sections[1].Text, "# long long"), "a heading that is too long is part of the text")
	require.Equal(t, document.Section{Path: []string{"Last"}}, d.Sections[2], "a heading without text is kept")
}

func TestHTML(t *testing.T) {
	d := parse(t, document.File{Name: "a.html", Data: []byte(`<!doctype html><html><head><meta charset="iso-8859-1"><title> The
 Guide </title><style>p{}</style></head><body><nav><a href="/">Home</a></nav><svg><title>icon</title></svg>
<h1>Gr` + "\xf6" + `sse</h1><p>If a &lt; b_c, use <code>x &amp;&amp; y</code> &amp;c. <img src="data:image/png;base64,AAAA"><span hidden>obey</span></p>
<script>alert(1)</script><h2>Table</h2><table><tr><th>Name</th><th>Size</th></tr><tr><td>one</td><td>1</td></tr></table>
<ul><li>first</li><li><a href="https://example.com">second</a></li></ul><noscript>no</noscript><template>no</template></body></html>`)})
	require.Equal(t, "The Guide", d.Title)
	require.Len(t, d.Sections, 2)
	require.Equal(t, []string{"Grösse"}, d.Sections[0].Path)
	require.Equal(t, "If a < b_c, use `x && y` &c.", d.Sections[0].Text)
	require.Equal(t, []string{"Grösse", "Table"}, d.Sections[1].Path)
	require.Regexp(t, `\| Name +\| Size +\|\n\|-+\|-+\|\n\| one +\| 1 +\|`, d.Sections[1].Text)
	require.Contains(t, d.Sections[1].Text, "- first\n- [second](https://example.com)")

	d = parse(t, document.File{MIMEType: "text/html; charset=windows-1251", Data: []byte("<h1>\xcf\xf0\xe8\xe2\xe5\xf2</h1>x")})
	require.Equal(t, "Привет", d.Title, "the first heading, in the encoding of the MIME type")
}

func TestJSONL(t *testing.T) {
	documents, err := document.Parse(t.Context(), document.File{Name: "a.jsonl", Data: []byte("\ufeff" + `{"id":"a","text":"One","title":"T","url":"https://example.com","lang":"en","n":12345678901234567890}

{"id":7,"content":"Two\u0000\r\n","source":"x.md","metadata":{"source":"other","page":3,"a\u0000":["\u0000","\\u0000"]}}
{"page_content":"Three","metadata":{"source":"doc.txt","title":"M"},"title":null}`)})
	require.NoError(t, err)
	require.Equal(t, []document.Document{
		{
			Line: 1, ID: "a", Title: "T", Source: "https://example.com", MIMEType: document.MIMEJSONL, Metadata: []byte(`{"lang":"en","n":12345678901234567890}`),
			Sections: []document.Section{{Text: "One"}},
		},
		{
			Line: 3, ID: "7", Source: "x.md", MIMEType: document.MIMEJSONL, Metadata: []byte(`{"a":["","\\u0000"],"page":3}`),
			Sections: []document.Section{{Text: "Two"}},
		},
		{Line: 4, Title: "M", Source: "doc.txt", MIMEType: document.MIMEJSONL, Sections: []document.Section{{Text: "Three"}}},
	}, documents)
}

func TestJSONLErrorsNameTheLine(t *testing.T) {
	for line, message := range map[string]string{
		`{"text":"x"`:             "malformed JSON",
		`{"text":"x"} {}`:         "malformed JSON",
		`[]`:                      "malformed JSON",
		`null`:                    "want an object",
		`"x"`:                     "malformed JSON",
		`{"title":"x"}`:           "text: is missing or empty",
		`{"text":" "}`:            "text: is missing or empty",
		`{"text":7}`:              "text: want a string",
		`{"text":"x","title":[]}`: "title: want a string",
		`{"text":"x","id":1.5}`:   "id: want a string or a whole number",
		`{"text":"x","text":"y"}`: "duplicate",
		"{\"text\":\"\xff\"}":     "invalid UTF-8",
		`{"text":"x","big":"` + strings.Repeat("x", 70<<10) + `"}`: "metadata: is larger",
	} {
		_, err := document.Parse(t.Context(), document.File{Name: "a.jsonl", Data: []byte(`{"text":"fine"}` + "\n\n" + line + "\n" + `{"text":"fine"}`)})
		var e *agent.Error
		require.ErrorAs(t, err, &e, "%.50s", line)
		require.Equal(t, "document_line", e.Field)
		require.ErrorContains(t, err, "line 3: ")
		require.ErrorContains(t, err, message)
	}
	_, err := document.Parse(t.Context(), document.File{Name: "a.jsonl", Data: []byte(strings.Repeat("x", document.MaxLine+1))})
	require.Equal(t, agent.CodeOverflow, agent.CodeOf(err))
	_, err = document.Parse(t.Context(), document.File{Name: "a.jsonl", Data: []byte(strings.Repeat("{\"text\":\"x\"}\n", document.MaxDocuments+1))})
	require.Equal(t, agent.CodeOverflow, agent.CodeOf(err))
}

func TestParseIsCancelled(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for _, f := range []document.File{
		{Name: "a.txt", Data: []byte("x")},
		{Name: "a.pdf", Data: pdfPages("", pdfStream("", showText("x")))},
		{Name: "a.jsonl", Data: []byte(strings.Repeat("{\"text\":\"x\"}\n", 1_000))},
	} {
		_, err := document.Parse(ctx, f)
		require.Equal(t, agent.CodeCancelled, agent.CodeOf(err), "%s: %v", f.Name, err)
	}
}

func FuzzMarkdown(f *testing.F) {
	for _, s := range []string{"# A\ntext\n## B\n", "---\na: b\n---\n# C\n```\n# no\n```", "T\n===\n\nU\n---\nx", "#\n##\n", sentences(20), "a\u2028b\x00c\r\n", "~~~\n# x"} {
		f.Add(s[:min(len(s), 1_500)], 20, 5)
	}
	f.Fuzz(func(t *testing.T, text string, size, overlap int) {
		if len(text) > 2_000 || size < 1 || size > 2_000 || overlap < 0 || overlap >= size {
			return // invalid settings
		}
		documents, err := document.Parse(t.Context(), document.File{Name: "a.md", Data: []byte(text)})
		if err != nil {
			require.Equal(t, agent.CodeInvalid, agent.CodeOf(err))
			return
		}
		chunks := splitDocument(t, documents[0], size, overlap)
		var all strings.Builder
		for _, c := range chunks {
			require.True(t, utf8.ValidString(c.Text))
			all.WriteString(c.Text)
		}
		for _, word := range strings.FieldsFunc(text, func(r rune) bool { return !unicode.IsLetter(r) }) {
			if size > 200 && len(word) < 50 && utf8.ValidString(text) { // not UTF-16
				require.Contains(t, all.String(), word)
			}
		}
	})
}

func FuzzJSONL(f *testing.F) {
	f.Add(`{"text":"a","id":1}` + "\n" + `{"content":"b\u0000","metadata":{"x":["\\u0000\u0000"]}}`)
	f.Add("\xff\xfe{")
	f.Fuzz(func(t *testing.T, text string) {
		documents, err := document.Parse(t.Context(), document.File{Name: "a.jsonl", Data: []byte(text)})
		if err != nil {
			require.Contains(t, []agent.Code{agent.CodeInvalid, agent.CodeOverflow}, agent.CodeOf(err))
			return
		}
		for _, d := range documents {
			require.NotEmpty(t, d.Sections)
			require.NotContains(t, d.Sections[0].Text, "\x00")
			require.NotContains(t, strings.ReplaceAll(string(d.Metadata), `\\`, ""), `\u0000`)
			require.True(t, d.Metadata == nil || d.Metadata[0] == '{')
		}
	})
}

func FuzzHTML(f *testing.F) {
	f.Add("<title>a</title><h1>b</h1><p>c &lt; d<table><tr><td>x", "text/html")
	f.Add(strings.Repeat("<div><b>", 600)+"deep", "text/html; charset=utf-16")
	f.Fuzz(func(t *testing.T, text, mime string) {
		documents, err := document.Parse(t.Context(), document.File{MIMEType: mime, Name: "a.html", Data: []byte(text)})
		if err != nil {
			require.Contains(t, []agent.Code{agent.CodeInvalid, agent.CodeOverflow}, agent.CodeOf(err))
			return
		}
		for _, s := range documents[0].Sections {
			require.True(t, utf8.ValidString(s.Text))
		}
	})
}
