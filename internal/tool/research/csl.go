package research

import (
	"slices"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/tool"
)

// The CSL types of works.
const (
	kindArticle  = "article-journal"
	kindPreprint = "article"
	kindBook     = "book"
	kindChapter  = "chapter"
	kindDataset  = "dataset"
	kindPaper    = "paper-conference"
	kindReport   = "report"
	kindThesis   = "thesis"
	kindWebPage  = "webpage"
)

// item is a work in CSL-JSON, as the bibliography stores it: the fields for a citation, without the abstract. The names of the fields are those
// of the schema of citationstyles.org. ID and Number are set when the bibliography is listed.
//
//nolint:tagliatelle // CSL's names
type item struct {
	ID        string    `json:"id,omitempty"`
	Number    int       `json:"citation-number,omitzero"`
	Type      string    `json:"type"`
	Title     string    `json:"title"`
	Authors   []cslName `json:"author,omitempty"`
	Issued    *cslDate  `json:"issued,omitempty"`
	Journal   string    `json:"container-title,omitempty"`
	Short     string    `json:"container-title-short,omitempty"`
	Volume    string    `json:"volume,omitempty"`
	Issue     string    `json:"issue,omitempty"`
	Page      string    `json:"page,omitempty"`
	Publisher string    `json:"publisher,omitempty"`
	Genre     string    `json:"genre,omitempty"`
	ReportNo  string    `json:"number,omitempty"`
	DOI       string    `json:"DOI,omitempty"`
	PMID      string    `json:"PMID,omitempty"`
	PMCID     string    `json:"PMCID,omitempty"`
	URL       string    `json:"URL,omitempty"`
	Accessed  *cslDate  `json:"accessed,omitempty"`
}

type cslName struct {
	Family  string `json:"family,omitempty"`
	Given   string `json:"given,omitempty"`
	Literal string `json:"literal,omitempty"`
}

// cslDate is a date in CSL-JSON.
//
//nolint:tagliatelle // CSL's name
type cslDate struct {
	Parts [][]int `json:"date-parts"` // year, and perhaps month and day
}

// csl returns the date in CSL-JSON, nil if the year is unknown.
func (d date) csl() *cslDate {
	switch {
	case d.year == 0:
		return nil
	case d.month == 0:
		return &cslDate{[][]int{{d.year}}}
	case d.day == 0:
		return &cslDate{[][]int{{d.year, d.month}}}
	default:
		return &cslDate{[][]int{{d.year, d.month, d.day}}}
	}
}

// year returns the year of a date, 0 if there is none.
func (d *cslDate) year() int {
	if d == nil || len(d.Parts) == 0 || len(d.Parts[0]) == 0 {
		return 0
	}
	return d.Parts[0][0]
}

// etAl stands for the remaining authors at the end of a shortened list.
const etAl = "et al."

// reference returns the work as a reference of the bibliography.
func (w *work) reference() (agent.Reference, error) {
	it := item{
		Type: w.kind, Title: w.title, Issued: w.issued.csl(), Journal: w.journal, Short: w.abbreviation, Volume: w.volume, Issue: w.issue, Page: w.pages,
		Publisher: w.publisher, Genre: w.genre, ReportNo: w.nct, DOI: w.doi, PMID: w.pmid, PMCID: w.pmcid, URL: w.link(), Accessed: w.accessed.csl(),
	}
	for i, a := range w.authors {
		if i == maxAuthors {
			it.Authors = append(it.Authors, cslName{Literal: etAl})
			break
		}
		it.Authors = append(it.Authors, cslName{Family: a.family, Given: a.given, Literal: a.literal})
	}
	raw, err := tool.EncodeJSON(it)
	if err != nil {
		return agent.Reference{}, err
	}
	keys := w.keys()
	return agent.Reference{Key: keys[0], Aliases: slices.Clone(keys[1:]), Source: w.source, Item: raw}, nil
}
