package research

import (
	"context"
	"encoding/json"
	"net/url"
	"time"
)

// The names of the sources, in arguments, answers and [Config.Rates].
const (
	pubmedName    = "pubmed"
	trialsName    = "clinical_trials"
	preprintsName = "preprints"
	openAlexName  = "openalex"
	webName       = "web"
)

// The titles of the sources, for people.
const (
	pubmedTitle    = "PubMed"
	trialsTitle    = "ClinicalTrials.gov"
	preprintsTitle = "Europe PMC"
	openAlexTitle  = "OpenAlex"
)

// source is a service that the toolkit searches.
type source struct {
	name, title       string
	tool, description string
	setting           string // the field of the configuration that holds the address
	defaultURL        string
	base              *url.URL // the address
	pace              pace     // of requests without credentials
	keyedPace         pace     // of requests with credentials; zero: the same as pace

	parse func(args json.RawMessage) (*search, error)
	broad func(query string, maxResults int, years dateRange) *search // returns the source's part of search_research
}

// literatureSources returns the sources besides the web, in the order of their tools.
func literatureSources() []*source {
	return []*source{
		{
			name: pubmedName, title: pubmedTitle, tool: "search_pubmed", description: pubmedDescription,
			setting: "pubmed_url", defaultURL: DefaultPubMedURL, pace: perSecond(3), keyedPace: perSecond(10),
			parse: parsePubMed,
			broad: func(query string, n int, years dateRange) *search {
				return (&pubmedSearch{query: query, max: n, dates: years}).search()
			},
		},
		{
			name: trialsName, title: trialsTitle, tool: "search_clinical_trials", description: trialsDescription,
			setting: "trials_url", defaultURL: DefaultTrialsURL, pace: pace{every: 1200 * time.Millisecond, burst: 3}, // about 50 a minute
			parse: parseTrials,
			broad: func(query string, n int, _ dateRange) *search { return (&trialsSearch{query: query, max: n}).search() },
		},
		{
			name: preprintsName, title: preprintsTitle, tool: "search_preprints", description: preprintsDescription,
			setting: "preprints_url", defaultURL: DefaultPreprintsURL, pace: perSecond(10),
			parse: parsePreprints, broad: broadPreprints,
		},
		{
			name: openAlexName, title: openAlexTitle, tool: "search_openalex", description: openAlexDescription,
			setting: "openalex_url", defaultURL: DefaultOpenAlexURL, pace: perSecond(10),
			parse: parseOpenAlex,
			broad: func(query string, n int, years dateRange) *search {
				return (&openAlexSearch{query: query, max: n, dates: years}).search()
			},
		},
	}
}

// search is a search of one source or of several, with the checked arguments of a call.
type search struct {
	source string // the names of the sources, separated by commas
	title  string // for people
	query  string
	max    int // results
	run    func(ctx context.Context, x *exchange) (*searchResult, error)
}

// ask sends a request to a path of a source, which it finds by name.
func (x *exchange) ask(ctx context.Context, name, path, accept string, query url.Values) (*response, error) {
	s := x.kit.byName[name]
	return x.get(ctx, s, withQuery(s.base, path, query), accept)
}
