package research

import (
	"crypto/sha256"
	"encoding/hex"
	"net/url"
	"regexp"
	"slices"
	"strings"
)

const (
	maxURL    = 2000 // bytes; longer ones are left out
	maxURLKey = 500  // bytes of a key; longer ones are hashed
	maxDOI    = 300  // bytes
)

var (
	pmidPattern     = regexp.MustCompile(`^[1-9]\d{0,9}$`)
	pmcidPattern    = regexp.MustCompile(`^PMC\d{1,10}$`)
	nctPattern      = regexp.MustCompile(`^NCT\d{8}$`)
	openAlexPattern = regexp.MustCompile(`^W\d{1,15}$`)
	europePattern   = regexp.MustCompile(`^PPR\d{1,12}$`)
	pubmedPath      = regexp.MustCompile(`^/(?:pubmed/)?(\d{1,10})/?$`)
	trialPath       = regexp.MustCompile(`^/(?:ct2/show|study)/(NCT\d{8})/?$`)
)

// normalDOI returns a DOI in lower case, without prefix or resolver. It is empty if the text is no DOI. DOIs are case-insensitive.
func normalDOI(s string) string {
	s = strings.ToLower(tidy(s))
	for _, prefix := range []string{"https://", "http://", "www.", "dx.", "doi.org/", "doi:"} {
		s = strings.TrimSpace(strings.TrimPrefix(s, prefix))
	}
	if strings.Contains(s, "%") {
		if decoded, err := url.PathUnescape(s); err == nil {
			s = strings.ToLower(tidy(decoded))
		}
	}
	s = strings.TrimRight(s, ".,;")
	prefix, suffix, ok := strings.Cut(s, "/")
	if !ok || suffix == "" || !strings.HasPrefix(prefix, "10.") || len(prefix) < 5 || len(s) > maxDOI || strings.Contains(s, " ") {
		return ""
	}
	return s
}

// doiURL returns the address of a DOI, escaped.
func doiURL(doi string) string {
	prefix, suffix, _ := strings.Cut(doi, "/")
	parts := strings.Split(suffix, "/")
	for i := range parts {
		parts[i] = url.PathEscape(parts[i])
	}
	return "https://doi.org/" + prefix + "/" + strings.Join(parts, "/")
}

// matchID returns an identifier without surrounding space, empty if it does not match the pattern.
func matchID(pattern *regexp.Regexp, s string) string {
	if s = strings.TrimSpace(s); pattern.MatchString(s) {
		return s
	}
	return ""
}

// lastPart returns the text after the last slash, because OpenAlex writes identifiers as addresses.
func lastPart(s string) string {
	s = strings.TrimRight(strings.TrimSpace(s), "/")
	return s[strings.LastIndexByte(s, '/')+1:]
}

// pageURL returns an address that may be shown as a link: http or https, with a host and without user information. It is empty for others.
func pageURL(s string) string {
	s = strings.TrimSpace(s)
	if len(s) > maxURL {
		return ""
	}
	u, err := url.Parse(s)
	if err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Hostname() == "" || u.User != nil {
		return ""
	}
	u.Host = strings.ToLower(u.Host)
	if out := u.String(); len(out) <= maxURL {
		return tidy(out)
	}
	return ""
}

// urlKey returns the key of a page: its address without the fragment and tracking parameters.
func urlKey(s string) string {
	u, err := url.Parse(s)
	if err != nil {
		return "url:" + digest(s)
	}
	u.Fragment, u.RawFragment = "", ""
	u.Host = strings.TrimPrefix(strings.ToLower(u.Host), "www.")
	if port := u.Port(); port == "80" && u.Scheme == "http" || port == "443" && u.Scheme == "https" {
		u.Host = strings.TrimSuffix(u.Host, ":"+port)
	}
	u.Scheme = "https" // http and https lead to the same page
	u.Path, u.RawPath = strings.TrimSuffix(u.Path, "/"), strings.TrimSuffix(u.RawPath, "/")
	if u.RawQuery != "" {
		kept := strings.Split(u.RawQuery, "&")
		kept = slices.DeleteFunc(kept, func(p string) bool {
			name, _, _ := strings.Cut(strings.ToLower(p), "=")
			return strings.HasPrefix(name, "utm_") || name == "fbclid" || name == "gclid" || name == ""
		})
		u.RawQuery = strings.Join(kept, "&")
	}
	u.ForceQuery = false
	if key := u.String(); len(key) <= maxURLKey {
		return "url:" + key
	}
	return "url:" + digest(u.String())
}

func digest(s string) string {
	sum := sha256.Sum256([]byte(s))
	return "sha256:" + hex.EncodeToString(sum[:])
}

// setIdentifiers sets the identifiers that the address of a page contains.
func (w *work) setIdentifiers() {
	u, err := url.Parse(w.url)
	if err != nil {
		return
	}
	host := strings.TrimPrefix(u.Hostname(), "www.")
	switch host {
	case "doi.org", "dx.doi.org":
		w.doi = normalDOI(strings.TrimPrefix(u.Path, "/"))
	case "pubmed.ncbi.nlm.nih.gov", "ncbi.nlm.nih.gov":
		if m := pubmedPath.FindStringSubmatch(u.Path); m != nil && (host != "ncbi.nlm.nih.gov" || strings.HasPrefix(u.Path, "/pubmed/")) {
			w.pmid = matchID(pmidPattern, m[1])
		}
	case "clinicaltrials.gov":
		if m := trialPath.FindStringSubmatch(u.Path); m != nil {
			w.nct = m[1]
		}
	}
}
