package research

import (
	"cmp"
	"context"
	"encoding/json"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/turnstone-run/turnstone/agent"
)

const openAlexFields = "id,doi,display_name,type,publication_year,publication_date,language,ids,authorships,primary_location,open_access,biblio," +
	"cited_by_count,abstract_inverted_index"

// openAlexSearch asks OpenAlex for works of all fields of research.
type openAlexSearch struct {
	query      string
	max        int
	dates      dateRange
	openAccess *bool
	workType   string
}

func openAlexTypes() []string {
	return []string{
		"article", "review", "preprint", "book", "book-chapter", "dissertation", "dataset", "report", "letter", "editorial", "standard", "reference-entry",
		"peer-review", "erratum", "retraction", "other",
	}
}

func parseOpenAlex(args json.RawMessage) (*search, error) {
	var in struct {
		commonArguments
		FromYear   *int    `json:"from_year"`
		ToYear     *int    `json:"to_year"`
		OpenAccess *bool   `json:"open_access"`
		Type       *string `json:"type"`
	}
	r := readArguments(args, &in)
	s := &openAlexSearch{
		query: r.query(in.Query), max: r.maxResults(in.MaxResults, DefaultResults), dates: r.years(in.FromYear, in.ToYear),
		openAccess: in.OpenAccess, workType: r.choice("type", in.Type, openAlexTypes()...),
	}
	return s.search(), r.err
}

func (s *openAlexSearch) search() *search {
	return &search{source: openAlexName, title: openAlexTitle, query: s.query, max: s.max, run: s.run}
}

func (s *openAlexSearch) run(ctx context.Context, x *exchange) (*searchResult, error) {
	p := s.parameters()
	if x.kit.cfg.Contact != "" {
		p.Set("mailto", x.kit.cfg.Contact)
	}
	resp, err := x.ask(ctx, openAlexName, "works", "application/json", p)
	if err != nil {
		return nil, err
	}
	return parseWorks(resp, s.max)
}

func (s *openAlexSearch) parameters() url.Values {
	p := url.Values{"search": {s.query}, "per-page": {strconv.Itoa(s.max)}, "select": {openAlexFields}}
	var filter []string
	if s.dates.from.year != 0 {
		filter = append(filter, "from_publication_date:"+s.dates.firstDay(0))
	}
	if s.dates.to.year != 0 {
		filter = append(filter, "to_publication_date:"+s.dates.lastDay(0))
	}
	if s.openAccess != nil {
		filter = append(filter, "is_oa:"+strconv.FormatBool(*s.openAccess))
	}
	if s.workType != "" {
		filter = append(filter, "type:"+s.workType)
	}
	if len(filter) > 0 {
		p.Set("filter", strings.Join(filter, ","))
	}
	return p
}

// openWork is the part of a work that is used. Every field may be null.
type openWork struct {
	ID      string `json:"id"`
	DOI     string `json:"doi"`
	Title   string `json:"display_name"`
	Type    string `json:"type"`
	Year    number `json:"publication_year"`
	Date    string `json:"publication_date"`
	CitedBy number `json:"cited_by_count"`
	IDs     struct {
		PMID  string `json:"pmid"`
		PMCID string `json:"pmcid"`
	} `json:"ids"`
	Authorships []struct {
		Author struct {
			Name string `json:"display_name"`
		} `json:"author"`
		Raw string `json:"raw_author_name"`
	} `json:"authorships"`
	Location struct {
		Page   string `json:"landing_page_url"`
		Source struct {
			Name string `json:"display_name"`
			Host string `json:"host_organization_name"`
		} `json:"source"`
	} `json:"primary_location"`
	OpenAccess struct {
		URL string `json:"oa_url"`
	} `json:"open_access"`
	Biblio struct {
		Volume string `json:"volume"`
		Issue  string `json:"issue"`
		First  string `json:"first_page"`
		Last   string `json:"last_page"`
	} `json:"biblio"`
	Abstract map[string][]int `json:"abstract_inverted_index"`
}

// parseWorks reads {"meta":{"count":1},"results":[…]}; an error is {"error":"…","message":"…"}.
func parseWorks(resp *response, limit int) (*searchResult, error) {
	var in struct {
		Meta struct {
			Count number `json:"count"`
		} `json:"meta"`
		Error   string      `json:"error"`
		Message string      `json:"message"`
		Results *[]openWork `json:"results"`
	}
	if err := readJSON(openAlexTitle, resp, &in); err != nil {
		return nil, err
	}
	switch {
	case in.Results == nil && in.Error != "":
		return nil, agent.Errorf(agent.CodeInvalid, "", "%s refused the search: %s", openAlexTitle, clip(tidy(in.Error+" "+in.Message), maxErrorText))
	case in.Results == nil:
		return nil, unreadableError(openAlexTitle, "has no results")
	}
	out := &searchResult{total: int(in.Meta.Count)}
	works := (*in.Results)[:min(limit, len(*in.Results))]
	for i := range works {
		w := works[i].work()
		out.add(&w)
	}
	return out, nil
}

func (o *openWork) work() work {
	w := work{source: openAlexName, kind: openAlexKind(o.Type), title: titleOf(o.Title), doi: normalDOI(o.DOI)}
	w.openAlex = matchID(openAlexPattern, lastPart(o.ID))
	w.pmid = matchID(pmidPattern, lastPart(o.IDs.PMID))
	if id := lastPart(o.IDs.PMCID); id != "" {
		w.pmcid = matchID(pmcidPattern, "PMC"+strings.TrimPrefix(id, "PMC"))
	}
	if w.kind == kindPreprint {
		w.genre = "Preprint"
	}
	if w.issued = isoDate(o.Date); w.issued.year == 0 {
		w.issued = parseDate(strconv.Itoa(int(o.Year)), "", "")
	}
	w.journal, w.publisher = field(o.Location.Source.Name), field(o.Location.Source.Host)
	w.volume, w.issue, w.pages = field(o.Biblio.Volume), field(o.Biblio.Issue), field(o.Biblio.First)
	if last := field(o.Biblio.Last); last != "" && last != w.pages && w.pages != "" {
		w.pages += "-" + last
	}
	for _, a := range o.Authorships {
		text := cmp.Or(strings.TrimSpace(a.Author.Name), a.Raw)
		if p := parsePerson(personName(text)); p != (person{}) {
			w.authors = append(w.authors, p)
		}
	}
	w.abstract = plainText(joinAbstract(o.Abstract))
	w.more = details{CitedBy: int(o.CitedBy), OpenAccessURL: pageURL(o.OpenAccess.URL)}
	switch {
	case w.doi != "":
		w.url = doiURL(w.doi)
	case pageURL(o.Location.Page) != "":
		w.url = pageURL(o.Location.Page)
	case w.openAlex != "":
		w.url = "https://openalex.org/" + w.openAlex
	}
	return w
}

// openAlexKind returns the CSL type for a type of OpenAlex.
func openAlexKind(t string) string {
	switch t {
	case "preprint":
		return kindPreprint
	case "book":
		return kindBook
	case "book-chapter", "reference-entry":
		return kindChapter
	case "dissertation":
		return kindThesis
	case "dataset":
		return kindDataset
	case "report", "standard":
		return kindReport
	default:
		return kindArticle
	}
}

// maxWords is the maximum number of words of an abstract.
const maxWords = 20_000

// joinAbstract returns the text of an abstract from its inverted index: {"word":[positions]}.
func joinAbstract(index map[string][]int) string {
	type occurrence struct {
		position int
		word     string
	}
	var all []occurrence
	for word, positions := range index {
		for _, p := range positions {
			if p >= 0 && p < maxWords && len(all) < maxWords {
				all = append(all, occurrence{p, word})
			}
		}
	}
	slices.SortFunc(all, func(a, b occurrence) int {
		return cmp.Or(a.position-b.position, strings.Compare(a.word, b.word))
	})
	var b strings.Builder
	for _, o := range all {
		if b.Len() > 8*maxAbstract {
			break // the rest would not be shown
		}
		b.WriteString(o.word)
		b.WriteByte(' ')
	}
	return strings.TrimSpace(b.String())
}

// parsePerson parses a name such as "Ludwig van Beethoven" or "Beethoven, Ludwig van". A single word is a literal name.
func parsePerson(text string) person {
	text = strings.Trim(text, " ,")
	if family, given, ok := strings.Cut(text, ","); ok {
		return person{family: strings.TrimSpace(family), given: strings.TrimSpace(given)}
	}
	parts := strings.Fields(text)
	if len(parts) < 2 {
		return person{literal: text}
	}
	i := len(parts) - 1 // where the family name begins
	for i > 1 && isParticle(parts[i-1]) {
		i--
	}
	return person{given: strings.Join(parts[:i], " "), family: strings.Join(parts[i:], " ")}
}

// isParticle reports whether a word belongs to the family name that follows it.
func isParticle(word string) bool {
	return slices.Contains([]string{
		"van", "von", "der", "den", "de", "del", "della", "di", "da", "dos", "du", "la", "le", "ter", "ten", "zu", "af", "al", "el", "bin", "ibn",
	}, word)
}
