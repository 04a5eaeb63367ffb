package document

import (
	"bytes"
	"io"
	"strings"

	"github.com/JohannesKaufmann/html-to-markdown/v2/converter"
	"github.com/JohannesKaufmann/html-to-markdown/v2/plugin/base"
	"github.com/JohannesKaufmann/html-to-markdown/v2/plugin/commonmark"
	"github.com/JohannesKaufmann/html-to-markdown/v2/plugin/table"
	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"
	"golang.org/x/net/html/charset"

	"github.com/turnstone-run/turnstone/agent"
)

// parseHTML reads a page as Markdown, without navigation, scripts, styles, form fields and hidden elements. The title is <title>, or else the first
// heading.
func parseHTML(data []byte, contentType string) (d Document, err error) {
	// The parser and the converter may panic on hostile input.
	defer func() {
		if r := recover(); r != nil {
			d, err = Document{}, agent.Invalid("body", "malformed HTML: %v", r)
		}
	}()
	decoded, err := charset.NewReader(bytes.NewReader(data), contentType)
	if err != nil {
		return Document{}, agent.Invalid("body", "malformed HTML: %w", err)
	}
	root, err := html.Parse(io.LimitReader(decoded, maxText))
	if err != nil {
		return Document{}, agent.Invalid("body", "malformed HTML: %w", err)
	}
	title := prune(root)
	conv := converter.NewConverter(
		converter.WithPlugins(base.NewBasePlugin(), commonmark.NewCommonmarkPlugin(), table.NewTablePlugin()),
		converter.WithEscapeMode(converter.EscapeModeDisabled), // the text is searched, not rendered
	)
	// The converter writes < and > in the text as entities. Two noncharacters replace them until it is done.
	hide, show := strings.NewReplacer("<", "\ufdd0", ">", "\ufdd1"), strings.NewReplacer("\ufdd0", "<", "\ufdd1", ">")
	conv.Register.TextTransformer(func(_ converter.Context, s string) string { return hide.Replace(s) }, converter.PriorityEarly)
	conv.Register.TextTransformer(func(_ converter.Context, s string) string { return show.Replace(s) }, converter.PriorityLate)
	text, err := conv.ConvertNode(root)
	if err != nil {
		return Document{}, agent.Invalid("body", "convert HTML: %w", err)
	}
	if len(text) > maxText {
		return Document{}, agent.FieldErrorf(agent.CodeOverflow, "body", "holds more than %d MiB of text", maxText>>20)
	}
	d = splitMarkdown(cleanText(string(text)))
	if title != "" {
		d.Title = title
	}
	return d, nil
}

// prune removes nodes without content below root, and returns the title of the page.
func prune(root *html.Node) (title string) {
	var next *html.Node
	for n := root.FirstChild; n != nil; n = next {
		next = n.NextSibling
		if n.DataAtom == atom.Title && n.Namespace == "" {
			title = strings.Join(strings.Fields(textOf(n)), " ")
		}
		if isNoise(n) {
			root.RemoveChild(n)
			continue
		}
		if t := prune(n); title == "" {
			title = t
		}
	}
	return title
}

// isNoise reports whether a node has no content of the page.
func isNoise(n *html.Node) bool {
	switch n.DataAtom {
	case atom.Nav, atom.Script, atom.Style, atom.Noscript, atom.Template, atom.Iframe, atom.Object, atom.Svg, atom.Button, atom.Select, atom.Dialog:
		return true
	case atom.Html, atom.Body:
		return false
	default:
		for _, a := range n.Attr {
			if a.Key == "hidden" || a.Key == "src" && strings.HasPrefix(a.Val, "data:") {
				return true
			}
		}
		return false
	}
}

// textOf returns the text directly in a node.
func textOf(n *html.Node) string {
	var b strings.Builder
	for c := n.FirstChild; c != nil; c = c.NextSibling {
		if c.Type == html.TextNode {
			b.WriteString(c.Data)
		}
	}
	return b.String()
}
