package research

import (
	"context"
	"encoding/json"
	"net/url"
	"regexp"
	"time"

	"github.com/turnstone-run/turnstone/agent"
)

// The providers of search_web.
const (
	DuckDuckGo = "duckduckgo" // its page without scripts; needs no key
	SearXNG    = "searxng"    // the operator's instance, which must allow the format json
	Brave      = "brave"      // needs a key
)

// provider is a search engine.
type provider struct {
	title      string
	defaultURL string // empty: the configuration must have one
	pace       pace
	// search returns pages, the best first. Its errors are [agent.Error] values that a model may see.
	search func(ctx context.Context, q webQuery, get getter) (webPages, error)
}

func providers() map[string]provider {
	return map[string]provider{
		DuckDuckGo: {duckTitle, DefaultDuckDuckGoURL, perSecond(0.5), searchDuckDuckGo},
		SearXNG:    {searxTitle, "", perSecond(5), searchSearXNG},
		Brave:      {braveTitle, DefaultBraveURL, perSecond(1), searchBrave},
	}
}

// getter sends a request to a path of a provider. The error is an [agent.Error].
type getter func(ctx context.Context, path, accept string, query url.Values) (*response, error)

type webQuery struct {
	words   string
	site    string // a host; empty: anywhere
	recency string // day, week, month or year; empty: any time
	max     int    // 1 to 50
}

// text returns the query with its site in the syntax of search engines.
func (q webQuery) text() string {
	if q.site == "" {
		return q.words
	}
	return q.words + " site:" + q.site
}

type webPages struct {
	pages    []webPage
	total    int // 0: unknown
	warnings []string
}

// webPage is a result of a search engine. Title and snippet may have markup.
type webPage struct {
	title     string
	url       string
	snippet   string
	published string // such as 2024-05-17; empty: unknown
}

// webSource returns the configured provider as a source, nil if none is configured.
func webSource(cfg *Config) (*source, error) {
	if cfg.WebProvider == "" {
		return nil, nil //nolint:nilnil // the configuration has no search of the web
	}
	p, ok := providers()[cfg.WebProvider]
	switch {
	case !ok:
		return nil, agent.Invalid("web_provider", "want one of %s, %s, %s, got %.50q", DuckDuckGo, SearXNG, Brave, cfg.WebProvider)
	case p.defaultURL == "" && cfg.WebURL == "":
		return nil, agent.Invalid("web_url", "is required for %s", cfg.WebProvider)
	}
	base, err := parseAddress("web_url", cfg.WebURL, p.defaultURL)
	if err != nil {
		return nil, err
	}
	return &source{
		name: webName, title: p.title, tool: "search_web", description: webDescription, base: base, pace: p.pace,
		parse: p.parse,
		broad: func(query string, n int, _ dateRange) *search { return p.searchFor(webQuery{words: query, max: n}) },
	}, nil
}

var sitePattern = regexp.MustCompile(`^([A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?\.)+[A-Za-z]{2,63}$`)

func (p *provider) parse(args json.RawMessage) (*search, error) {
	var in struct {
		commonArguments
		Site    string  `json:"site"`
		Recency *string `json:"recency"`
	}
	r := readArguments(args, &in)
	q := webQuery{
		words: r.query(in.Query), max: r.maxResults(in.MaxResults, DefaultResults), site: in.Site,
		recency: r.choice("recency", in.Recency, "day", "week", "month", "year"),
	}
	if q.site != "" && (len(q.site) > 253 || !sitePattern.MatchString(q.site)) {
		r.fail(agent.Invalid("site", "want a host as example.org, got %.50q", q.site))
	}
	return p.searchFor(q), r.err
}

// searchFor returns the search for a query.
func (p *provider) searchFor(q webQuery) *search {
	return &search{source: webName, title: p.title, query: q.words, max: q.max, run: func(ctx context.Context, x *exchange) (*searchResult, error) {
		return p.run(ctx, x, q)
	}}
}

func (p *provider) run(ctx context.Context, x *exchange, q webQuery) (*searchResult, error) {
	pages, err := p.search(ctx, q, func(ctx context.Context, path, accept string, query url.Values) (*response, error) {
		return x.ask(ctx, webName, path, accept, query)
	})
	if err != nil {
		return nil, err
	}
	out := &searchResult{total: pages.total}
	for _, w := range pages.warnings {
		out.warn("%s", clip(tidy(w), maxErrorText))
	}
	seen := map[string]bool{}
	for i := range pages.pages {
		w := pages.pages[i].work(x.kit.now())
		if len(out.works) == q.max || w.url == "" || seen[urlKey(w.url)] {
			continue
		}
		seen[urlKey(w.url)] = true
		out.add(&w)
	}
	return out, nil
}

func (p *webPage) work(now time.Time) work {
	w := work{source: webName, kind: kindWebPage, title: titleOf(p.title), url: pageURL(p.url), abstract: plainText(p.snippet), issued: isoDate(p.published)}
	if w.url == "" {
		return w
	}
	if u, err := url.Parse(w.url); err == nil {
		w.journal = u.Hostname()
	}
	if w.title == "" {
		w.title = clip(w.url, maxTitle)
	}
	w.accessed = date{now.Year(), int(now.Month()), now.Day()}
	w.setIdentifiers()
	return w
}
