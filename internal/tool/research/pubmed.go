package research

import (
	"context"
	"encoding/json"
	"net/url"
	"regexp"
	"strconv"
	"strings"

	"github.com/turnstone-run/turnstone/agent"
)

// pubmedSearch asks NCBI's E-utilities: esearch for the identifiers, then efetch for all records in one request.
type pubmedSearch struct {
	query string
	max   int
	dates dateRange
	sort  string
}

func parsePubMed(args json.RawMessage) (*search, error) {
	var in struct {
		commonArguments
		DateFrom *string `json:"date_from"`
		DateTo   *string `json:"date_to"`
		Sort     *string `json:"sort"`
	}
	r := readArguments(args, &in)
	s := &pubmedSearch{
		query: r.query(in.Query), max: r.maxResults(in.MaxResults, DefaultResults), dates: r.dates(in.DateFrom, in.DateTo),
		sort: r.choice("sort", in.Sort, "relevance", "date"),
	}
	return s.search(), r.err
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

// parameters returns the query of esearch, which wants both ends of a date range or neither.
func (s *pubmedSearch) parameters() url.Values {
	p := url.Values{"term": {s.query}, "retmode": {"json"}, "retmax": {strconv.Itoa(s.max)}, "sort": {"relevance"}}
	if s.sort == "date" {
		p.Set("sort", "pub_date")
	}
	if !s.dates.isOpen() {
		p.Set("datetype", "pdat")
		p.Set("mindate", strings.ReplaceAll(s.dates.firstDay(firstYear), "-", "/"))
		p.Set("maxdate", strings.ReplaceAll(s.dates.lastDay(3000), "-", "/"))
	}
	return p
}

// askNCBI sends a request to the E-utilities. It adds the parameters tool and email, which NCBI wants from every caller.
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
		return nil, nil, answeredError(pubmedTitle, in.Error)
	case in.Result == nil:
		return nil, nil, unreadableError(pubmedTitle, "has no esearchresult")
	case in.Result.Error != "":
		return nil, nil, searchError(in.Result.Error)
	}
	r := in.Result
	out := &searchResult{total: int(r.Count)}
	for _, list := range []struct {
		warning string
		words   []string
	}{
		{"PubMed does not know %q and searched without it", r.ErrorList.Phrases},
		{"PubMed has no field %q and searched without it", r.ErrorList.Fields},
		{"PubMed ignored %q", r.WarningList.Ignored},
		{"PubMed found no phrase %q and searched its words", r.WarningList.Quoted},
	} {
		for _, w := range list.words {
			out.warn(list.warning, clip(tidy(w), 100))
		}
	}
	for _, m := range r.WarningList.Messages {
		if m = tidy(m); m != "" && m != "No items found." {
			out.warn("PubMed: %s", clip(m, maxErrorText))
		}
	}
	var ids []string
	for _, id := range r.IDs {
		if id = matchID(pmidPattern, id); id != "" {
			ids = append(ids, id)
		}
	}
	if len(ids) == 0 && len(r.IDs) > 0 {
		return nil, nil, unreadableError(pubmedTitle, "has identifiers that are none")
	}
	return ids, out, nil
}

var brokenSearch = regexp.MustCompile(`(?i)backend|timeout|timed out|unavailable|can't run executor|exception|connection`)

// searchError returns the error of a search: unavailable if PubMed is broken, invalid if it does not accept the query.
func searchError(text string) error {
	text = clip(tidy(text), maxErrorText)
	if brokenSearch.MatchString(text) {
		return agent.Errorf(agent.CodeUnavailable, "", "%s could not search: %s", pubmedTitle, text)
	}
	return agent.Invalid("query", "%s refused it: %s", pubmedTitle, text)
}
