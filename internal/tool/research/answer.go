package research

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/tool"
)

const (
	shownAuthors = 10
	sampleRows   = 3
	sampleTitle  = 60 // characters; history holds a preview twice
)

// answer is the output of a search.
type answer struct {
	Source   string    `json:"source"`
	Query    string    `json:"query"`
	Total    int       `json:"total,omitzero"` // matches at the source; 0: unknown
	Results  []result  `json:"results"`
	Failed   []failure `json:"failed,omitempty"`
	Warnings []string  `json:"warnings,omitempty"`
}

// failure is a source that failed.
type failure struct {
	Source string `json:"source"`
	Error  string `json:"error"`
}

// result is a work in an answer.
type result struct {
	N        int      `json:"n"` // the number of its reference
	Source   string   `json:"source,omitempty"`
	Also     []string `json:"also_in,omitempty"`
	Title    string   `json:"title"`
	Authors  []string `json:"authors,omitempty"`
	Year     int      `json:"year,omitzero"`
	Date     string   `json:"date,omitempty"`
	Journal  string   `json:"journal,omitempty"`
	DOI      string   `json:"doi,omitempty"`
	PMID     string   `json:"pmid,omitempty"`
	PMCID    string   `json:"pmcid,omitempty"`
	NCT      string   `json:"nct,omitempty"`
	OpenAlex string   `json:"openalex,omitempty"`
	URL      string   `json:"url,omitempty"`

	details

	Abstract string `json:"abstract,omitempty"`
}

// newResult returns a work as a result with the number of its reference.
func newResult(w *work, n int) result {
	r := result{
		N: n, Source: w.source, Also: w.alsoIn, Title: w.title, Year: w.issued.year, Journal: w.journal, DOI: w.doi, PMID: w.pmid, PMCID: w.pmcid,
		NCT: w.nct, OpenAlex: w.openAlex, URL: w.link(), details: w.more, Abstract: clip(w.abstract, maxAbstract),
	}
	if w.issued.month != 0 {
		r.Date = w.issued.text()
	}
	for i, a := range w.authors {
		if i == shownAuthors {
			r.Authors = append(r.Authors, etAl)
			break
		}
		r.Authors = append(r.Authors, a.displayName())
	}
	return r
}

// result returns the answer as the result of a call. If it is longer than maxBytes, abstracts are shortened, because the model would see a
// reference and a sample instead of the results.
func (a *answer) result(maxBytes int) (agent.ToolResult, error) {
	if a.Results == nil {
		a.Results = []result{}
	}
	out, rows, err := a.encode()
	for _, limit := range []int{900, 600, 400, 250, 120, 0} {
		if err != nil || len(out) <= maxBytes {
			break
		}
		short := *a
		short.Results = slices.Clone(a.Results)
		for i := range short.Results {
			short.Results[i].Abstract = clip(short.Results[i].Abstract, limit)
			if limit == 0 {
				short.Results[i].Abstract = ""
			}
		}
		warning := fmt.Sprintf("abstracts are shortened to %d characters so that all results fit: ask for fewer results to see more", limit)
		short.Warnings = append(slices.Clone(a.Warnings), warning)
		out, rows, err = short.encode()
	}
	if err != nil {
		return agent.ToolResult{}, err
	}
	preview, err := a.preview()
	return agent.ToolResult{Output: out, Data: rows, Preview: preview}, err
}

// encode returns the answer as JSON, and its results alone.
func (a *answer) encode() (out, rows json.RawMessage, err error) {
	if rows, err = tool.EncodeJSON(a.Results); err != nil {
		return nil, nil, err
	}
	out, err = tool.EncodeJSON(a)
	return out, rows, err
}

func (a *answer) preview() (json.RawMessage, error) {
	type row struct {
		N     int    `json:"n"`
		Title string `json:"title"`
	}
	sample := []row{}
	for i := range a.Results[:min(sampleRows, len(a.Results))] {
		sample = append(sample, row{a.Results[i].N, clip(a.Results[i].Title, sampleTitle)})
	}
	return tool.EncodeJSON(map[string]any{"type": "dataset", "row_count": len(a.Results), "sample": sample})
}
