package research

import (
	"context"
	"encoding/json"
	"net/url"
	"strconv"
	"strings"

	"github.com/turnstone-run/turnstone/agent"
)

const (
	preprintsName  = "preprints"
	preprintsTitle = "Europe PMC"
)

// preprintsSearch asks Europe PMC for preprints alone: bioRxiv, medRxiv, arXiv, Research Square and others.
type preprintsSearch struct {
	query string
	max   int
	span  span
}

func parsePreprints(args json.RawMessage) (search, error) {
	var in struct {
		common
		DateFrom *string `json:"date_from"`
		DateTo   *string `json:"date_to"`
	}
	if err := decode(args, &in); err != nil {
		return nil, err
	}
	var s preprintsSearch
	var err error
	if s.query, s.max, err = in.wanted(DefaultResults); err != nil {
		return nil, err
	}
	if s.span, err = spanOf(in.DateFrom, in.DateTo); err != nil {
		return nil, err
	}
	return &s, balanced(s.query)
}

// balanced refuses a query that would not stay within the parentheses that are put around it.
func balanced(query string) error {
	depth, quoted := 0, false
	for _, r := range query {
		switch {
		case r == '"':
			quoted = !quoted
		case quoted:
		case r == '(':
			depth++
		case r == ')':
			depth--
		}
		if depth < 0 {
			break
		}
	}
	switch {
	case quoted:
		return agent.Invalid("query", "has a quotation mark without its other")
	case depth != 0:
		return agent.Invalid("query", "has a parenthesis without its other")
	default:
		return nil
	}
}

func (*preprintsSearch) source() string  { return preprintsName }
func (*preprintsSearch) title() string   { return preprintsTitle }
func (s *preprintsSearch) wants() int    { return s.max }
func (s *preprintsSearch) words() string { return s.query }

func (s *preprintsSearch) run(ctx context.Context, x *exchange) (*found, error) {
	p := url.Values{"query": {s.expression()}, "format": {"json"}, "resultType": {"core"}, "pageSize": {strconv.Itoa(s.max)}}
	if x.kit.cfg.Contact != "" {
		p.Set("email", x.kit.cfg.Contact)
	}
	resp, err := x.get(ctx, &request{
		source: preprintsName, title: preprintsTitle, url: at(x.kit.preprints, "search", p), accept: "application/json", pace: perSecond(10),
	})
	if err != nil {
		return nil, err
	}
	return parseEuropePMC(resp, s.max)
}

func (s *preprintsSearch) expression() string {
	q := "(" + s.query + ") AND (SRC:PPR)"
	if !s.span.open() {
		q += " AND (FIRST_PDATE:[" + s.span.first(firstYear) + " TO " + s.span.last(3000) + "])"
	}
	return q
}

// preprint is the part of a record, resultType core, that we read.
//
//nolint:tagliatelle // Europe PMC's names
type preprint struct {
	ID       string `json:"id"`
	Source   string `json:"source"`
	DOI      string `json:"doi"`
	Title    string `json:"title"`
	Authors  string `json:"authorString"`
	Abstract string `json:"abstractText"`
	Year     string `json:"pubYear"`
	Date     string `json:"firstPublicationDate"`
	CitedBy  number `json:"citedByCount"`
	List     struct {
		Authors []struct {
			Full       string `json:"fullName"`
			First      string `json:"firstName"`
			Last       string `json:"lastName"`
			Initials   string `json:"initials"`
			Collective string `json:"collectiveName"`
		} `json:"author"`
	} `json:"authorList"`
	Details struct {
		Publisher string `json:"publisher"`
	} `json:"bookOrReportDetails"`
	Comments struct {
		List []struct {
			ID     string `json:"id"`
			Source string `json:"source"`
			Type   string `json:"type"`
		} `json:"commentCorrection"`
	} `json:"commentCorrectionList"`
}

// parseEuropePMC reads {"hitCount":1,"resultList":{"result":[…]}}; an error is {"errCode":400,"errMsg":"…"}, with any status.
func parseEuropePMC(resp *response, limit int) (*found, error) {
	//nolint:tagliatelle // Europe PMC's names
	var in struct {
		Hits  number `json:"hitCount"`
		Error string `json:"errMsg"`
		List  *struct {
			Results []preprint `json:"result"`
		} `json:"resultList"`
	}
	if err := readJSON(preprintsTitle, resp, &in); err != nil {
		return nil, err
	}
	switch {
	case in.Error != "":
		return nil, agent.Invalid("query", "%s refused it: %s", preprintsTitle, clip(tidy(in.Error), maxComplaint))
	case in.List == nil:
		return nil, unreadable(preprintsTitle, "has no resultList")
	}
	out := &found{total: int(in.Hits)}
	for i := range in.List.Results {
		r := &in.List.Results[i]
		if r.Source != "PPR" || len(out.works) == limit {
			continue // nothing but preprints is promised
		}
		w := r.work()
		out.add(&w)
	}
	return out, nil
}

func (r *preprint) work() work {
	w := work{source: preprintsName, kind: kindPreprint, genre: "Preprint", title: titleOf(r.Title), doi: normalDOI(r.DOI), europe: matching(europePattern, r.ID)}
	w.journal = field(r.Details.Publisher)
	if w.issued = isoDate(r.Date); w.issued.year == 0 {
		w.issued = dateOf(r.Year, "", "")
	}
	w.abstract = plain(r.Abstract)
	w.authors = r.authors()
	w.more.CitedBy = int(r.CitedBy)
	for _, c := range r.Comments.List {
		if c.Source == "MED" && strings.EqualFold(c.Type, "Preprint of") {
			w.more.PublishedPMID = matching(pmidPattern, c.ID)
		}
	}
	switch {
	case w.doi != "":
		w.url = doiURL(w.doi)
	case w.europe != "":
		w.url = "https://europepmc.org/article/PPR/" + w.europe
	}
	return w
}

func (r *preprint) authors() []person {
	var out []person
	for i := range r.List.Authors {
		a := &r.List.Authors[i]
		p := person{family: name(a.Last), given: name(a.First)}
		if p.given == "" {
			p.given = name(a.Initials)
		}
		if p.family == "" {
			p = person{literal: name(a.Collective)}
			if p.literal == "" {
				p.literal = name(a.Full)
			}
		}
		if p != (person{}) {
			out = append(out, p)
		}
	}
	if len(out) > 0 {
		return out
	}
	for text := range strings.SplitSeq(strings.TrimSuffix(plain(r.Authors), "."), ", ") {
		if text = name(text); text != "" && len(out) < maxAuthors+1 {
			out = append(out, initialled(text))
		}
	}
	return out
}

// initialled reads "Nguyen TK".
func initialled(text string) person {
	at := strings.LastIndexByte(text, ' ')
	if at < 0 || strings.ToUpper(text[at:]) != text[at:] || len(text[at:]) > 5 {
		return person{literal: text}
	}
	return person{family: text[:at], given: text[at+1:]}
}
