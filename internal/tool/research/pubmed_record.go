package research

import (
	"cmp"
	"encoding/xml"
	"errors"
	"io"
	"regexp"
	"slices"
	"strings"
)

// pubmedRecord is a PubmedArticle or a PubmedBookArticle of efetch. The two have the same data in different elements.
type pubmedRecord struct {
	Citation struct {
		PMID    string        `xml:"PMID"`
		Article pubmedArticle `xml:"Article"`
	} `xml:"MedlineCitation"`
	IDs  []pubmedID `xml:"PubmedData>ArticleIdList>ArticleId"`
	Book struct {
		pubmedArticle

		PMID      string     `xml:"PMID"`
		IDs       []pubmedID `xml:"ArticleIdList>ArticleId"`
		Title     mixedText  `xml:"Book>BookTitle"`
		Publisher mixedText  `xml:"Book>Publisher>PublisherName"`
		Date      pubmedDate `xml:"Book>PubDate"`
		Revised   pubmedDate `xml:"DateRevised"`
	} `xml:"BookDocument"`
}

type pubmedArticle struct {
	Title      mixedText `xml:"ArticleTitle"`
	Vernacular mixedText `xml:"VernacularTitle"`
	Journal    struct {
		Title  mixedText  `xml:"Title"`
		Short  mixedText  `xml:"ISOAbbreviation"`
		Volume string     `xml:"JournalIssue>Volume"`
		Issue  string     `xml:"JournalIssue>Issue"`
		Date   pubmedDate `xml:"JournalIssue>PubDate"`
	} `xml:"Journal"`
	Pages struct {
		Medline string `xml:"MedlinePgn"`
		First   string `xml:"StartPage"`
		Last    string `xml:"EndPage"`
	} `xml:"Pagination"`
	Locations   []pubmedID `xml:"ELocationID"`
	Abstract    []section  `xml:"Abstract>AbstractText"`
	AuthorLists []struct {
		Type    string         `xml:"Type,attr"`
		Authors []pubmedAuthor `xml:"Author"`
	} `xml:"AuthorList"`
	Types  []string     `xml:"PublicationTypeList>PublicationType"`
	Online []pubmedDate `xml:"ArticleDate"` // of the electronic publication
}

type pubmedAuthor struct {
	Last       mixedText `xml:"LastName"`
	Fore       mixedText `xml:"ForeName"`
	Initials   mixedText `xml:"Initials"`
	Suffix     mixedText `xml:"Suffix"`
	Collective mixedText `xml:"CollectiveName"`
}

type pubmedDate struct {
	Year    string `xml:"Year"`
	Month   string `xml:"Month"`
	Day     string `xml:"Day"`
	Medline string `xml:"MedlineDate"` // such as "1998 Dec-1999 Jan"
}

type pubmedID struct {
	Type  string `xml:"IdType,attr"`
	EType string `xml:"EIdType,attr"`
	Valid string `xml:"ValidYN,attr"`
	Text  string `xml:",chardata"`
}

// mixedText is the text of an element and its descendants: titles contain <i>, <sup> and MathML.
type mixedText string

// UnmarshalXML implements [xml.Unmarshaler].
func (m *mixedText) UnmarshalXML(d *xml.Decoder, _ xml.StartElement) error {
	var text strings.Builder
	for depth := 1; depth > 0; {
		token, err := d.Token()
		if err != nil {
			return err
		}
		switch t := token.(type) {
		case xml.StartElement:
			depth++
		case xml.EndElement:
			depth--
		case xml.CharData:
			text.Write(t)
		}
	}
	*m = mixedText(text.String())
	return nil
}

// section is a part of a structured abstract.
type section struct {
	label string
	text  mixedText
}

// UnmarshalXML implements [xml.Unmarshaler].
func (s *section) UnmarshalXML(d *xml.Decoder, start xml.StartElement) error {
	for _, a := range start.Attr {
		if a.Name.Local == "Label" {
			s.label = a.Value
		}
	}
	return s.text.UnmarshalXML(d, start)
}

// parseEFetch reads <PubmedArticleSet>. It returns the works in the order of ids, and leaves out records that were not requested.
func parseEFetch(resp *response, ids []string) ([]work, error) {
	if looksLikeHTML(resp) {
		return nil, unreadableError(pubmedTitle, "is a web page")
	}
	d := xml.NewDecoder(strings.NewReader(string(resp.body)))
	d.Entity = xml.HTMLEntity // the DTD of the records declares &nbsp; and others
	works := map[string]work{}
	hasRoot := false
	for {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, unreadableError(pubmedTitle, "is malformed XML")
		}
		start, ok := token.(xml.StartElement)
		if !ok {
			continue
		}
		switch start.Name.Local {
		case "PubmedArticleSet":
			hasRoot = true
		case "ERROR", "Error":
			var text mixedText
			_ = d.DecodeElement(&text, &start) // a part of the text can be quoted too
			return nil, answeredError(pubmedTitle, string(text))
		case "PubmedArticle", "PubmedBookArticle":
			var record pubmedRecord
			if err := d.DecodeElement(&record, &start); err != nil {
				return nil, unreadableError(pubmedTitle, "is malformed XML")
			}
			if w := record.work(); w.pmid != "" {
				works[w.pmid] = w
			}
		}
	}
	if !hasRoot {
		return nil, unreadableError(pubmedTitle, "is no PubmedArticleSet")
	}
	var out []work
	for _, id := range ids {
		if w, ok := works[id]; ok {
			out = append(out, w)
		}
	}
	return out, nil
}

func (r *pubmedRecord) work() work {
	isBook := r.Book.PMID != ""
	a, ids := &r.Citation.Article, append(slices.Clone(r.IDs), r.Citation.Article.Locations...)
	w := work{source: pubmedName, kind: kindArticle, pmid: matchID(pmidPattern, r.Citation.PMID)}
	if isBook {
		a, ids = &r.Book.pubmedArticle, append(slices.Clone(r.Book.IDs), r.Book.Locations...)
		w.kind, w.pmid = kindBook, matchID(pmidPattern, r.Book.PMID)
		w.journal, w.publisher = field(string(r.Book.Title)), field(string(r.Book.Publisher))
		w.issued = r.Book.Date.date()
		if w.issued.year == 0 {
			w.issued = r.Book.Revised.date()
		}
	}
	w.title = titleOf(string(a.Title))
	if w.title == "" || w.title == "[Not Available]" {
		w.title = cmp.Or(titleOf(string(a.Vernacular)), w.title)
	}
	switch {
	case isBook && w.title == "":
		w.title, w.journal = w.journal, ""
	case isBook:
		w.kind = kindChapter
	default:
		w.journal, w.abbreviation = field(string(a.Journal.Title)), field(string(a.Journal.Short))
		w.volume, w.issue, w.pages = field(a.Journal.Volume), field(a.Journal.Issue), a.pageRange()
		w.issued = a.Journal.Date.date()
	}
	for i := range a.Online {
		if w.issued.year == 0 {
			w.issued = a.Online[i].date()
		}
	}
	if slices.Contains(a.Types, "Preprint") {
		w.kind, w.genre = kindPreprint, "Preprint"
	}
	for _, id := range ids {
		w.addIdentifier(id)
	}
	w.authors = a.authors()
	w.abstract = a.abstract()
	w.url = "https://pubmed.ncbi.nlm.nih.gov/" + w.pmid + "/"
	return w
}

func (w *work) addIdentifier(id pubmedID) {
	if id.Valid == "N" {
		return
	}
	switch id.Type + id.EType {
	case "doi":
		if w.doi == "" {
			w.doi = normalDOI(id.Text)
		}
	case "pmc":
		if w.pmcid == "" {
			w.pmcid = matchID(pmcidPattern, id.Text)
		}
	}
}

var medlineMonth = regexp.MustCompile(`^\d{4} ([A-Z][a-z]{2})\b`)

func (d *pubmedDate) date() date {
	if d.Year == "" && d.Medline != "" {
		month := ""
		if m := medlineMonth.FindStringSubmatch(tidy(d.Medline)); m != nil {
			month = m[1]
		}
		return parseDate(d.Medline, month, "")
	}
	return parseDate(d.Year, d.Month, d.Day)
}

func (a *pubmedArticle) pageRange() string {
	if p := field(a.Pages.Medline); p != "" {
		return p
	}
	first, last := field(a.Pages.First), field(a.Pages.Last)
	if last != "" && last != first {
		return first + "-" + last
	}
	return first
}

// authors returns the authors of the first list that is not a list of editors.
func (a *pubmedArticle) authors() []person {
	for i := range a.AuthorLists {
		list := &a.AuthorLists[i]
		if list.Type == "editors" {
			continue
		}
		var out []person
		for j := range list.Authors {
			if p := list.Authors[j].person(); p != (person{}) {
				out = append(out, p)
			}
		}
		return out
	}
	return nil
}

func (n *pubmedAuthor) person() person {
	family, given := personName(string(n.Last)), cmp.Or(personName(string(n.Fore)), personName(string(n.Initials)))
	if family == "" {
		return person{literal: cmp.Or(personName(string(n.Collective)), given)}
	}
	return person{family: strings.TrimSpace(family + " " + personName(string(n.Suffix))), given: given}
}

// abstract returns the sections of a structured abstract, each after its label.
func (a *pubmedArticle) abstract() string {
	var parts []string
	for i := range a.Abstract {
		text, label := plainText(string(a.Abstract[i].text)), tidy(a.Abstract[i].label)
		if text == "" {
			continue
		}
		if label != "" && !strings.EqualFold(label, "UNLABELLED") {
			text = label + ": " + text
		}
		parts = append(parts, text)
	}
	return strings.Join(parts, " ")
}
