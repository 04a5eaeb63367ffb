package research

import (
	"context"
	"encoding/json"
	"errors"
	"net/url"

	"github.com/turnstone-run/turnstone/agent"
)

const searxTitle = "SearXNG"

// searXNG asks one's own instance.
type searXNG struct{ base *url.URL }

func (searXNG) Name() string { return searxTitle }

func (s searXNG) Search(ctx context.Context, q WebQuery, fetch Fetch) (WebPages, error) {
	p := url.Values{"q": {q.Text()}, "format": {"json"}}
	if q.Recency != "" {
		p.Set("time_range", q.Recency)
	}
	_, body, err := fetch(ctx, withQuery(s.base, "search", p), "application/json")
	if e, ok := errors.AsType[*agent.Error](err); ok && e.Code == agent.CodeDenied {
		return WebPages{}, agent.Errorf(e.Code, "", "%w (does the instance allow the format json?)", e)
	}
	if err != nil {
		return WebPages{}, err
	}
	return parseSearXNG(body)
}

// parseSearXNG reads {"results":[{"url","title","content","publishedDate"}],"unresponsive_engines":[["bing","timeout"]]}.
func parseSearXNG(body []byte) (WebPages, error) {
	var in struct {
		Total   number `json:"number_of_results"`
		Results *[]struct {
			URL       string `json:"url"`
			Title     string `json:"title"`
			Content   string `json:"content"`
			Published string `json:"publishedDate"` //nolint:tagliatelle // SearXNG's name
		} `json:"results"`
		Silent [][]json.RawMessage `json:"unresponsive_engines"`
	}
	if err := readJSON(searxTitle, &response{body: body}, &in); err != nil {
		return WebPages{}, err
	}
	if in.Results == nil {
		return WebPages{}, unreadable(searxTitle, "has no results")
	}
	out := WebPages{Total: int(in.Total)}
	for _, r := range *in.Results {
		if len(out.Pages) == MaxResults {
			break
		}
		out.Pages = append(out.Pages, WebPage{Title: r.Title, URL: r.URL, Snippet: r.Content, Published: r.Published})
	}
	for _, engine := range in.Silent {
		var who, why string
		if len(engine) < 2 || json.Unmarshal(engine[0], &who) != nil || json.Unmarshal(engine[1], &why) != nil {
			continue
		}
		if len(out.Warnings) < maxWarnings {
			out.Warnings = append(out.Warnings, "SearXNG had no answer of "+who+": "+why)
		}
	}
	if len(out.Pages) == 0 && len(out.Warnings) > 0 {
		return out, agent.Errorf(agent.CodeUnavailable, "", "%s found nothing: %s", searxTitle, clip(tidy(out.Warnings[0]), maxComplaint))
	}
	return out, nil
}
