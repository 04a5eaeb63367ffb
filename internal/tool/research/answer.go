package research

import (
	"encoding/json"
	"fmt"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/tool"
)

const (
	shownAuthors  = 10
	defaultInline = 32 << 10 // bytes of an output, unless the invocation says otherwise
	sampleRows    = 3
	sampleTitle   = 60 // characters: history holds a preview twice
)

// answer is what a model gets.
type answer struct {
	Source   string    `json:"source"`
	Query    string    `json:"query"`
	Total    int       `json:"total,omitzero"` // matches, as far as the source tells
	Results  []result  `json:"results"`
	Failed   []failure `json:"failed,omitempty"` // sources of several that failed
	Warnings []string  `json:"warnings,omitempty"`
}

// failure is a source that failed.
type failure struct {
	Source string `json:"source"`
	Error  string `json:"error"`
}

// result is a work as it is answered.
type result struct {
	N        int      `json:"n"`
	Source   string   `json:"source,omitempty"` // of several
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

func resultOf(w *work, n int) result {
	r := result{
		N: n, Source: w.source, Also: w.also, Title: w.title, Year: w.issued.year, Journal: w.journal, DOI: w.doi, PMID: w.pmid, PMCID: w.pmcid,
		NCT: w.nct, OpenAlex: w.openAlex, URL: w.link(), details: w.more, Abstract: clip(w.abstract, maxAbstract),
	}
	if w.issued.month != 0 {
		r.Date = w.issued.text()
	}
	for i, a := range w.authors {
		if i == shownAuthors {
			r.Authors = append(r.Authors, others)
			break
		}
		r.Authors = append(r.Authors, a.display())
	}
	return r
}

// result encodes an answer within so many bytes: beyond them the model would be shown a reference and a sample in place of the results, so
// abstracts are shortened first.
func (a *answer) result(inline int) (agent.ToolResult, error) {
	if inline <= 0 {
		inline = defaultInline
	}
	if a.Results == nil {
		a.Results = []result{}
	}
	out, rows, err := a.encode()
	for _, limit := range []int{900, 600, 400, 250, 120, 0} {
		if err != nil || len(out) <= inline {
			break
		}
		short := *a
		short.Results = append([]result(nil), a.Results...)
		for i := range short.Results {
			short.Results[i].Abstract = clip(short.Results[i].Abstract, limit)
			if limit == 0 {
				short.Results[i].Abstract = ""
			}
		}
		said := fmt.Sprintf("abstracts are shortened to %d characters so that all results fit: ask for fewer results to see more", limit)
		short.Warnings = append(append([]string(nil), a.Warnings...), said)
		out, rows, err = short.encode()
	}
	if err != nil {
		return agent.ToolResult{}, err
	}
	preview, err := a.preview()
	return agent.ToolResult{Output: out, Data: rows, Preview: preview}, err
}

// encode writes the answer; rows are the results, as they stand in it.
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
