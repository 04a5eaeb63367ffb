package research

import (
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// listedAuthors is the maximum number of authors in Markdown, followed by "et al".
const listedAuthors = 6

// markdown returns entry i as an item of a numbered list. Markdown numbers the items of a list itself, so a new list must begin after a gap in
// the numbers. It begins with the other delimiter: 7) instead of 7.
func markdown(entries []entry, i int) string {
	delimiter := byte('.')
	for k := 1; k <= i; k++ {
		if entries[k].n != entries[k-1].n+1 {
			delimiter ^= '.' ^ ')'
		}
	}
	var b strings.Builder
	b.WriteString(strconv.Itoa(entries[i].n))
	b.WriteByte(delimiter)
	e := &entries[i].item
	if names := authorsLine(e.Authors); names != "" {
		b.WriteString(" " + escapeMarkdown(names) + ".")
	}
	title := escapeMarkdown(e.Title)
	if link := linkTarget(e.URL); link != "" {
		title = "[" + title + "](" + link + ")"
	}
	b.WriteString(" " + title)
	if !strings.HasSuffix(e.Title, "?") && !strings.HasSuffix(e.Title, "!") {
		b.WriteByte('.')
	}
	if e.Genre != "" {
		b.WriteString(" " + escapeMarkdown(e.Genre) + ".")
	}
	if e.Journal != "" {
		b.WriteString(" *" + escapeMarkdown(e.Journal) + "*.")
	}
	if e.Publisher != "" && e.Type != kindArticle {
		b.WriteString(" " + escapeMarkdown(e.Publisher) + ".")
	}
	if issue := e.issueText(); issue != "" {
		b.WriteString(" " + escapeMarkdown(issue) + ".")
	}
	for _, id := range []struct{ label, value string }{{"", e.ReportNo}, {"doi:", e.DOI}, {"PMID ", e.PMID}} {
		if id.value != "" {
			b.WriteString(" " + escapeMarkdown(id.label+id.value) + ".")
		}
	}
	if e.Accessed.year() != 0 {
		b.WriteString(" Accessed " + e.Accessed.text() + ".")
	}
	return b.String()
}

// issueText returns year, volume, issue and pages: 2024;12(3):45–67.
func (e *item) issueText() string {
	var b strings.Builder
	if y := e.Issued.year(); y != 0 {
		b.WriteString(strconv.Itoa(y))
	}
	if e.Volume == "" && e.Issue == "" && e.Page == "" {
		return b.String()
	}
	if b.Len() > 0 {
		b.WriteByte(';')
	}
	b.WriteString(e.Volume)
	if e.Issue != "" {
		b.WriteString("(" + e.Issue + ")")
	}
	if e.Page != "" {
		b.WriteString(":" + strings.ReplaceAll(e.Page, "-", "–"))
	}
	return b.String()
}

// authorsLine returns the authors in the style of medical journals: Smith AB, Müller JP.
func authorsLine(authors []cslName) string {
	var names []string
	for i, a := range authors {
		if a.Literal == etAl || i == listedAuthors {
			names = append(names, etAl)
			break
		}
		if a.Family == "" {
			names = append(names, a.Literal)
			continue
		}
		names = append(names, strings.TrimSpace(a.Family+" "+initials(a.Given)))
	}
	return strings.TrimSuffix(strings.Join(names, ", "), ".")
}

// initials returns the first letters of given names: AMK for "Anna-Maria K.".
func initials(given string) string {
	var b strings.Builder
	for part := range strings.FieldsFuncSeq(given, func(r rune) bool { return r == ' ' || r == '-' || r == '.' }) {
		if strings.ToUpper(part) == part && len(part) <= 4 { // the part consists of initials
			b.WriteString(part)
			continue
		}
		_, size := utf8.DecodeRuneInString(part)
		b.WriteString(part[:size])
	}
	return b.String()
}

// text returns the date in ISO 8601, empty if there is none.
func (d *cslDate) text() string {
	if d.year() == 0 {
		return ""
	}
	parts := append(slices.Clone(d.Parts[0]), 0, 0)
	return date{parts[0], parts[1], parts[2]}.text()
}

// escapeMarkdown escapes every character that Markdown could interpret as markup.
func escapeMarkdown(s string) string {
	var b strings.Builder
	for _, r := range s {
		if strings.ContainsRune("\\`*_{}[]<>#|~&!", r) {
			b.WriteByte('\\')
		}
		b.WriteRune(r)
	}
	return b.String()
}

// linkTarget returns an address escaped for the parentheses of a link, empty if it may not be shown as a link.
func linkTarget(s string) string {
	return strings.NewReplacer(
		"(", "%28", ")", "%29", "<", "%3C", ">", "%3E", " ", "%20", "\\", "%5C", "*", "%2A", "[", "%5B", "]", "%5D",
	).Replace(pageURL(s))
}
