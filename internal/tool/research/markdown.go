package research

import (
	"strconv"
	"strings"
)

// listedAuthors are named in a list for people; et al. stands for more.
const listedAuthors = 6

// markdown writes a reference as an item of a numbered list. Markdown counts on by itself, so behind a gap another list begins: one
// with the other of the two delimiters that it knows.
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
	if where := e.where(); where != "" {
		b.WriteString(" " + escapeMarkdown(where) + ".")
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

// where is year, volume, issue and pages: 2024;12(3):45–67.
func (e *item) where() string {
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

// authorsLine names authors as medical journals do: family name, initials.
func authorsLine(authors []cslName) string {
	var names []string
	for i, a := range authors {
		if a.Literal == others || i == listedAuthors {
			names = append(names, others[:len(others)-1]) // its full stop ends the list
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

// initials are the first letters of given names: "Anna-Maria K." is AMK.
func initials(given string) string {
	var b strings.Builder
	for part := range strings.FieldsFuncSeq(given, func(r rune) bool { return r == ' ' || r == '-' || r == '.' }) {
		if strings.ToUpper(part) == part && len(part) <= 4 { // they are initials already
			b.WriteString(part)
			continue
		}
		for _, r := range part {
			b.WriteRune(r)
			break
		}
	}
	return b.String()
}

// text is the date as ISO 8601 has it.
func (d *cslDate) text() string {
	if d.year() == 0 {
		return ""
	}
	p := append(append([]int(nil), d.Parts[0]...), 0, 0)
	return date{p[0], p[1], p[2]}.text()
}

// escapeMarkdown keeps text from being read as markup: every character that could be is escaped.
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

// linkTarget is an address as it may stand between parentheses, "" when it is none for a link.
func linkTarget(s string) string {
	s = pageURL(s)
	return strings.NewReplacer("(", "%28", ")", "%29", "<", "%3C", ">", "%3E", " ", "%20", "\\", "%5C", "*", "%2A", "[", "%5B", "]", "%5D").Replace(s)
}
