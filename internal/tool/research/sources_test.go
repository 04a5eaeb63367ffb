package research_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/internal/tool/research"
)

func TestPubMed(t *testing.T) {
	w := start(t, nil)
	out := w.call(t, "search_pubmed", `{"query":"sickle  cell","max_results":4,"date_from":"2020-05","date_to":"2021","sort":"date"}`)

	asked := w.requests(esearch)
	require.Len(t, asked, 1)
	for name, want := range map[string]string{
		"db": "pubmed", "term": "sickle cell", "retmax": "4", "retmode": "json", "sort": "pub_date", "datetype": "pdat", "mindate": "2020/05/01",
		"maxdate": "2021/12/31", "tool": "turnstone", "email": "ops@example.org",
	} {
		require.Equal(t, want, asked[0].Get(name), name)
	}
	fetched := w.requests(efetch)
	require.Len(t, fetched, 1, "one request for all records")
	require.Equal(t, "33283989,31978945,20301340,10592235", fetched[0].Get("id"))
	require.Equal(t, "turnstone/1 (mailto:ops@example.org)", w.asked[0].UserAgent())

	require.Equal(t, "pubmed", out.Source)
	require.Equal(t, "sickle cell", out.Query)
	require.Equal(t, 1342, out.Total)
	require.Empty(t, out.Warnings)
	require.Len(t, out.Results, 4, "in the order of relevance, without what nobody asked for")
	require.Equal(t, map[string]any{
		"n": 1.0, "source": "pubmed", "title": "CRISPR-Cas9 Gene Editing for Sickle Cell Disease and β-Thalassemia: CO2 & H2O?",
		"authors": []any{"Haydar Frangoul", "D Altshuler", "Cappellini"}, "year": 2021.0, "date": "2021-01-21",
		"journal": "The New England journal of medicine", "doi": "10.1056/nejmoa2031054", "pmid": "33283989",
		"url":      "https://pubmed.ncbi.nlm.nih.gov/33283989/",
		"abstract": "BACKGROUND: Transfusion-dependent β-thalassemia (TDT) and sickle cell disease are severe. METHODS: We performed electroporation of CD34+ hematopoietic cells. Funded by somebody.",
	}, out.Results[0])
	covid := out.Results[1]
	require.Equal(t, "A Novel Coronavirus from Patients with Pneumonia in China, 2019", covid["title"])
	require.Equal(t, []any{"Na Zhu", "Jan-Willem K van der Berg 3rd", "China Novel Coronavirus Investigating and Research Team"}, covid["authors"])
	require.Equal(t, "10.1056/nejmoa2001017", covid["doi"], "not that of a reference")
	require.Equal(t, "PMC7092803", covid["pmcid"])
	require.Contains(t, covid["abstract"], "p<0.05 & n>3.")
	require.NotContains(t, covid["abstract"], "Copyright")
	book := out.Results[2]
	require.Equal(t, "Alzheimer Disease Overview", book["title"])
	require.Equal(t, "GeneReviews®", book["journal"])
	require.Equal(t, []any{"Thomas D Bird"}, book["authors"], "not the editors")
	require.Equal(t, "CLINICAL CHARACTERISTICS: Dementia that begins subtly.", book["abstract"])
	old := out.Results[3]
	require.Equal(t, "Étude de la drépanocytose", old["title"])
	require.Equal(t, 1999, numberIn(old["year"]))
	require.Equal(t, "1999-12", old["date"])
}

func TestPubMedFindsNothing(t *testing.T) {
	w := start(t, nil)
	w.set(esearch, reply{body: fixture(t, "pubmed_empty.json")})
	out := w.call(t, "search_pubmed", `{"query":"xyzzyqqq"}`)
	require.NotNil(t, out.Results)
	require.Empty(t, out.Results)
	require.Equal(t, []string{
		`PubMed does not know "xyzzyqqq" and searched without it`, `PubMed has no field "nofield" and searched without it`, `PubMed ignored "the"`,
		`PubMed found no phrase "\"blue elephants\"" and searched its words`,
	}, out.Warnings)
	require.Empty(t, w.requests(efetch), "there is nothing to fetch")
	require.Equal(t, "10", w.requests(esearch)[0].Get("retmax"))
	require.Equal(t, "relevance", w.requests(esearch)[0].Get("sort"))
	require.False(t, w.requests(esearch)[0].Has("mindate"))
}

func TestPubMedWarnsOfMissingRecords(t *testing.T) {
	w := start(t, nil)
	w.set(esearch, reply{body: `{"esearchresult":{"count":"2","idlist":["33283989","12"]}}`})
	out := w.call(t, "search_pubmed", `{"query":"x"}`)
	require.Len(t, out.Results, 1)
	require.Equal(t, []string{"PubMed gave no record for 1 of 2 results"}, out.Warnings)
}

func TestClinicalTrials(t *testing.T) {
	w := start(t, nil)
	out := w.call(t, "search_clinical_trials", `{"query":"gene editing","status":["RECRUITING","COMPLETED","RECRUITING"],"phase":["PHASE2","PHASE3"],
		"condition":"thalassemia","intervention":"CTX001","max_results":5}`)
	asked := w.requests(studies)[0]
	for name, want := range map[string]string{
		"query.term": "gene editing", "query.cond": "thalassemia", "query.intr": "CTX001", "filter.overallStatus": "RECRUITING,COMPLETED",
		"filter.advanced": "AREA[Phase](PHASE2 OR PHASE3)", "pageSize": "5", "countTotal": "true", "format": "json",
	} {
		require.Equal(t, want, asked.Get(name), name)
	}
	require.Equal(t, 57, out.Total)
	require.Len(t, out.Results, 2)
	require.Equal(t, map[string]any{
		"n": 1.0, "source": "clinical_trials", "title": "A Safety and Efficacy Study Evaluating CTX001 in Subjects With Transfusion-Dependent β-Thalassemia",
		"authors": []any{"Vertex Pharmaceuticals Incorporated"}, "year": 2018.0, "date": "2018-08-31", "nct": "NCT03655678",
		"url": "https://clinicaltrials.gov/study/NCT03655678", "status": "COMPLETED", "phases": []any{"PHASE2", "PHASE3"},
		"conditions": []any{"Beta-Thalassemia", "Thalassemia"}, "interventions": []any{"biological: CTX001"}, "sponsor": "Vertex Pharmaceuticals Incorporated",
		"enrollment": 59.0, "started": "2018-09-14", "completed": "2024-08", "has_results": true, "abstract": "This is a single-arm, open-label study.",
	}, out.Results[0])
	require.Equal(t, "Congenital Adrenal Hyperplasia: Calcium Channels as Therapeutic Targets", out.Results[1]["title"])
	require.NotContains(t, out.Results[1], "enrollment")
}

func TestPreprints(t *testing.T) {
	w := start(t, nil)
	out := w.call(t, "search_preprints", `{"query":"sickle OR \"base (editing\"","date_from":"2021"}`)
	asked := w.requests(epmc)
	require.Equal(t, `(sickle OR "base (editing") AND (SRC:PPR OR SRC:MED OR SRC:PMC OR SRC:AGR OR SRC:CBA) AND (FIRST_PDATE:[2021-01-01 TO 3000-12-31])`, asked[0].Get("query"))
	require.Equal(t, "core", asked[0].Get("resultType"))
	require.Equal(t, "10", asked[0].Get("pageSize"))
	require.Equal(t, 2871, out.Total)
	require.Len(t, out.Results, 3, "a patent is neither a preprint nor a paper")
	require.Equal(t, map[string]any{
		"n": 1.0, "source": "preprints", "type": "preprint", "title": "Base editing of HBB in sickle cells", "authors": []any{"Gregory A Newby", "JS Yen", "The Editing Consortium"},
		"year": 2021.0, "date": "2021-10-09", "journal": "bioRxiv", "doi": "10.1101/2021.10.08.463700", "url": "https://doi.org/10.1101/2021.10.08.463700",
		"cited_by": 12.0, "published_pmid": "34079130", "abstract": "Background: Sickle cell disease is caused by a mutation; P < 0.01. Results: It works.",
	}, out.Results[0])
	require.Equal(t, []any{"J Doe", "The Group of Names", "AB Smith-Jones"}, out.Results[1]["authors"])
	require.Equal(t, "https://europepmc.org/article/PPR/PPR1", out.Results[1]["url"])
	require.Equal(t, map[string]any{
		"n": 3.0, "source": "preprints", "type": "paper", "title": "CRISPR-Cas9 Gene Editing", "authors": []any{"H Frangoul"}, "year": 2021.0,
		"date": "2021-01-21", "journal": "The New England journal of medicine", "doi": "10.1056/nejmoa2031054", "pmid": "33283989", "pmcid": "PMC7000001",
		"url": "https://doi.org/10.1056/nejmoa2031054",
	}, out.Results[2])
}

func TestOpenAlex(t *testing.T) {
	w := start(t, nil)
	out := w.call(t, "search_openalex", `{"query":"crispr, sickle: cell","from_year":2015,"to_year":2024,"open_access":true,"type":"article"}`)
	asked := w.requests(works)[0]
	require.Equal(t, "crispr, sickle: cell", asked.Get("search"))
	require.Equal(t, "from_publication_date:2015-01-01,to_publication_date:2024-12-31,is_oa:true,type:article", asked.Get("filter"))
	require.Equal(t, "ops@example.org", asked.Get("mailto"))
	require.Equal(t, "10", asked.Get("per-page"))
	require.Equal(t, 8123, out.Total)
	require.Len(t, out.Results, 3)
	require.Equal(t, map[string]any{
		"n": 1.0, "source": "openalex", "title": "CRISPR-Cas9 Gene Editing for Sickle Cell Disease and β-Thalassemia",
		"authors": []any{"Haydar Frangoul", "Ludwig van Beethoven", "Plato", "Jörg Müller", "Wáng X"}, "year": 2020.0, "date": "2020-12-05",
		"journal": "New England Journal of Medicine", "doi": "10.1056/nejmoa2031054", "pmid": "33283989", "openalex": "W3111255098",
		"url": "https://doi.org/10.1056/nejmoa2031054", "cited_by": 1489.0, "open_access_url": "https://www.nejm.org/doi/pdf/10.1056/NEJMoa2031054",
		"abstract": "Transfusion-dependent β-thalassemia and sickle cell and severe.",
	}, out.Results[0])
	require.Equal(t, map[string]any{
		"n": 2.0, "source": "openalex", "title": "A thesis", "year": 1987.0, "openalex": "W2", "url": "https://openalex.org/W2",
	}, out.Results[1])
	require.Equal(t, "10.5555/typed", out.Results[2]["doi"], "fields of another type are left out")
	require.Equal(t, 1999, numberIn(out.Results[2]["year"]))

	w.call(t, "search_openalex", `{"query":"x","open_access":null,"type":null,"from_year":null,"max_results":null}`)
	require.False(t, w.requests(works)[1].Has("filter"))
}

func TestSourceWithAWorkTwice(t *testing.T) {
	w := start(t, nil)
	w.set(works, reply{body: `{"results":[{"id":"https://openalex.org/W1","doi":"10.1000/a","display_name":"A"},{"id":"https://openalex.org/W2","display_name":"B"},
		{"id":"https://openalex.org/W3","doi":"https://doi.org/10.1000/A","display_name":"A","biblio":{"volume":"7"}}]}`})
	out := w.call(t, "search_openalex", `{"query":"x"}`)
	require.Len(t, out.Results, 2)
	require.Equal(t, "7", w.call(t, "get_bibliography", `{"format":"csl-json"}`).Items[0]["volume"])
}

func TestWeb(t *testing.T) {
	want := map[string]any{
		"n": 1.0, "source": "web", "title": "Sickle Cell Disease (SCD) | CDC", "journal": "www.cdc.gov",
		"url": "https://www.cdc.gov/sickle-cell/index.html?a=1&utm_source=x", "abstract": "What you need to know about sickle cell; p < 0.05 & more.",
	}
	t.Run("duckduckgo", func(t *testing.T) {
		w := start(t, nil)
		out := w.call(t, "search_web", `{"query":"sickle cell","site":"cdc.gov","recency":"month"}`)
		asked := w.requests(duckPage)[0]
		require.Equal(t, "sickle cell site:cdc.gov", asked.Get("q"))
		require.Equal(t, "m", asked.Get("df"))
		require.Len(t, out.Results, 2, "no advertisements, no pages twice, nothing but http")
		require.Equal(t, want, out.Results[0])
		require.Equal(t, "33283989", out.Results[1]["pmid"], "a page about a work is that work")
		w.set(duckPage, reply{body: fixture(t, "duckduckgo_none.html")})
		require.Empty(t, w.call(t, "search_web", `{"query":"xyzzy"}`).Results)
	})
	t.Run("searxng", func(t *testing.T) {
		w := start(t, func(cfg *research.Config) {
			cfg.WebProvider, cfg.WebURL = research.SearXNG, cfg.WebURL+"/"
		})
		w.set("/search", reply{media: "application/json", body: fixture(t, "searxng.json")})
		out := w.call(t, "search_web", `{"query":"sickle cell","recency":"year"}`)
		require.Equal(t, "json", w.requests("/search")[0].Get("format"))
		require.Equal(t, "year", w.requests("/search")[0].Get("time_range"))
		require.Len(t, out.Results, 1)
		require.Equal(t, "Sickle-cell disease", out.Results[0]["title"])
		require.Equal(t, "Fact sheet & figures", out.Results[0]["abstract"])
		require.Equal(t, "2025-06-01", out.Results[0]["date"])
		require.Equal(t, []string{"SearXNG had no answer of duckduckgo: CAPTCHA"}, out.Warnings)
	})
	t.Run("brave", func(t *testing.T) {
		w := start(t, func(cfg *research.Config) { cfg.WebProvider = research.Brave })
		w.set("/res/v1/web/search", reply{media: "application/json", body: fixture(t, "brave.json")}, reply{body: `{"type":"search","query":{}}`})
		out := w.call(t, "search_web", `{"query":"sickle cell","recency":"week","max_results":50}`)
		require.Equal(t, "20", w.requests("/res/v1/web/search")[0].Get("count"), "more is refused")
		require.Equal(t, "pw", w.requests("/res/v1/web/search")[0].Get("freshness"))
		require.Equal(t, "Sickle Cell Disease | NHLBI", out.Results[0]["title"])
		require.Equal(t, "Sickle cell disease is a group of inherited disorders.", out.Results[0]["abstract"])
		require.Empty(t, w.call(t, "search_web", `{"query":"xyzzy"}`).Results)
	})
	t.Run("none", func(t *testing.T) {
		w := start(t, func(cfg *research.Config) { cfg.WebProvider = "" })
		for _, each := range w.kit.Tools() {
			require.NotEqual(t, "search_web", each.Spec().Name)
		}
		require.Equal(t, "invalid", w.fail(t, "search_research", `{"query":"x","sources":["web"]}`).Type)
	})
}
