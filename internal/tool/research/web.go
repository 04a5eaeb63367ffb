package research

import (
	"context"
	"encoding/json"
	"net/url"
	"regexp"
	"time"

	"github.com/turnstone-run/turnstone/agent"
)

const webName = "web"

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

// webSearch asks the provider that is configured.
type webSearch struct {
	provider WebSearch
	pace     pace
	q        WebQuery
}

var sitePattern = regexp.MustCompile(`^([A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?\.)+[A-Za-z]{2,63}$`)

func (t *toolkit) parseWeb(args json.RawMessage) (search, error) {
	var in struct {
		common
		Site    *string `json:"site"`
		Recency *string `json:"recency"`
	}
	if err := decode(args, &in); err != nil {
		return nil, err
	}
	s := webSearch{provider: t.web, pace: t.webPace}
	var err error
	if s.q.Words, s.q.Max, err = in.wanted(DefaultResults); err != nil {
		return nil, err
	}
	if s.q.Site = deref(in.Site); s.q.Site != "" && (len(s.q.Site) > 253 || !sitePattern.MatchString(s.q.Site)) {
		return nil, agent.Invalid("site", "want a host as example.org, got %.50q", s.q.Site)
	}
	if s.q.Recency, err = choice("recency", in.Recency, []string{"day", "week", "month", "year"}); err != nil {
		return nil, err
	}
	return &s, nil
}

func (*webSearch) source() string  { return webName }
func (s *webSearch) title() string { return s.provider.Name() }
func (s *webSearch) wants() int    { return s.q.Max }
func (s *webSearch) words() string { return s.q.Words }

func (s *webSearch) run(ctx context.Context, x *exchange) (*found, error) {
	fetch := func(ctx context.Context, u *url.URL, accept string) (int, []byte, error) {
		resp, err := x.get(ctx, &request{source: webName, title: s.provider.Name(), url: u, accept: accept, pace: s.pace})
		if err != nil {
			return 0, nil, err
		}
		return resp.status, resp.body, nil
	}
	pages, err := s.provider.Search(ctx, s.q, fetch)
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
		if len(out.works) == s.q.Max || w.url == "" || seen[urlKey(w.url)] {
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

// builtin makes a provider by its name.
func builtin(name string, base *url.URL) (WebSearch, pace) {
	switch name {
	case DuckDuckGo:
		return duckDuckGo{base}, perSecond(0.5)
	case SearXNG:
		return searXNG{base}, perSecond(5)
	case Brave:
		return brave{base}, perSecond(1)
	default:
		return nil, pace{}
	}
}
