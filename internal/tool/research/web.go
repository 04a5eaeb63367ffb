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
	SearXNG    = "searxng"    // one's own instance, with the format json allowed
	Brave      = "brave"      // needs a key
)

// provider is a search engine. Its errors are [agent.Error] values that a model may be shown.
type provider struct {
	title      string
	defaultURL string // empty: the configuration must give one
	pace       pace
	search     func(ctx context.Context, q webQuery, get getter) (webPages, error) // the best pages first
}

func providers() map[string]provider {
	return map[string]provider{
		DuckDuckGo: {duckTitle, DefaultDuckDuckGoURL, perSecond(0.5), searchDuckDuckGo},
		SearXNG:    {searxTitle, "", perSecond(5), searchSearXNG},
		Brave:      {braveTitle, DefaultBraveURL, perSecond(1), searchBrave},
	}
}

// getter gets a path of a provider. The error is an [agent.Error].
type getter func(ctx context.Context, path, accept string, query url.Values) (*response, error)

type webQuery struct {
	words   string
	site    string // a host; empty: anywhere
	recency string // day, week, month or year; empty: any time
	max     int    // 1 to 50
}

// text returns the query with its site as search engines write it.
func (q webQuery) text() string {
	if q.site == "" {
		return q.words
	}
	return q.words + " site:" + q.site
}

type webPages struct {
	pages    []webPage
	total    int // 0: not told
	warnings []string
}

// webPage is a page that was found. Title and snippet may hold markup.
type webPage struct {
	title     string
	url       string
	snippet   string
	published string // as 2024-05-17, empty if not known
}

// webSource returns the source web as it is configured, nil if it is not.
func webSource(cfg *Config) (*source, error) {
	if cfg.WebProvider == "" {
		return nil, nil //nolint:nilnil // there is no search of the web
	}
	p, ok := providers()[cfg.WebProvider]
	switch {
	case !ok:
		return nil, agent.Invalid("web_provider", "want one of %s, %s, %s, got %.50q", DuckDuckGo, SearXNG, Brave, cfg.WebProvider)
	case p.defaultURL == "" && cfg.WebURL == "":
		return nil, agent.Invalid("web_url", "is required for %s", cfg.WebProvider)
	}
	base, err := address("web_url", cfg.WebURL, p.defaultURL)
	if err != nil {
		return nil, err
	}
	return &source{
		name: webName, title: p.title, tool: "search_web", description: webDescription, base: base, pace: p.pace,
		parse: p.parse,
		broad: func(query string, n int, _ span) *search { return p.searchFor(webQuery{words: query, max: n}) },
	}, nil
}

var sitePattern = regexp.MustCompile(`^([A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?\.)+[A-Za-z]{2,63}$`)

func (p *provider) parse(args json.RawMessage) (*search, error) {
	var in struct {
		common
		Site    *string `json:"site"`
		Recency *string `json:"recency"`
	}
	if err := decode(args, &in); err != nil {
		return nil, err
	}
	var q webQuery
	var err error
	if q.words, q.max, err = in.queryAndMax(DefaultResults); err != nil {
		return nil, err
	}
	if q.site = valueOf(in.Site); q.site != "" && (len(q.site) > 253 || !sitePattern.MatchString(q.site)) {
		return nil, agent.Invalid("site", "want a host as example.org, got %.50q", q.site)
	}
	if q.recency, err = choice("recency", in.Recency, []string{"day", "week", "month", "year"}); err != nil {
		return nil, err
	}
	return p.searchFor(q), nil
}

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
		out.warn("%s", clip(tidy(w), maxComplaint))
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
	w.seen = date{now.Year(), int(now.Month()), now.Day()}
	w.readIdentifiers()
	return w
}
