package research

import (
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/agent"
)

func noon() time.Time { return time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC) }

func TestNormalDOI(t *testing.T) {
	for in, want := range map[string]string{
		"10.1056/NEJMoa2031054":                      "10.1056/nejmoa2031054",
		" https://doi.org/10.1056/NEJMoa2031054. ":   "10.1056/nejmoa2031054",
		"http://dx.doi.org/10.1/x":                   "",
		"http://dx.doi.org/10.1000/X":                "10.1000/x",
		"doi: 10.1000/x;":                            "10.1000/x",
		"DOI:10.1000/A/b":                            "10.1000/a/b",
		"https://doi.org/10.1002/%28SICI%291%3C2%3E": "10.1002/(sici)1<2>",
		"":                                    "",
		"10.1000/":                            "",
		"10.1000":                             "",
		"11.1000/x":                           "",
		"10.1000/a b":                         "",
		"10.1000/" + strings.Repeat("x", 300): "",
	} {
		require.Equal(t, want, normalDOI(in), in)
	}
	require.Equal(t, "https://doi.org/10.1002/%28sici%291%3C2%3E/a%20b%3F", strings.NewReplacer("(", "%28", ")", "%29").Replace(doiURL("10.1002/(sici)1<2>/a b?")))
}

func TestURLKeys(t *testing.T) {
	for in, want := range map[string]string{
		"https://Example.org/":                            "url:https://example.org",
		"http://www.example.org:80/a/?utm_source=x&b=1#c": "url:https://example.org/a?b=1",
		"https://example.org:8443/a?fbclid=1&gclid=2":     "url:https://example.org:8443/a",
		"https://example.org/A?b=2&a=1":                   "url:https://example.org/A?b=2&a=1",
	} {
		require.Equal(t, want, urlKey(in))
	}
	long := urlKey("https://example.org/" + strings.Repeat("x", 600))
	require.Regexp(t, `^url:sha256:[0-9a-f]{64}$`, long)
	require.NotEqual(t, long, urlKey("https://example.org/"+strings.Repeat("x", 601)))
}

func TestPageURL(t *testing.T) {
	for in, want := range map[string]string{
		"https://Example.ORG/a b\n": "https://example.org/a%20b",
		"http://example.org":        "http://example.org",
		"javascript:alert(1)":       "",
		"ftp://example.org/":        "",
		"https://u:p@example.org/":  "",
		"https://":                  "",
		"//example.org/x":           "",
		"https://example.org/" + strings.Repeat("x", 2000): "",
		"https://example.org/\x00":                         "",
	} {
		require.Equal(t, want, pageURL(in), in)
	}
}

func TestIdentifiersOfPages(t *testing.T) {
	for in, want := range map[string]string{
		"https://doi.org/10.1000/X":                          "doi:10.1000/x",
		"https://pubmed.ncbi.nlm.nih.gov/123/":               "pmid:123",
		"https://www.ncbi.nlm.nih.gov/pubmed/123":            "pmid:123",
		"https://www.ncbi.nlm.nih.gov/123":                   "url:https://ncbi.nlm.nih.gov/123",
		"https://clinicaltrials.gov/study/NCT03655678":       "nct:NCT03655678",
		"https://clinicaltrials.gov/ct2/show/NCT03655678":    "nct:NCT03655678",
		"https://clinicaltrials.gov/study/NCT03655678/x":     "url:https://clinicaltrials.gov/study/NCT03655678/x",
		"https://doi.org.evil.example/10.1000/X":             "url:https://doi.org.evil.example/10.1000/X",
		"https://pubmed.ncbi.nlm.nih.gov/?term=sickle+cell":  "url:https://pubmed.ncbi.nlm.nih.gov?term=sickle+cell",
		"https://pubmed.ncbi.nlm.nih.gov/00000000/":          "url:https://pubmed.ncbi.nlm.nih.gov/00000000",
		"https://pubmed.ncbi.nlm.nih.gov/123/citations/?a=1": "url:https://pubmed.ncbi.nlm.nih.gov/123/citations?a=1",
	} {
		w := (&webPage{title: "T", url: in}).work(noon())
		require.Equal(t, want, w.keys()[0])
		require.Equal(t, date{2026, 1, 2}, w.accessed)
	}
}

func TestPlainText(t *testing.T) {
	for in, want := range map[string]string{
		"a <i>b</i> <SUP class=\"x\">2</SUP>":     "a b 2",
		"if p<q and r>s":                          "if p<q and r>s",
		"p &lt; 0.05 &amp; &#946;":                "p < 0.05 & β",
		"&lt;i&gt;E. coli&lt;/i&gt;":              "E. coli",
		"<h4>Aim</h4>To see.<h4>Result:</h4> Yes": "Aim: To see. Result: Yes",
		"<jats:title>Aim</jats:title><jats:p>To <jats:italic>see</jats:italic>.</jats:p>": "Aim: To see.",
		"a\x00b\r\n\tc\u200bd \xff": "ab cd \uFFFD",
		"<script>alert(1)</script>": "<script>alert(1)</script>",
	} {
		require.Equal(t, want, plainText(in))
	}
	require.Equal(t, "To be or not…", clip("To be or not to be", 14))
	require.Equal(t, "äöü…", clip("äöüß", 3))
	require.Equal(t, "äöüß", clip("äöüß", 4))
	require.Equal(t, "Wait…", clip("Wait, what happens here", 5))
	require.Equal(t, "And so on...", titleOf("And so on..."))
}

func TestDates(t *testing.T) {
	for _, tt := range []struct{ year, month, day, want string }{
		{"2020", "Feb", "20", "2020-02-20"},
		{"2020", "02", "", "2020-02"},
		{"2020", "Spring", "3", "2020"},
		{"2020", "February", "32", "2020-02"},
		{"2020", "ebm", "", "2020"},
		{"1998 Dec-1999 Jan", "Dec", "", "1998-12"},
		{"20201", "", "", ""},
		{"", "Feb", "1", ""},
	} {
		require.Equal(t, tt.want, parseDate(tt.year, tt.month, tt.day).text())
	}
	require.Equal(t, "2025-06-01", isoDate("2025-06-01T00:00:00Z").text())
	require.Equal(t, "2024-02-01", dateRange{from: date{2024, 2, 0}}.firstDay(0))
	require.Equal(t, "2024-02-29", dateRange{to: date{2024, 2, 0}}.lastDay(0))
	require.Equal(t, "3000-12-31", dateRange{}.lastDay(3000))
}

func TestPersons(t *testing.T) {
	for in, want := range map[string]person{
		"Ludwig van Beethoven": {family: "van Beethoven", given: "Ludwig"},
		"van Gogh":             {family: "Gogh", given: "van"},
		"Maria de la Cruz":     {family: "de la Cruz", given: "Maria"},
		"Curie, Marie":         {family: "Curie", given: "Marie"},
		"Plato":                {literal: "Plato"},
		", x":                  {literal: "x"},
	} {
		require.Equal(t, want, parsePerson(in), in)
	}
	require.Equal(t, person{family: "Nguyen", given: "TK"}, personWithInitials("Nguyen TK"))
	require.Equal(t, person{literal: "The Consortium"}, personWithInitials("The Consortium"))
}

func TestJoinAbstract(t *testing.T) {
	require.Equal(t, "a b a", joinAbstract(map[string][]int{"a": {0, 2}, "b": {1}, "far": {1 << 40}, "before": {-1}}))
	require.Empty(t, joinAbstract(nil))
	long := map[string][]int{}
	for i := range 30_000 {
		long["w"] = append(long["w"], i)
	}
	require.LessOrEqual(t, len(joinAbstract(long)), 8*maxAbstract+2)
}

func TestAuthorsAreBounded(t *testing.T) {
	w := work{source: pubmedName, kind: kindArticle, title: "T", pmid: "1"}
	for range 200 {
		w.authors = append(w.authors, person{family: "A", given: "B"})
	}
	ref, err := w.reference()
	require.NoError(t, err)
	entries, err := entriesOf([]agent.Reference{ref})
	require.NoError(t, err)
	require.Len(t, entries[0].Authors, maxAuthors+1)
	require.Contains(t, bibTeX(&entries[0]), " and others}")
	require.Len(t, newResult(&w, 1).Authors, shownAuthors+1)
	require.Equal(t, "et al.", newResult(&w, 1).Authors[shownAuthors])
}

func TestCiteKeys(t *testing.T) {
	taken := map[string]bool{}
	var keys []string
	for range 29 {
		keys = append(keys, uniqueKey("x", taken))
	}
	require.Equal(t, []string{"x", "xa", "xb"}, keys[:3])
	require.Equal(t, []string{"xz", "xaa", "xab"}, keys[26:])
	require.Equal(t, "oslashaess", ascii("Øslåsh-Æß 漢字"))
}

func TestInterleave(t *testing.T) {
	list := func(source string, ids ...string) []work {
		var out []work
		for _, id := range ids {
			doi, pmid, _ := strings.Cut(id, "/")
			w := work{source: source, title: source, pmid: pmid}
			if doi != "" {
				w.doi = "10.1000/" + doi
			}
			out = append(out, w)
		}
		return out
	}
	titles := func(all []work) (out []string) {
		for i := range all {
			out = append(out, all[i].source+" "+all[i].keys()[0]+" "+strings.Join(all[i].alsoIn, ","))
		}
		return out
	}
	// The third source has a work with the keys of the first works of the others.
	got := interleave([][]work{list("p", "a", "b"), list("q", "/9", "/8"), list("r", "a/9")}, 10)
	require.Equal(t, []string{"r doi:10.1000/a p,q", "p doi:10.1000/b ", "q pmid:8 "}, titles(got))
	require.Len(t, interleave([][]work{list("p", "a", "b", "c"), list("q", "d")}, 3), 3)
	require.Empty(t, interleave(nil, 3))
}

func TestWithQuery(t *testing.T) {
	base, err := url.Parse("https://example.org/a/b/")
	require.NoError(t, err)
	require.Equal(t, "https://example.org/a/b/c.fcgi?q=a+b%26c", withQuery(base, "c.fcgi", url.Values{"q": {"a b&c"}}).String())
}
