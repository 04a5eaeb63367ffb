package research

import (
	"context"
	"encoding/json"
	"errors"
	"net/url"

	"github.com/turnstone-run/turnstone/agent"
)

const searxTitle = "SearXNG"

// searchSearXNG asks the operator's SearXNG instance.
func searchSearXNG(ctx context.Context, q webQuery, get getter) (webPages, error) {
	p := url.Values{"q": {q.text()}, "format": {"json"}}
	if q.recency != "" {
		p.Set("time_range", q.recency)
	}
	resp, err := get(ctx, "search", "application/json", p)
	if e, ok := errors.AsType[*agent.Error](err); ok && e.Code == agent.CodeDenied {
		return webPages{}, agent.Errorf(e.Code, "", "%w (does the instance allow the format json?)", e)
	}
	if err != nil {
		return webPages{}, err
	}
	return parseSearXNG(resp)
}

// parseSearXNG reads {"results":[{"url","title","content","publishedDate"}],"unresponsive_engines":[["bing","timeout"]]}.
func parseSearXNG(resp *response) (webPages, error) {
	var in struct {
		Total   number `json:"number_of_results"`
		Results *[]struct {
			URL       string `json:"url"`
			Title     string `json:"title"`
			Content   string `json:"content"`
			Published string `json:"publishedDate"` //nolint:tagliatelle // SearXNG's name
		} `json:"results"`
		Unresponsive [][]json.RawMessage `json:"unresponsive_engines"` // name and reason
	}
	if err := readJSON(searxTitle, resp, &in); err != nil {
		return webPages{}, err
	}
	if in.Results == nil {
		return webPages{}, unreadableError(searxTitle, "has no results")
	}
	out := webPages{total: int(in.Total)}
	for _, r := range *in.Results {
		if len(out.pages) == MaxResults {
			break
		}
		out.pages = append(out.pages, webPage{title: r.Title, url: r.URL, snippet: r.Content, published: r.Published})
	}
	for _, engine := range in.Unresponsive {
		var name, reason string
		if len(engine) < 2 || json.Unmarshal(engine[0], &name) != nil || json.Unmarshal(engine[1], &reason) != nil {
			continue
		}
		if len(out.warnings) < maxWarnings {
			out.warnings = append(out.warnings, "SearXNG had no answer of "+name+": "+reason)
		}
	}
	if len(out.pages) == 0 && len(out.warnings) > 0 {
		return out, agent.Errorf(agent.CodeUnavailable, "", "%s found nothing: %s", searxTitle, clip(tidy(out.warnings[0]), maxErrorText))
	}
	return out, nil
}
