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
	span       span
	openAccess *bool
	kind       string
}

func openAlexTypes() []string {
	return []string{
		"article", "review", "preprint", "book", "book-chapter", "dissertation", "dataset", "report", "letter", "editorial", "standard", "reference-entry",
		"peer-review", "erratum", "retraction", "other",
	}
}

func parseOpenAlex(args json.RawMessage) (*search, error) {
	var in struct {
		common
		FromYear   *int    `json:"from_year"`
		ToYear     *int    `json:"to_year"`
		OpenAccess *bool   `json:"open_access"`
		Type       *string `json:"type"`
	}
	if err := decode(args, &in); err != nil {
		return nil, err
	}
	s := openAlexSearch{openAccess: in.OpenAccess}
	var err error
	if s.query, s.max, err = in.queryAndMax(DefaultResults); err != nil {
		return nil, err
	}
	if s.span, err = years(in.FromYear, in.ToYear); err != nil {
		return nil, err
	}
	if s.kind, err = choice("type", in.Type, openAlexTypes()); err != nil {
		return nil, err
	}
	return s.search(), nil
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
	if s.span.from.year != 0 {
		filter = append(filter, "from_publication_date:"+s.span.first(0))
	}
	if s.span.to.year != 0 {
		filter = append(filter, "to_publication_date:"+s.span.last(0))
	}
	if s.openAccess != nil {
		filter = append(filter, "is_oa:"+strconv.FormatBool(*s.openAccess))
	}
	if s.kind != "" {
		filter = append(filter, "type:"+s.kind)
	}
	if len(filter) > 0 {
		p.Set("filter", strings.Join(filter, ","))
	}
	return p
}

// openWork is the part of a work that we read. Any of it may be null.
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
		return nil, agent.Errorf(agent.CodeInvalid, "", "%s refused the search: %s", openAlexTitle, clip(tidy(in.Error+" "+in.Message), maxComplaint))
	case in.Results == nil:
		return nil, unreadable(openAlexTitle, "has no results")
	}
	out := &searchResult{total: int(in.Meta.Count)}
	for i := range *in.Results {
		if i == limit {
			break
		}
		w := (*in.Results)[i].work()
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
		w.issued = dateOf(strconv.Itoa(int(o.Year)), "", "")
	}
	w.journal, w.publish = field(o.Location.Source.Name), field(o.Location.Source.Host)
	w.volume, w.issue, w.pages = field(o.Biblio.Volume), field(o.Biblio.Issue), field(o.Biblio.First)
	if last := field(o.Biblio.Last); last != "" && last != w.pages && w.pages != "" {
		w.pages += "-" + last
	}
	for _, a := range o.Authorships {
		text := a.Author.Name
		if strings.TrimSpace(text) == "" {
			text = a.Raw
		}
		if p := personOf(name(text)); p != (person{}) {
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

// openAlexKind is the type of CSL for one of OpenAlex.
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

// maxPosition bounds the words of an abstract.
const maxPosition = 20_000

// joinAbstract puts an abstract together that is given as {"word":[positions]}.
func joinAbstract(index map[string][]int) string {
	type placed struct {
		at   int
		word string
	}
	var all []placed
	for word, positions := range index {
		for _, at := range positions {
			if at >= 0 && at < maxPosition && len(all) < maxPosition {
				all = append(all, placed{at, word})
			}
		}
	}
	slices.SortFunc(all, func(a, b placed) int {
		return cmp.Or(a.at-b.at, strings.Compare(a.word, b.word))
	})
	var b strings.Builder
	for _, p := range all {
		if b.Len() > 8*maxAbstract {
			break // more than is shown
		}
		b.WriteString(p.word)
		b.WriteByte(' ')
	}
	return strings.TrimSpace(b.String())
}

// personOf splits a name as people write it, "Ludwig van Beethoven" or "Beethoven, Ludwig van"; a single word is left whole.
func personOf(text string) person {
	text = strings.Trim(text, " ,")
	if family, given, ok := strings.Cut(text, ","); ok {
		return person{family: strings.TrimSpace(family), given: strings.TrimSpace(given)}
	}
	parts := strings.Fields(text)
	if len(parts) < 2 {
		return person{literal: text}
	}
	at := len(parts) - 1
	for at > 1 && isParticle(parts[at-1]) {
		at--
	}
	return person{given: strings.Join(parts[:at], " "), family: strings.Join(parts[at:], " ")}
}

// isParticle reports whether a word belongs to the family name behind it.
func isParticle(word string) bool {
	return slices.Contains([]string{
		"van", "von", "der", "den", "de", "del", "della", "di", "da", "dos", "du", "la", "le", "ter", "ten", "zu", "af", "al", "el", "bin", "ibn",
	}, word)
}
