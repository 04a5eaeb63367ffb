package research

import (
	"cmp"
	"context"
	"encoding/json"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/turnstone-run/turnstone/agent"
)

// preprintSource is Europe PMC's code for preprints.
const preprintSource = "PPR"

// preprintsSearch asks Europe PMC for preprints of bioRxiv, medRxiv, arXiv and others, and for papers in journals.
type preprintsSearch struct {
	query         string
	max           int
	dates         dateRange
	onlyPreprints bool
}

func parsePreprints(args json.RawMessage) (*search, error) {
	var in struct {
		commonArguments
		DateFrom *string `json:"date_from"`
		DateTo   *string `json:"date_to"`
	}
	r := readArguments(args, &in)
	s := &preprintsSearch{
		query: r.query(in.Query), max: r.maxResults(in.MaxResults, DefaultResults), dates: r.dates(in.DateFrom, in.DateTo),
	}
	r.fail(checkBalance(s.query))
	return s.search(), r.err
}

// broadPreprints searches for preprints only, because PubMed and OpenAlex find the papers.
func broadPreprints(query string, n int, years dateRange) *search {
	if checkBalance(query) != nil { // a query that the other sources accept
		query = strings.NewReplacer("(", " ", ")", " ", `"`, " ").Replace(query)
	}
	return (&preprintsSearch{query: query, max: n, dates: years, onlyPreprints: true}).search()
}

// checkBalance returns an error for a query that would break out of the parentheses around it in a larger query.
func checkBalance(query string) error {
	depth, inQuotes := 0, false
	for _, r := range query {
		switch {
		case r == '"':
			inQuotes = !inQuotes
		case inQuotes:
		case r == '(':
			depth++
		case r == ')':
			depth--
		}
		if depth < 0 {
			break
		}
	}
	switch {
	case inQuotes:
		return agent.Invalid("query", "has a quotation mark without its other")
	case depth != 0:
		return agent.Invalid("query", "has a parenthesis without its other")
	default:
		return nil
	}
}

func (s *preprintsSearch) search() *search {
	return &search{source: preprintsName, title: preprintsTitle, query: s.query, max: s.max, run: s.run}
}

func (s *preprintsSearch) run(ctx context.Context, x *exchange) (*searchResult, error) {
	p := url.Values{"query": {s.expression()}, "format": {"json"}, "resultType": {"core"}, "pageSize": {strconv.Itoa(s.max)}}
	if x.kit.cfg.Contact != "" {
		p.Set("email", x.kit.cfg.Contact)
	}
	resp, err := x.ask(ctx, preprintsName, "search", "application/json", p)
	if err != nil {
		return nil, err
	}
	return parseEuropePMC(resp, s)
}

// expression returns the query in the language of Europe PMC.
func (s *preprintsSearch) expression() string {
	q := "(" + s.query + ") AND (SRC:" + strings.Join(s.sources(), " OR SRC:") + ")"
	if !s.dates.isOpen() {
		q += " AND (FIRST_PDATE:[" + s.dates.firstDay(firstYear) + " TO " + s.dates.lastDay(3000) + "])"
	}
	return q
}

// sources returns the sources within Europe PMC that are searched: preprints, and for papers PubMed, PubMed Central, Agricola and the Chinese
// Biological Abstracts. Patents, theses and guidelines are left out.
func (s *preprintsSearch) sources() []string {
	if s.onlyPreprints {
		return []string{preprintSource}
	}
	return []string{preprintSource, "MED", "PMC", "AGR", "CBA"}
}

// europeID matches an identifier at the end of a record's address.
var europeID = regexp.MustCompile(`^[A-Z]{0,4}[0-9]{1,15}$`)

// europeRecord is the part of a record, with resultType core, that is used.
//
//nolint:tagliatelle // Europe PMC's names
type europeRecord struct {
	ID       string `json:"id"`
	Source   string `json:"source"`
	DOI      string `json:"doi"`
	Title    string `json:"title"`
	Authors  string `json:"authorString"`
	Abstract string `json:"abstractText"`
	Year     string `json:"pubYear"`
	Date     string `json:"firstPublicationDate"`
	CitedBy  number `json:"citedByCount"`
	PMID     string `json:"pmid"`
	PMCID    string `json:"pmcid"`
	Pages    string `json:"pageInfo"`
	Journal  struct {
		Issue   string `json:"issue"`
		Volume  string `json:"volume"`
		Journal struct {
			Title string `json:"title"`
			Short string `json:"medlineAbbreviation"`
		} `json:"journal"`
	} `json:"journalInfo"`
	List struct {
		Authors []struct {
			Full       string `json:"fullName"`
			First      string `json:"firstName"`
			Last       string `json:"lastName"`
			Initials   string `json:"initials"`
			Collective string `json:"collectiveName"`
		} `json:"author"`
	} `json:"authorList"`
	Details struct {
		Publisher string `json:"publisher"`
	} `json:"bookOrReportDetails"`
	Comments struct {
		List []struct {
			ID     string `json:"id"`
			Source string `json:"source"`
			Type   string `json:"type"`
		} `json:"commentCorrection"`
	} `json:"commentCorrectionList"`
}

// parseEuropePMC reads {"hitCount":1,"resultList":{"result":[…]}}; an error is {"errCode":400,"errMsg":"…"}, with any status.
func parseEuropePMC(resp *response, s *preprintsSearch) (*searchResult, error) {
	//nolint:tagliatelle // Europe PMC's names
	var in struct {
		Hits  number `json:"hitCount"`
		Error string `json:"errMsg"`
		List  *struct {
			Results []europeRecord `json:"result"`
		} `json:"resultList"`
	}
	if err := readJSON(preprintsTitle, resp, &in); err != nil {
		return nil, err
	}
	switch {
	case in.Error != "":
		return nil, agent.Invalid("query", "%s refused it: %s", preprintsTitle, clip(tidy(in.Error), maxErrorText))
	case in.List == nil:
		return nil, unreadableError(preprintsTitle, "has no resultList")
	}
	out := &searchResult{total: int(in.Hits)}
	for i := range in.List.Results {
		r := &in.List.Results[i]
		if !slices.Contains(s.sources(), r.Source) || len(out.works) == s.max {
			continue
		}
		w := r.work()
		out.add(&w)
	}
	return out, nil
}

func (r *europeRecord) work() work {
	w := work{source: preprintsName, title: titleOf(r.Title), doi: normalDOI(r.DOI), abstract: plainText(r.Abstract), authors: r.authors()}
	if w.issued = isoDate(r.Date); w.issued.year == 0 {
		w.issued = parseDate(r.Year, "", "")
	}
	w.more.CitedBy = int(r.CitedBy)
	if r.Source == preprintSource {
		r.setPreprint(&w)
	} else {
		r.setPaper(&w)
	}
	switch id := matchID(europeID, r.ID); {
	case w.doi != "":
		w.url = doiURL(w.doi)
	case id != "":
		w.url = "https://europepmc.org/article/" + r.Source + "/" + id
	}
	return w
}

// setPreprint sets the fields of a work that preprints have.
func (r *europeRecord) setPreprint(w *work) {
	w.kind, w.genre, w.more.Type = kindPreprint, "Preprint", "preprint"
	w.europe, w.journal = matchID(europePattern, r.ID), field(r.Details.Publisher)
	for _, c := range r.Comments.List {
		if c.Source == "MED" && strings.EqualFold(c.Type, "Preprint of") {
			w.more.PublishedPMID = matchID(pmidPattern, c.ID)
		}
	}
}

// setPaper sets the fields of a work that papers have.
func (r *europeRecord) setPaper(w *work) {
	w.kind, w.more.Type = kindArticle, "paper"
	w.pmid, w.pmcid = matchID(pmidPattern, r.PMID), matchID(pmcidPattern, r.PMCID)
	j := &r.Journal
	w.journal, w.abbreviation, w.volume, w.issue, w.pages = field(j.Journal.Title), field(j.Journal.Short), field(j.Volume), field(j.Issue), field(r.Pages)
}

func (r *europeRecord) authors() []person {
	var out []person
	for i := range r.List.Authors {
		a := &r.List.Authors[i]
		p := person{family: personName(a.Last), given: cmp.Or(personName(a.First), personName(a.Initials))}
		if p.family == "" {
			p = person{literal: cmp.Or(personName(a.Collective), personName(a.Full))}
		}
		if p != (person{}) {
			out = append(out, p)
		}
	}
	if len(out) > 0 {
		return out
	}
	for text := range strings.SplitSeq(strings.TrimSuffix(plainText(r.Authors), "."), ", ") {
		if text = personName(text); text != "" && len(out) <= maxAuthors {
			out = append(out, personWithInitials(text))
		}
	}
	return out
}

// personWithInitials parses a name such as "Nguyen TK".
func personWithInitials(text string) person {
	i := strings.LastIndexByte(text, ' ')
	if i < 0 || strings.ToUpper(text[i:]) != text[i:] || len(text[i:]) > 5 {
		return person{literal: text}
	}
	return person{family: text[:i], given: text[i+1:]}
}
