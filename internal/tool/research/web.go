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

// WebSearch is a provider of search_web. Errors are [agent.Error] values that a model may be shown.
type WebSearch interface {
	// Name is the provider's, for people.
	Name() string
	// Search returns pages, the best first. fetch gets a URL within the egress rules and the provider's rate, with the credentials that the
	// tool's binding has for its host.
	Search(ctx context.Context, q WebQuery, fetch Fetch) (WebPages, error)
}

// WebQuery is what is searched for.
type WebQuery struct {
	Words   string
	Site    string // a host; empty: anywhere
	Recency string // day, week, month or year; empty: any time
	Max     int    // 1 to 50
}

// Text is the query with its site as search engines write it.
func (q WebQuery) Text() string {
	if q.Site == "" {
		return q.Words
	}
	return q.Words + " site:" + q.Site
}

// Fetch gets a URL. The error is an [agent.Error]; any status of 200 to 299 is an answer.
type Fetch func(ctx context.Context, u *url.URL, accept string) (status int, body []byte, err error)

// WebPages is what a provider has found.
type WebPages struct {
	Pages    []WebPage
	Total    int // 0: not told
	Warnings []string
}

// WebPage is a page. Title and Snippet may hold markup.
type WebPage struct {
	Title     string
	URL       string
	Snippet   string
	Published string // as 2024-05-17, empty when not known
}

// web is a search of the web by the provider that is configured.
type web struct {
	provider WebSearch
	source   *source
}

// newWeb returns the source web.
func newWeb(provider WebSearch, p pace) *source {
	s := &source{name: webName, title: provider.Name(), tool: "search_web", description: webDescription, pace: p}
	w := &web{provider: provider, source: s}
	s.parse = w.parse
	s.broad = func(query string, n int, _ span) *search { return w.search(WebQuery{Words: query, Max: n}) }
	return s
}

var sitePattern = regexp.MustCompile(`^([A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?\.)+[A-Za-z]{2,63}$`)

func (w *web) parse(args json.RawMessage) (*search, error) {
	var in struct {
		common
		Site    *string `json:"site"`
		Recency *string `json:"recency"`
	}
	if err := decode(args, &in); err != nil {
		return nil, err
	}
	var q WebQuery
	var err error
	if q.Words, q.Max, err = in.wanted(DefaultResults); err != nil {
		return nil, err
	}
	if q.Site = deref(in.Site); q.Site != "" && (len(q.Site) > 253 || !sitePattern.MatchString(q.Site)) {
		return nil, agent.Invalid("site", "want a host as example.org, got %.50q", q.Site)
	}
	if q.Recency, err = choice("recency", in.Recency, []string{"day", "week", "month", "year"}); err != nil {
		return nil, err
	}
	return w.search(q), nil
}

func (w *web) search(q WebQuery) *search {
	return &search{source: webName, title: w.source.title, query: q.Words, max: q.Max, run: func(ctx context.Context, x *exchange) (*found, error) {
		return w.run(ctx, x, q)
	}}
}

func (w *web) run(ctx context.Context, x *exchange, q WebQuery) (*found, error) {
	fetch := func(ctx context.Context, u *url.URL, accept string) (int, []byte, error) {
		resp, err := x.get(ctx, w.source, u, accept)
		if err != nil {
			return 0, nil, err
		}
		return resp.status, resp.body, nil
	}
	pages, err := w.provider.Search(ctx, q, fetch)
	if err != nil {
		return nil, err
	}
	out := &found{total: pages.Total}
	for _, w := range pages.Warnings {
		out.warn("%s", clip(tidy(w), maxComplaint))
	}
	seen := map[string]bool{}
	for i := range pages.Pages {
		w := pages.Pages[i].work(x.kit.now())
		if len(out.works) == q.Max || w.url == "" || seen[urlKey(w.url)] {
			continue
		}
		seen[urlKey(w.url)] = true
		out.add(&w)
	}
	return out, nil
}

func (p *WebPage) work(now time.Time) work {
	w := work{source: webName, kind: kindWebPage, title: titleOf(p.Title), url: pageURL(p.URL), abstract: plain(p.Snippet), issued: isoDate(p.Published)}
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
	w.identify()
	return w
}

// webSource returns the source web as it is configured, nil if it is not.
func webSource(cfg *Config) (*source, error) {
	if cfg.Web != nil {
		return newWeb(cfg.Web, perSecond(1)), nil
	}
	if cfg.WebProvider == "" {
		return nil, nil //nolint:nilnil // there is no search of the web
	}
	providers := map[string]struct {
		defaultURL string
		pace       pace
		at         func(base *url.URL) WebSearch
	}{
		DuckDuckGo: {DefaultDuckDuckGoURL, perSecond(0.5), func(base *url.URL) WebSearch { return duckDuckGo{base} }},
		SearXNG:    {"", perSecond(5), func(base *url.URL) WebSearch { return searXNG{base} }},
		Brave:      {DefaultBraveURL, perSecond(1), func(base *url.URL) WebSearch { return brave{base} }},
	}
	p, ok := providers[cfg.WebProvider]
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
	return newWeb(p.at(base), p.pace), nil
}
