package research

import (
	"context"
	"encoding/json"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/turnstone-run/turnstone/agent"
)

// preprintSource is Europe PMC's name for its preprints.
const preprintSource = "PPR"

// preprintsSearch asks Europe PMC for preprints and papers: bioRxiv, medRxiv, arXiv and others, and what journals have published.
type preprintsSearch struct {
	query string
	max   int
	span  span
	alone bool // preprints without papers
}

func parsePreprints(args json.RawMessage) (*search, error) {
	var in struct {
		common
		DateFrom *string `json:"date_from"`
		DateTo   *string `json:"date_to"`
	}
	if err := decode(args, &in); err != nil {
		return nil, err
	}
	var s preprintsSearch
	var err error
	if s.query, s.max, err = in.queryAndMax(DefaultResults); err != nil {
		return nil, err
	}
	if s.span, err = spanOf(in.DateFrom, in.DateTo); err != nil {
		return nil, err
	}
	return s.search(), checkBalance(s.query)
}

// broadPreprints searches for preprints alone: papers are found by PubMed and OpenAlex.
func broadPreprints(query string, n int, years span) *search {
	if checkBalance(query) != nil { // only Europe PMC minds
		query = strings.NewReplacer("(", " ", ")", " ", `"`, " ").Replace(query)
	}
	return (&preprintsSearch{query: query, max: n, span: years, alone: true}).search()
}

// checkBalance refuses a query that would not stay within the parentheses that are put around it.
func checkBalance(query string) error {
	depth, quoted := 0, false
	for _, r := range query {
		switch {
		case r == '"':
			quoted = !quoted
		case quoted:
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
	case quoted:
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

func (s *preprintsSearch) expression() string {
	q := "(" + s.query + ") AND (SRC:" + strings.Join(s.kinds(), " OR SRC:") + ")"
	if !s.span.open() {
		q += " AND (FIRST_PDATE:[" + s.span.first(firstYear) + " TO " + s.span.last(3000) + "])"
	}
	return q
}

// kinds are the sources within Europe PMC: of preprints, and of papers PubMed, PubMed Central, Agricola and the Chinese Biological
// Abstracts. Patents, theses and guidelines are left out.
func (s *preprintsSearch) kinds() []string {
	if s.alone {
		return []string{preprintSource}
	}
	return []string{preprintSource, "MED", "PMC", "AGR", "CBA"}
}

// europeID is what the address of a record may end with.
var europeID = regexp.MustCompile(`^[A-Z]{0,4}[0-9]{1,15}$`)

// europeRecord is the part of a record, resultType core, that we read.
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
		return nil, agent.Invalid("query", "%s refused it: %s", preprintsTitle, clip(tidy(in.Error), maxComplaint))
	case in.List == nil:
		return nil, unreadable(preprintsTitle, "has no resultList")
	}
	out := &searchResult{total: int(in.Hits)}
	for i := range in.List.Results {
		r := &in.List.Results[i]
		if !slices.Contains(s.kinds(), r.Source) || len(out.works) == s.max {
			continue // nothing else is promised
		}
		w := r.work()
		out.add(&w)
	}
	return out, nil
}

func (r *europeRecord) work() work {
	w := work{source: preprintsName, title: titleOf(r.Title), doi: normalDOI(r.DOI), abstract: plainText(r.Abstract), authors: r.authors()}
	if w.issued = isoDate(r.Date); w.issued.year == 0 {
		w.issued = dateOf(r.Year, "", "")
	}
	w.more.CitedBy = int(r.CitedBy)
	if r.Source == preprintSource {
		r.asPreprint(&w)
	} else {
		r.asPaper(&w)
	}
	switch id := matchID(europeID, r.ID); {
	case w.doi != "":
		w.url = doiURL(w.doi)
	case id != "":
		w.url = "https://europepmc.org/article/" + r.Source + "/" + id
	}
	return w
}

func (r *europeRecord) asPreprint(w *work) {
	w.kind, w.genre, w.more.Type = kindPreprint, "Preprint", "preprint"
	w.europe, w.journal = matchID(europePattern, r.ID), field(r.Details.Publisher)
	for _, c := range r.Comments.List {
		if c.Source == "MED" && strings.EqualFold(c.Type, "Preprint of") {
			w.more.PublishedPMID = matchID(pmidPattern, c.ID)
		}
	}
}

func (r *europeRecord) asPaper(w *work) {
	w.kind, w.more.Type = kindArticle, "paper"
	w.pmid, w.pmcid = matchID(pmidPattern, r.PMID), matchID(pmcidPattern, r.PMCID)
	j := &r.Journal
	w.journal, w.short, w.volume, w.issue, w.pages = field(j.Journal.Title), field(j.Journal.Short), field(j.Volume), field(j.Issue), field(r.Pages)
}

func (r *europeRecord) authors() []person {
	var out []person
	for i := range r.List.Authors {
		a := &r.List.Authors[i]
		p := person{family: name(a.Last), given: name(a.First)}
		if p.given == "" {
			p.given = name(a.Initials)
		}
		if p.family == "" {
			p = person{literal: name(a.Collective)}
			if p.literal == "" {
				p.literal = name(a.Full)
			}
		}
		if p != (person{}) {
			out = append(out, p)
		}
	}
	if len(out) > 0 {
		return out
	}
	for text := range strings.SplitSeq(strings.TrimSuffix(plainText(r.Authors), "."), ", ") {
		if text = name(text); text != "" && len(out) < maxAuthors+1 {
			out = append(out, personWithInitials(text))
		}
	}
	return out
}

// personWithInitials reads "Nguyen TK".
func personWithInitials(text string) person {
	at := strings.LastIndexByte(text, ' ')
	if at < 0 || strings.ToUpper(text[at:]) != text[at:] || len(text[at:]) > 5 {
		return person{literal: text}
	}
	return person{family: text[:at], given: text[at+1:]}
}
