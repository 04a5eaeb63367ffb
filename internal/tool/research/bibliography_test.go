package research_test

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/agent"
)

var update = flag.Bool("update", false, "write the golden files")

func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		require.NoError(t, os.WriteFile(path, []byte(got+"\n"), 0o600))
	}
	want, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, string(want), got+"\n")
}

// difficultReferences returns references with characters and fields that are difficult to format.
func difficultReferences() []agent.Reference {
	items := []string{
		`{"type":"article-journal","title":"100% of $5 & #1 {braces} \\ under_score ~ ^ <b> \"quoted\" [link](x) *star* 漢字?","author":[{"family":"Müller","given":"Jörg-Peter A"},{"family":"O'Neil, Jr","given":"K"},{"literal":"Smith and Sons {Ltd}"},{"family":"Plato"}],"issued":{"date-parts":[[2024,5,17]]},"container-title":"J. of A & B","volume":"12","issue":"3","page":"45-67","DOI":"10.1002/(sici)1097{x}<1::aid>3.0.co;2-x","PMID":"123","URL":"https://example.org/a_(b)?c=%7Bd%7D&e=1"}`,
		`{"type":"article-journal","title":"The odds of one hundred","author":[{"family":"Muller","given":"J."}],"issued":{"date-parts":[[2024]]},"container-title":"Nature"}`,
		`{"type":"article-journal","title":"Odds again","author":[{"family":"Müller","given":"Jörg"}],"issued":{"date-parts":[[2024]]}}`,
		`{"type":"article","genre":"Preprint","title":"A preprint","author":[{"family":"Łukasz","given":"Ø"},{"literal":"et al."}],"issued":{"date-parts":[[2021,10]]},"container-title":"bioRxiv","DOI":"10.1101/1"}`,
		`{"type":"report","genre":"Clinical trial registration","title":"A trial","author":[{"literal":"Vertex Inc."}],"publisher":"ClinicalTrials.gov","number":"NCT03655678","URL":"https://clinicaltrials.gov/study/NCT03655678"}`,
		`{"type":"webpage","title":"A page!","container-title":"www.cdc.gov","URL":"https://www.cdc.gov/","accessed":{"date-parts":[[2026,1,2]]}}`,
		`{"type":"chapter","title":"A chapter","author":[{"family":"Bird","given":"Thomas D"}],"container-title":"GeneReviews®","publisher":"University of Washington","issued":{"date-parts":[[1993]]}}`,
		`{"type":"thesis","title":"漢字","author":[{"literal":"李四"}],"publisher":"A university","URL":"javascript:alert(1)"}`,
		`{"type":"book","title":"What is it?","author":[{"family":"A"},{"family":"B"},{"family":"C"},{"family":"D"},{"family":"E"},{"family":"F"},{"family":"G"}],"publisher":"House"}`,
	}
	refs := make([]agent.Reference, len(items))
	for i, raw := range items {
		refs[i] = agent.Reference{Key: fmt.Sprintf("url:https://example.org/%d", i), Source: "web", Item: json.RawMessage(raw)}
	}
	return refs
}

func TestBibliographyFormats(t *testing.T) {
	w := start(t, nil)
	_, err := w.references.AddReferences(t.Context(), "acme", "s-1", difficultReferences())
	require.NoError(t, err)

	out := w.call(t, "get_bibliography", `{}`)
	require.Equal(t, "markdown", out.Format)
	require.Equal(t, 9, out.Count)
	require.Equal(t, 9, out.Total)
	golden(t, "bibliography.md", out.Bibliography)

	out = w.call(t, "get_bibliography", `{"format":"bibtex"}`)
	golden(t, "bibliography.bib", out.Bibliography)
	require.Equal(t, strings.Count(out.Bibliography, "{"), strings.Count(out.Bibliography, "}"), "braces balance")

	out = w.call(t, "get_bibliography", `{"format":"csl-json"}`)
	raw, err := json.MarshalIndent(out.Items, "", "  ")
	require.NoError(t, err)
	golden(t, "bibliography.json", string(raw))
	checkCSL(t, out.Items)
}

// checkCSL checks items by the important rules of the CSL-JSON schema.
func checkCSL(t *testing.T, items []map[string]any) {
	t.Helper()
	types := []string{"article", "article-journal", "book", "chapter", "dataset", "paper-conference", "report", "thesis", "webpage"}
	names := regexp.MustCompile(`^(id|citation-number|type|title|author|issued|accessed|container-title|container-title-short|volume|issue|page|publisher|genre|number|DOI|PMID|PMCID|URL)$`)
	ids := map[string]bool{}
	for _, it := range items {
		id, _ := it["id"].(string)
		require.NotEmpty(t, id)
		require.False(t, ids[id], "%s is given twice", id)
		ids[id] = true
		require.Contains(t, types, it["type"])
		for name, value := range it {
			require.Regexp(t, names, name)
			switch name {
			case "author":
				for _, a := range value.([]any) {
					require.NotEmpty(t, a)
					for part, text := range a.(map[string]any) {
						require.Regexp(t, `^(family|given|literal)$`, part)
						require.NotEmpty(t, text)
					}
				}
			case "issued", "accessed":
				parts := value.(map[string]any)["date-parts"].([]any)
				require.Len(t, parts, 1)
				require.NotEmpty(t, parts[0])
				require.LessOrEqual(t, len(parts[0].([]any)), 3)
			case "citation-number":
				require.IsType(t, 1.0, value)
			default:
				require.IsType(t, "", value)
			}
		}
	}
}

func TestBibliographyOfNumbers(t *testing.T) {
	w := start(t, nil)
	require.Zero(t, w.call(t, "get_bibliography", `{}`).Count, "nothing was searched for")
	require.Empty(t, w.call(t, "get_bibliography", `{"format":"csl-json"}`).Items)
	_, err := w.references.AddReferences(t.Context(), "acme", "s-1", difficultReferences())
	require.NoError(t, err)

	out := w.call(t, "get_bibliography", `{"numbers":[9,2,3,9,7]}`)
	var begins []string
	for line := range strings.SplitSeq(out.Bibliography, "\n") {
		begins = append(begins, line[:2])
	}
	require.Equal(t, []string{"2.", "3.", "7)", "9."}, begins, "Markdown numbers items itself: after a gap another list begins")
	require.Contains(t, w.call(t, "get_bibliography", `{"numbers":[3],"format":"bibtex"}`).Bibliography, "@article{muller2024oddsa,", "keys do not depend on what is listed")

	for args, says := range map[string]string{
		`{"numbers":[1,10]}`:      "numbers[1]: there is no reference 10: this conversation has 9",
		`{"numbers":[]}`:          "numbers: is empty",
		`{"numbers":[1,0]}`:       "numbers[1]: want a number from 1, got 0",
		`{"numbers":"1"}`:         "numbers: want an array",
		`{"numbers":[1.5]}`:       "numbers[0]: want a whole number",
		`{"from":0}`:              "from: want a number from 1",
		`{"format":"html"}`:       `format: want one of markdown, bibtex, csl-json, got "html"`,
		`{"Format":"bibtex"}`:     "Format: unknown field",
		`null`:                    "want an object",
		`[]`:                      "want an object",
		``:                        "malformed JSON",
		`{"numbers":[1],"x":"y"}`: "x: unknown field",
		`{"numbers":[` + strings.Repeat("1,", 500) + `1]}`: "numbers: has 501 entries, at most 500",
		`{"format":"` + strings.Repeat("x", 70_000) + `"}`: "at most 65536",
	} {
		f := w.fail(t, "get_bibliography", args)
		require.Contains(t, f.Message, says, args[:min(len(args), 100)])
	}
	inv := invocation()
	inv.SessionID = "s-2"
	require.Zero(t, w.callAs(t, inv, "get_bibliography", `{}`).Count, "another conversation")
}

func TestLongBibliographyHasParts(t *testing.T) {
	w := start(t, nil)
	const n = 400
	refs := make([]agent.Reference, n)
	for i := range refs {
		refs[i] = agent.Reference{Key: fmt.Sprintf("pmid:%d", i), Item: json.RawMessage(fmt.Sprintf(`{"type":"article-journal","title":"Title \"%d\" %s"}`, i, strings.Repeat("x", 150)))}
	}
	_, err := w.references.AddReferences(t.Context(), "acme", "s-1", refs)
	require.NoError(t, err)
	for _, format := range []string{"markdown", "bibtex", "csl-json"} {
		from, count, parts := 1, 0, 0
		for from != 0 {
			args := fmt.Sprintf(`{"format":%q,"from":%d}`, format, from)
			res, err := w.tool(t, "get_bibliography").Call(t.Context(), invocation(), agent.ToolCall{Args: json.RawMessage(args)})
			require.NoError(t, err)
			require.LessOrEqual(t, len(res.Output), 32<<10, "a model is shown the whole of it")
			var out output
			require.NoError(t, json.Unmarshal(res.Output, &out))
			require.Equal(t, n, out.Total)
			count, from, parts = count+out.Count, out.Next, parts+1
		}
		require.Equal(t, n, count, format)
		require.Greater(t, parts, 2)
	}
	inv := invocation()
	inv.InlineBytes = 10
	require.Equal(t, 1, w.callAs(t, inv, "get_bibliography", `{}`).Count, "one at least")
}

// TestOneWorkOfManySources searches several sources that find the same article.
func TestOneWorkOfManySources(t *testing.T) {
	w := start(t, nil)
	web := w.call(t, "search_web", `{"query":"x"}`)
	require.Equal(t, []any{1.0, 2.0}, []any{web.Results[0]["n"], web.Results[1]["n"]})
	alex := w.call(t, "search_openalex", `{"query":"x"}`)
	require.Equal(t, 2, numberIn(alex.Results[0]["n"]), "the page and the work have the same PMID")
	require.Equal(t, 3, numberIn(alex.Results[1]["n"]))
	pubmed := w.call(t, "search_pubmed", `{"query":"x"}`)
	require.Equal(t, 2, numberIn(pubmed.Results[0]["n"]))
	require.Equal(t, 5, numberIn(pubmed.Results[1]["n"]))
	again := w.call(t, "search_pubmed", `{"query":"y"}`)
	require.Equal(t, pubmed.Results, again.Results, "the same numbers again")

	item := w.call(t, "get_bibliography", `{"format":"csl-json","numbers":[2]}`).Items[0]
	require.Equal(t, "10.1056/nejmoa2031054", item["DOI"], "sources complete each other")
	require.Equal(t, "384", item["volume"])
	require.Equal(t, "N Engl J Med", item["container-title-short"])
	require.Equal(t, 7, w.call(t, "get_bibliography", `{}`).Total)
	refs, err := w.references.References(t.Context(), "acme", "s-1")
	require.NoError(t, err)
	require.Equal(t, "pmid:33283989", refs[1].Key)
	require.ElementsMatch(t, []string{"doi:10.1056/nejmoa2031054", "openalex:W3111255098"}, refs[1].Aliases)
}

func TestStoredReferencesAreRedacted(t *testing.T) {
	w := start(t, nil)
	inv := invocation()
	address := regexp.MustCompile(`https?://[^"\s]+`)
	inv.Redact = func(raw json.RawMessage) (json.RawMessage, error) {
		return address.ReplaceAll(raw, []byte("[URL]")), nil
	}
	out := w.callAs(t, inv, "search_web", `{"query":"x"}`)
	require.Len(t, out.Results, 2)
	refs, err := w.references.References(t.Context(), "acme", "s-1")
	require.NoError(t, err)
	require.Len(t, refs, 2, "redacted references stay different")
	require.Regexp(t, `^sha256:[0-9a-f]{64}$`, refs[0].Key)
	require.Equal(t, "pmid:33283989", refs[1].Key)
	for i := range refs {
		require.NotContains(t, string(refs[i].Item), "http")
	}
	require.Equal(t, out.Results[0]["n"], w.callAs(t, inv, "search_web", `{"query":"x"}`).Results[0]["n"])

	inv.Redact = func(json.RawMessage) (json.RawMessage, error) {
		return nil, agent.Errorf(agent.CodeDenied, "", "blocked")
	}
	_, err = w.tool(t, "search_openalex").Call(t.Context(), inv, agent.ToolCall{Args: json.RawMessage(`{"query":"x"}`)})
	require.Equal(t, agent.CodeDenied, agent.CodeOf(err))
	refs, err = w.references.References(t.Context(), "acme", "s-1")
	require.NoError(t, err)
	require.Len(t, refs, 2, "nothing is stored if redaction fails")
}

func TestLongAnswersAreShortened(t *testing.T) {
	w := start(t, nil)
	var list []string
	for i := range 50 {
		list = append(list, fmt.Sprintf(`{"id":"PPR%d","source":"PPR","title":"Title %d","abstractText":%q}`, i, i, strings.Repeat("wörd ", 500)))
	}
	w.set(epmc, reply{body: `{"hitCount":50,"resultList":{"result":[` + strings.Join(list, ",") + `]}}`})
	for inline, limit := range map[int]int{0: 400, 200_000: 1500, 5000: 0} {
		inv := invocation()
		inv.InlineBytes = inline
		res, err := w.tool(t, "search_preprints").Call(t.Context(), inv, agent.ToolCall{Args: json.RawMessage(`{"query":"x","max_results":50}`)})
		require.NoError(t, err)
		var out output
		require.NoError(t, json.Unmarshal(res.Output, &out))
		require.Len(t, out.Results, 50, "no result is lost")
		require.LessOrEqual(t, len(res.Preview), 400)
		if limit == 0 {
			require.NotContains(t, out.Results[0], "abstract")
			continue
		}
		text := []rune(out.Results[0]["abstract"].(string))
		require.InDelta(t, limit, len(text), 10)
		require.Equal(t, '…', text[len(text)-1])
		if inline == 0 {
			require.LessOrEqual(t, len(res.Output), 32<<10)
			require.Contains(t, out.Warnings[0], "abstracts are shortened to 400 characters")
		}
	}
}
