package research

import (
	"bytes"
	"context"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"

	"github.com/turnstone-run/turnstone/agent"
)

const duckTitle = "DuckDuckGo"

// searchDuckDuckGo reads DuckDuckGo's page without scripts, because there is no API.
func searchDuckDuckGo(ctx context.Context, q webQuery, get getter) (webPages, error) {
	p := url.Values{"q": {q.text()}}
	if q.recency != "" {
		p.Set("df", q.recency[:1]) // d, w, m, y
	}
	resp, err := get(ctx, "html/", "text/html", p)
	if err != nil {
		return webPages{}, err
	}
	return parseDuckDuckGo(resp)
}

// parseDuckDuckGo returns the results of a page. A page with a challenge, whose status is 200 or 202, is an error. So is a page without
// results that does not say that there are none.
func parseDuckDuckGo(resp *response) (webPages, error) {
	root, err := html.Parse(bytes.NewReader(resp.body))
	if err != nil {
		return webPages{}, unreadableError(duckTitle, "is no web page")
	}
	var out webPages
	hasChallenge, saysNone := false, false
	for n := range root.Descendants() {
		if n.Type != html.ElementNode {
			continue
		}
		switch classes := classesOf(n); {
		case n.DataAtom == atom.Form && attribute(n, "id") == "challenge-form", slices.ContainsFunc(classes, isAnomaly):
			hasChallenge = true
		case slices.Contains(classes, "no-results"), slices.Contains(classes, "result--no-result"):
			saysNone = true
		case slices.Contains(classes, "result") && !slices.Contains(classes, "result--ad") && len(out.pages) < MaxResults:
			if p := duckResult(n); p.url != "" {
				out.pages = append(out.pages, p)
			}
		}
	}
	switch {
	case len(out.pages) > 0 || saysNone && !hasChallenge:
		return out, nil
	case hasChallenge || resp.status == http.StatusAccepted:
		return webPages{}, agent.Errorf(agent.CodeRateLimited, "", "%s asks whether a person is searching: it wants fewer searches from this address", duckTitle)
	default:
		return webPages{}, unreadableError(duckTitle, "has no results that could be read")
	}
}

func isAnomaly(class string) bool { return strings.HasPrefix(class, "anomaly") }

// duckResult returns the page of a result: a link of class result__a and a snippet.
func duckResult(n *html.Node) webPage {
	var p webPage
	for d := range n.Descendants() {
		if d.Type != html.ElementNode {
			continue
		}
		switch classes := classesOf(d); {
		case slices.Contains(classes, "result__a") && p.url == "":
			p.title, p.url = nodeText(d), duckTarget(attribute(d, "href"))
		case slices.Contains(classes, "result__snippet") && p.snippet == "":
			p.snippet = nodeText(d)
		}
	}
	return p
}

// duckTarget returns the target of a redirect, //duckduckgo.com/l/?uddg=<address>. It returns "" for other addresses at DuckDuckGo, which are
// advertisements.
func duckTarget(href string) string {
	u, err := url.Parse(strings.TrimSpace(href))
	if err != nil {
		return ""
	}
	if host := u.Hostname(); host != "" && host != "duckduckgo.com" && !strings.HasSuffix(host, ".duckduckgo.com") {
		return pageURL(href)
	}
	target := pageURL(u.Query().Get("uddg"))
	if t, err := url.Parse(target); err != nil || t.Hostname() == "duckduckgo.com" {
		return ""
	}
	return target
}

func classesOf(n *html.Node) []string { return strings.Fields(attribute(n, "class")) }

func attribute(n *html.Node, name string) string {
	for _, a := range n.Attr {
		if a.Key == name {
			return a.Val
		}
	}
	return ""
}

func nodeText(n *html.Node) string {
	var b strings.Builder
	for d := range n.Descendants() {
		if d.Type == html.TextNode && b.Len() < 8*maxAbstract {
			b.WriteString(d.Data)
		}
	}
	return b.String()
}
