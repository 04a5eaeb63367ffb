package research

import (
	"context"
	"net/url"
	"strconv"

	"github.com/turnstone-run/turnstone/agent"
)

const (
	braveTitle = "Brave Search"
	braveMax   = 20 // results of a request
)

// brave asks the API of Brave Search. Its key is a header, X-Subscription-Token, of an auth profile.
type brave struct{ base *url.URL }

func (brave) Name() string { return braveTitle }

func (b brave) Search(ctx context.Context, q WebQuery, fetch Fetch) (WebPages, error) {
	p := url.Values{"q": {q.Text()}, "count": {strconv.Itoa(min(q.Max, braveMax))}}
	if q.Recency != "" {
		p.Set("freshness", "p"+q.Recency[:1]) // pd, pw, pm, py
	}
	_, body, err := fetch(ctx, withQuery(b.base, "res/v1/web/search", p), "application/json")
	if err != nil {
		return WebPages{}, err
	}
	out, err := parseBrave(body)
	if err == nil && q.Max > braveMax && len(out.Pages) >= braveMax {
		out.Warnings = append(out.Warnings, "Brave Search answers with 20 results at most")
	}
	return out, err
}

// parseBrave reads {"type":"search","web":{"results":[{"title","url","description","page_age"}]}}; without a match there is no "web".
func parseBrave(body []byte) (WebPages, error) {
	var in struct {
		Type string `json:"type"`
		Web  struct {
			Results []struct {
				Title       string `json:"title"`
				URL         string `json:"url"`
				Description string `json:"description"`
				Age         string `json:"page_age"`
			} `json:"results"`
		} `json:"web"`
		Error struct {
			Detail string `json:"detail"`
		} `json:"error"`
	}
	if err := readJSON(braveTitle, &response{body: body}, &in); err != nil {
		return WebPages{}, err
	}
	switch {
	case in.Error.Detail != "":
		return WebPages{}, agent.Errorf(agent.CodeUnavailable, "", "%s answered: %s", braveTitle, clip(tidy(in.Error.Detail), maxComplaint))
	case in.Type != "search":
		return WebPages{}, unreadable(braveTitle, "is no search")
	}
	var out WebPages
	for _, r := range in.Web.Results {
		if len(out.Pages) == MaxResults {
			break
		}
		out.Pages = append(out.Pages, WebPage{Title: r.Title, URL: r.URL, Snippet: r.Description, Published: r.Age})
	}
	return out, nil
}
