package research

import (
	"context"
	"net/url"
	"strconv"
)

const (
	braveTitle = "Brave Search"
	braveMax   = 20 // results of one request
)

// searchBrave asks the API of Brave Search. An auth profile must add its key as the header X-Subscription-Token.
func searchBrave(ctx context.Context, q webQuery, get getter) (webPages, error) {
	p := url.Values{"q": {q.text()}, "count": {strconv.Itoa(min(q.max, braveMax))}}
	if q.recency != "" {
		p.Set("freshness", "p"+q.recency[:1]) // pd, pw, pm, py
	}
	resp, err := get(ctx, "res/v1/web/search", "application/json", p)
	if err != nil {
		return webPages{}, err
	}
	out, err := parseBrave(resp)
	if err == nil && q.max > braveMax && len(out.pages) >= braveMax {
		out.warnings = append(out.warnings, "Brave Search answers with 20 results at most")
	}
	return out, err
}

// parseBrave reads {"type":"search","web":{"results":[{"title","url","description","page_age"}]}}. Without results, "web" is missing.
func parseBrave(resp *response) (webPages, error) {
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
	if err := readJSON(braveTitle, resp, &in); err != nil {
		return webPages{}, err
	}
	switch {
	case in.Error.Detail != "":
		return webPages{}, answeredError(braveTitle, in.Error.Detail)
	case in.Type != "search":
		return webPages{}, unreadableError(braveTitle, "is no search")
	}
	var out webPages
	for _, r := range in.Web.Results {
		if len(out.pages) == MaxResults {
			break
		}
		out.pages = append(out.pages, webPage{title: r.Title, url: r.URL, snippet: r.Description, published: r.Age})
	}
	return out, nil
}
