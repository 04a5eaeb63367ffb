package research

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/tool"
)

// seed adds fixtures, halves of them, and malformed answers.
func seed(f *testing.F, names ...string) {
	f.Helper()
	for _, name := range names {
		raw, err := os.ReadFile(filepath.Join("testdata", name))
		require.NoError(f, err)
		f.Add(raw)
		f.Add(raw[:len(raw)/2])
	}
	for _, s := range []string{"", "null", "[]", "{}", "<html>", `{"error":{"error":{"error":"x"}}}`, "\x00\xff", `{"results":[null]}`, `{"studies":[{}]}`} {
		f.Add([]byte(s))
	}
}

// check checks the works of a result, and everything that is made of them.
func check(t *testing.T, got *searchResult, err error) {
	t.Helper()
	if err != nil {
		require.Nil(t, got)
		require.LessOrEqual(t, len(err.Error()), 4096)
		return
	}
	require.LessOrEqual(t, len(got.works), MaxResults)
	require.LessOrEqual(t, len(got.warnings), maxWarnings)
	require.GreaterOrEqual(t, got.total, 0)
	for i := range got.works {
		w := &got.works[i]
		require.NotEmpty(t, w.title)
		require.NotEmpty(t, w.keys())
		for _, key := range w.keys() {
			require.LessOrEqual(t, len(key), maxURLKey+20)
			requirePlainText(t, key)
		}
		if link := w.link(); link != "" {
			require.Equal(t, link, pageURL(link))
		}
		ref, err := w.reference()
		require.NoError(t, err)
		require.True(t, json.Valid(ref.Item))
		require.LessOrEqual(t, len(ref.Item), 512<<10)
		first := ref
		first.Number = 7
		entries, err := entriesOf([]agent.Reference{first, ref})
		require.NoError(t, err)
		for k := range entries {
			require.Regexp(t, `^[a-z0-9]+$`, entries[k].ID)
			requirePlainText(t, markdown(entries, k))
			require.True(t, balancedBraces(bibTeX(&entries[k])), bibTeX(&entries[k]))
		}
		_, err = tool.EncodeJSON(newResult(w, 1))
		require.NoError(t, err)
	}
}

// requirePlainText checks that a text is valid UTF-8 without control characters.
func requirePlainText(t *testing.T, s string) {
	t.Helper()
	require.True(t, utf8.ValidString(s))
	for _, r := range s {
		require.False(t, unicode.IsControl(r), "%q", s)
	}
}

func balancedBraces(s string) bool {
	depth := 0
	for _, r := range s {
		switch r {
		case '{':
			depth++
		case '}':
			depth--
		}
		if depth < 0 {
			return false
		}
	}
	return depth == 0
}

func FuzzESearch(f *testing.F) {
	seed(f, "pubmed_esearch.json", "pubmed_empty.json")
	f.Fuzz(func(t *testing.T, body []byte) {
		ids, got, err := parseESearch(&response{body: body})
		check(t, got, err)
		for _, id := range ids {
			require.Regexp(t, `^\d+$`, id)
		}
	})
}

func FuzzEFetch(f *testing.F) {
	seed(f, "pubmed_efetch.xml")
	f.Fuzz(func(t *testing.T, body []byte) {
		list, err := parseEFetch(&response{body: body}, []string{"33283989", "31978945", "20301340", "10592235"})
		require.LessOrEqual(t, len(list), 4)
		if err != nil {
			require.Empty(t, list)
			return
		}
		got := &searchResult{}
		for i := range list {
			got.add(&list[i])
		}
		check(t, got, nil)
	})
}

func FuzzStudies(f *testing.F) {
	seed(f, "trials.json")
	f.Fuzz(func(t *testing.T, body []byte) {
		got, err := parseStudies(&response{body: body}, MaxResults)
		check(t, got, err)
	})
}

func FuzzEuropePMC(f *testing.F) {
	seed(f, "europepmc.json")
	f.Fuzz(func(t *testing.T, body []byte) {
		got, err := parseEuropePMC(&response{body: body}, &preprintsSearch{max: MaxResults})
		check(t, got, err)
	})
}

func FuzzWorks(f *testing.F) {
	seed(f, "openalex.json")
	f.Fuzz(func(t *testing.T, body []byte) {
		got, err := parseWorks(&response{body: body}, MaxResults)
		check(t, got, err)
	})
}

func FuzzWeb(f *testing.F) {
	seed(f, "duckduckgo.html", "duckduckgo_none.html", "duckduckgo_challenge.html", "searxng.json", "brave.json")
	f.Fuzz(func(t *testing.T, body []byte) {
		for _, parse := range []func(*response) (webPages, error){parseDuckDuckGo, parseSearXNG, parseBrave} {
			pages, err := parse(&response{status: 200, body: body})
			if err != nil {
				continue
			}
			require.LessOrEqual(t, len(pages.pages), MaxResults)
			got := &searchResult{total: pages.total}
			for i := range pages.pages {
				w := pages.pages[i].work(noon())
				if w.url != "" {
					got.add(&w)
				}
			}
			check(t, got, nil)
		}
	})
}

func FuzzErrorText(f *testing.F) {
	seed(f, "pubmed_empty.json", "duckduckgo_challenge.html")
	f.Fuzz(func(t *testing.T, body []byte) {
		text := errorText(body, "text/plain", []string{"x"})
		requirePlainText(t, text)
		require.NotContains(t, text, "x")
	})
}
