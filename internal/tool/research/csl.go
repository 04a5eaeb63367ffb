package research

import (
	"slices"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/tool"
)

// The types of CSL that works have.
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

// item is a work in CSL-JSON, as it is kept in the bibliography: what a citation needs, without the abstract. The names of the fields
// are those of the schema of citationstyles.org; id and citation-number are set when it is listed.
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

//
//nolint:tagliatelle // CSL's name
type cslDate struct {
	Parts [][]int `json:"date-parts"`
}

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

// year is 0 when there is none.
func (d *cslDate) year() int {
	if d == nil || len(d.Parts) == 0 || len(d.Parts[0]) == 0 {
		return 0
	}
	return d.Parts[0][0]
}

// others ends a list of authors that is longer than is kept.
const others = "et al."

// reference is the work as the bibliography keeps it.
func (w *work) reference() (agent.Reference, error) {
	it := item{
		Type: w.kind, Title: w.title, Issued: w.issued.csl(), Journal: w.journal, Short: w.short, Volume: w.volume, Issue: w.issue, Page: w.pages,
		Publisher: w.publish, Genre: w.genre, ReportNo: w.nct, DOI: w.doi, PMID: w.pmid, PMCID: w.pmcid, URL: w.link(), Accessed: w.seen.csl(),
	}
	for i, a := range w.authors {
		if i == maxAuthors {
			it.Authors = append(it.Authors, cslName{Literal: others})
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
