package research

import (
	"context"
	"encoding/json"
	"net/url"
	"strconv"
	"strings"

	"github.com/turnstone-run/turnstone/agent"
)

// pubmedSearch asks NCBI's E-utilities: esearch for the identifiers, then efetch for all records in one request.
type pubmedSearch struct {
	query string
	max   int
	span  span
	sort  string
}

func parsePubMed(args json.RawMessage) (*search, error) {
	var in struct {
		common
		DateFrom *string `json:"date_from"`
		DateTo   *string `json:"date_to"`
		Sort     *string `json:"sort"`
	}
	if err := decode(args, &in); err != nil {
		return nil, err
	}
	var s pubmedSearch
	var err error
	if s.query, s.max, err = in.queryAndMax(DefaultResults); err != nil {
		return nil, err
	}
	if s.span, err = spanOf(in.DateFrom, in.DateTo); err != nil {
		return nil, err
	}
	if s.sort, err = choice("sort", in.Sort, []string{"relevance", "date"}); err != nil {
		return nil, err
	}
	return s.search(), nil
}

func (s *pubmedSearch) search() *search {
	return &search{source: pubmedName, title: pubmedTitle, query: s.query, max: s.max, run: s.run}
}

func (s *pubmedSearch) run(ctx context.Context, x *exchange) (*searchResult, error) {
	resp, err := x.askNCBI(ctx, "esearch.fcgi", "application/json", s.parameters())
	if err != nil {
		return nil, err
	}
	ids, out, err := parseESearch(resp)
	if err != nil || len(ids) == 0 {
		return out, err
	}
	ids = ids[:min(len(ids), s.max)]
	resp, err = x.askNCBI(ctx, "efetch.fcgi", "application/xml", url.Values{
		"id": {strings.Join(ids, ",")}, "retmode": {"xml"}, "rettype": {"abstract"},
	})
	if err != nil {
		return nil, err
	}
	out.works, err = parseEFetch(resp, ids)
	if missing := len(ids) - len(out.works); missing > 0 && err == nil {
		out.warn("PubMed gave no record for %d of %d results", missing, len(ids))
	}
	return out, err
}

// parameters are those of esearch. It wants both ends of a range or none.
func (s *pubmedSearch) parameters() url.Values {
	p := url.Values{"term": {s.query}, "retmode": {"json"}, "retmax": {strconv.Itoa(s.max)}, "sort": {"relevance"}}
	if s.sort == "date" {
		p.Set("sort", "pub_date")
	}
	if !s.span.open() {
		slashed := strings.NewReplacer("-", "/")
		p.Set("datetype", "pdat")
		p.Set("mindate", slashed.Replace(s.span.first(firstYear)))
		p.Set("maxdate", slashed.Replace(s.span.last(3000)))
	}
	return p
}

// askNCBI sends a request to the E-utilities with what NCBI asks of every caller: tool and email.
func (x *exchange) askNCBI(ctx context.Context, path, accept string, p url.Values) (*response, error) {
	p.Set("db", "pubmed")
	p.Set("tool", callerName)
	if x.kit.cfg.Contact != "" {
		p.Set("email", x.kit.cfg.Contact)
	}
	return x.ask(ctx, pubmedName, path, accept, p)
}

// parseESearch reads {"esearchresult":{"count":"2","idlist":["1","2"],"errorlist":{…},"warninglist":{…}}}.
func parseESearch(resp *response) ([]string, *searchResult, error) {
	var in struct {
		Error  string `json:"error"`
		Result *struct {
			Count     number   `json:"count"`
			IDs       []string `json:"idlist"`
			Error     string   `json:"ERROR"` //nolint:tagliatelle // NCBI's name
			ErrorList struct {
				Phrases []string `json:"phrasesnotfound"`
				Fields  []string `json:"fieldsnotfound"`
			} `json:"errorlist"`
			WarningList struct {
				Ignored  []string `json:"phrasesignored"`
				Quoted   []string `json:"quotedphrasesnotfound"`
				Messages []string `json:"outputmessages"`
			} `json:"warninglist"`
		} `json:"esearchresult"`
	}
	if err := readJSON(pubmedTitle, resp, &in); err != nil {
		return nil, nil, err
	}
	switch {
	case in.Error != "":
		return nil, nil, agent.Errorf(agent.CodeUnavailable, "", "%s answered: %s", pubmedTitle, clip(tidy(in.Error), maxComplaint))
	case in.Result == nil:
		return nil, nil, unreadable(pubmedTitle, "has no esearchresult")
	case in.Result.Error != "":
		return nil, nil, searchError(in.Result.Error)
	}
	r := in.Result
	out := &searchResult{total: int(r.Count)}
	for _, list := range []struct {
		said  string
		words []string
	}{
		{"PubMed does not know %q and searched without it", r.ErrorList.Phrases},
		{"PubMed has no field %q and searched without it", r.ErrorList.Fields},
		{"PubMed ignored %q", r.WarningList.Ignored},
		{"PubMed found no phrase %q and searched its words", r.WarningList.Quoted},
	} {
		for _, w := range list.words {
			out.warn(list.said, clip(tidy(w), 100))
		}
	}
	for _, m := range r.WarningList.Messages {
		if m = tidy(m); m != "" && m != "No items found." {
			out.warn("PubMed: %s", clip(m, maxComplaint))
		}
	}
	var ids []string
	for _, id := range r.IDs {
		if id = matchID(pmidPattern, id); id != "" {
			ids = append(ids, id)
		}
	}
	if len(ids) == 0 && len(r.IDs) > 0 {
		return nil, nil, unreadable(pubmedTitle, "has identifiers that are none")
	}
	return ids, out, nil
}

// searchError tells a query that PubMed cannot read from a search that broke.
func searchError(text string) error {
	text = clip(tidy(text), maxComplaint)
	lower := strings.ToLower(text)
	for _, sign := range []string{"backend", "timeout", "timed out", "unavailable", "can't run executor", "exception", "connection"} {
		if strings.Contains(lower, sign) {
			return agent.Errorf(agent.CodeUnavailable, "", "%s could not search: %s", pubmedTitle, text)
		}
	}
	return agent.Invalid("query", "%s refused it: %s", pubmedTitle, text)
}
