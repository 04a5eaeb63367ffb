package research

import (
	"cmp"
	"strconv"
	"strings"
	"unicode"

	"golang.org/x/text/unicode/norm"
)

// bibTeX returns a reference as a BibTeX entry. Characters that are special in TeX are escaped; others stay in UTF-8, which biber and current
// versions of BibTeX read.
func bibTeX(e *entry) string {
	var b strings.Builder
	b.WriteString("@" + bibType(e.Type) + "{" + e.ID)
	put := func(name, value string) {
		if value != "" {
			b.WriteString(",\n  " + name + " = {" + value + "}")
		}
	}
	put("author", bibAuthors(e.Authors))
	put("title", "{"+escapeTeX(e.Title)+"}") // the inner braces keep the capitals
	journal, publisher := escapeTeX(e.Journal), escapeTeX(e.Publisher)
	switch e.Type {
	case kindArticle:
		put("journal", journal)
	case kindChapter, kindPaper:
		put("booktitle", journal)
		put("publisher", publisher)
	case kindReport:
		put("institution", publisher)
		put("type", escapeTeX(e.Genre))
		put("number", escapeTeX(e.ReportNo))
	case kindThesis:
		put("school", publisher)
	case kindPreprint:
		put("howpublished", journal)
	case kindWebPage, kindDataset:
		put("howpublished", journal)
		put("publisher", publisher)
	default:
		put("publisher", publisher)
	}
	if y := e.Issued.year(); y != 0 {
		put("year", strconv.Itoa(y))
	}
	if p := e.Issued; p.year() != 0 && len(p.Parts[0]) > 1 {
		put("month", strconv.Itoa(p.Parts[0][1]))
	}
	put("volume", escapeTeX(e.Volume))
	if e.Type != kindReport {
		put("number", escapeTeX(e.Issue))
	}
	put("pages", strings.ReplaceAll(escapeTeX(e.Page), "-", "--"))
	put("doi", escapeVerbatim(e.DOI))
	put("url", escapeVerbatim(e.URL))
	if a := e.Accessed.text(); a != "" {
		put("urldate", a)
	}
	if e.PMID != "" {
		put("note", "PMID "+escapeTeX(e.PMID))
	}
	b.WriteString("\n}")
	return b.String()
}

// bibType returns the type of entry for a CSL type.
func bibType(kind string) string {
	switch kind {
	case kindArticle:
		return "article"
	case kindBook:
		return "book"
	case kindChapter:
		return "incollection"
	case kindPaper:
		return "inproceedings"
	case kindReport:
		return "techreport"
	case kindThesis:
		return "phdthesis"
	default:
		return "misc"
	}
}

// bibAuthors joins names with "and". Braces keep BibTeX from splitting a literal name.
func bibAuthors(authors []cslName) string {
	var names []string
	for _, a := range authors {
		switch {
		case a.Literal == etAl:
			names = append(names, "others")
		case a.Family != "" && a.Given != "":
			names = append(names, bibName(a.Family)+", "+bibName(a.Given))
		case a.Family != "":
			names = append(names, "{"+escapeTeX(a.Family)+"}")
		case a.Literal != "":
			names = append(names, "{"+escapeTeX(a.Literal)+"}")
		}
	}
	return strings.Join(names, " and ")
}

// bibName returns a part of a name, in braces if BibTeX would split it.
func bibName(part string) string {
	text := escapeTeX(part)
	if strings.Contains(part, ",") || strings.Contains(" "+strings.ToLower(part)+" ", " and ") {
		return "{" + text + "}"
	}
	return text
}

// escapeTeX escapes the characters that are special in TeX. Braces become commands, because BibTeX counts even escaped braces.
func escapeTeX(s string) string {
	return strings.NewReplacer(
		`\`, `\textbackslash{}`, `{`, `\textbraceleft{}`, `}`, `\textbraceright{}`, `$`, `\$`, `&`, `\&`, `%`, `\%`, `#`, `\#`, `_`, `\_`,
		`~`, `\textasciitilde{}`, `^`, `\textasciicircum{}`, `<`, `\textless{}`, `>`, `\textgreater{}`, `"`, `\textquotedbl{}`,
	).Replace(s)
}

// escapeVerbatim escapes a DOI or an address. Styles and biblatex print them literally, so only characters that would end the field are encoded.
func escapeVerbatim(s string) string {
	return strings.NewReplacer("{", "%7B", "}", "%7D", `\`, "%5C", " ", "%20").Replace(s)
}

// citeKey returns author, year and the first significant word of the title in ASCII letters and digits: smith2024deep.
func citeKey(it *item) string {
	author := ""
	if len(it.Authors) > 0 {
		author = it.Authors[0].Family
		if author == "" {
			author, _, _ = strings.Cut(it.Authors[0].Literal, " ")
		}
	}
	key := cmp.Or(clipASCII(ascii(author), 20), "anon")
	if y := it.Issued.year(); y != 0 {
		key += strconv.Itoa(y)
	}
	for word := range strings.FieldsFuncSeq(it.Title, func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) }) {
		if w := ascii(word); len(w) > 3 && !isStopWord(w) {
			return key + clipASCII(w, 20)
		}
	}
	return key
}

// uniqueKey returns the key, with letters appended if it is taken, and marks the result as taken.
func uniqueKey(key string, taken map[string]bool) string {
	unique := key
	for n := 1; taken[unique]; n++ {
		unique = key + letters(n)
	}
	taken[unique] = true
	return unique
}

// letters returns number n as letters: a, b, …, z, aa, ab.
func letters(n int) string {
	s := ""
	for ; n > 0; n = (n - 1) / 26 {
		s = string(rune('a'+(n-1)%26)) + s
	}
	return s
}

// ascii returns the text as lower-case ASCII letters and digits, without accents. Other characters are removed.
func ascii(s string) string {
	s = strings.NewReplacer("ß", "ss", "ø", "o", "Ø", "o", "æ", "ae", "Æ", "ae", "œ", "oe", "ł", "l", "Ł", "l", "đ", "d", "ı", "i").Replace(s)
	return strings.Map(func(r rune) rune {
		switch {
		case r >= 'A' && r <= 'Z':
			return r + 'a' - 'A'
		case r >= 'a' && r <= 'z', r >= '0' && r <= '9':
			return r
		default:
			return -1
		}
	}, norm.NFD.String(s))
}

func clipASCII(s string, n int) string { return s[:min(n, len(s))] }

func isStopWord(w string) bool {
	switch w {
	case "with", "from", "that", "this", "into", "over", "under", "between", "among", "their", "what", "when", "where", "which", "does", "after", "before":
		return true
	default:
		return false
	}
}
