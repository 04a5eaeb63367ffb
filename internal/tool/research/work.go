package research

import (
	"cmp"
	"slices"
	"strings"
)

// work is a publication, a clinical trial or a web page that a source has found. Unknown fields are empty.
type work struct {
	source       string   // the name of the source, such as pubmed
	alsoIn       []string // the names of other sources that have found it
	kind         string   // a CSL type
	genre        string   // for people, such as Preprint
	title        string
	authors      []person
	issued       date
	journal      string // or the book, the preprint server, the host of a page
	abbreviation string // of the journal
	volume       string
	issue        string
	pages        string
	publisher    string
	accessed     date // when a web page was found

	doi      string // normalised
	pmid     string
	pmcid    string // PMC…
	nct      string // NCT…
	openAlex string // W…
	europe   string // PPR…
	url      string

	abstract string
	more     details
}

// details are fields that only some sources have. They are in answers, but not in the bibliography.
type details struct {
	Type          string   `json:"type,omitempty"` // preprint or paper
	Status        string   `json:"status,omitempty"`
	Phases        []string `json:"phases,omitempty"`
	Conditions    []string `json:"conditions,omitempty"`
	Interventions []string `json:"interventions,omitempty"`
	Sponsor       string   `json:"sponsor,omitempty"`
	Enrollment    int      `json:"enrollment,omitzero"`
	Started       string   `json:"started,omitempty"`
	Completed     string   `json:"completed,omitempty"`
	HasResults    bool     `json:"has_results,omitzero"`
	CitedBy       int      `json:"cited_by,omitzero"`
	OpenAccessURL string   `json:"open_access_url,omitempty"`
	PublishedPMID string   `json:"published_pmid,omitempty"` // the PMID of the article that a preprint has become
}

// person is an author: a family name and perhaps given names, or only a literal name, such as that of a group.
type person struct {
	family  string
	given   string
	literal string
}

// displayName returns the name with the given names first.
func (p person) displayName() string {
	return cmp.Or(p.literal, strings.TrimSpace(p.given+" "+p.family))
}

// keys returns the key of a work and its aliases. The same work from different sources has at least one in common.
func (w *work) keys() []string {
	var keys []string
	for _, k := range []struct{ scheme, id string }{
		{"doi", w.doi},
		{"pmid", w.pmid},
		{"nct", w.nct},
		{"openalex", w.openAlex},
		{"pmcid", w.pmcid},
		{"europepmc", w.europe},
	} {
		if k.id != "" {
			keys = append(keys, k.scheme+":"+k.id)
		}
	}
	if len(keys) == 0 && w.url != "" {
		keys = append(keys, urlKey(w.url))
	}
	return keys
}

// link returns the address of a work, empty if there is none.
func (w *work) link() string {
	switch {
	case w.url != "":
		return w.url
	case w.doi != "":
		return doiURL(w.doi)
	case w.pmid != "":
		return "https://pubmed.ncbi.nlm.nih.gov/" + w.pmid + "/"
	default:
		return ""
	}
}

// weight returns a score for how many fields of a work are known.
func (w *work) weight() int {
	n := min(len(w.authors), 3)
	for _, s := range []string{w.title, w.journal, w.volume, w.issue, w.pages, w.doi, w.pmid, w.pmcid, w.abstract} {
		if s != "" {
			n++
		}
	}
	if w.issued.year != 0 {
		n++
	}
	if w.kind == kindWebPage {
		n -= 5 // a catalogue is more reliable than a page about the work
	}
	return n
}

// mergeWork copies to a the fields of b that a lacks.
func mergeWork(a, b *work) {
	for _, pair := range []struct{ to, from *string }{
		{&a.title, &b.title},
		{&a.genre, &b.genre},
		{&a.journal, &b.journal},
		{&a.abbreviation, &b.abbreviation},
		{&a.volume, &b.volume},
		{&a.issue, &b.issue},
		{&a.pages, &b.pages},
		{&a.publisher, &b.publisher},
		{&a.doi, &b.doi},
		{&a.pmid, &b.pmid},
		{&a.pmcid, &b.pmcid},
		{&a.nct, &b.nct},
		{&a.openAlex, &b.openAlex},
		{&a.europe, &b.europe},
		{&a.url, &b.url},
		{&a.abstract, &b.abstract},
		{&a.more.OpenAccessURL, &b.more.OpenAccessURL},
		{&a.more.PublishedPMID, &b.more.PublishedPMID},
	} {
		if *pair.to == "" {
			*pair.to = *pair.from
		}
	}
	if len(a.authors) == 0 {
		a.authors = b.authors
	}
	if a.issued.year == 0 {
		a.issued = b.issued
	}
	if a.more.CitedBy == 0 {
		a.more.CitedBy = b.more.CitedBy
	}
	for _, s := range append([]string{b.source}, b.alsoIn...) {
		if s != a.source && !slices.Contains(a.alsoIn, s) {
			a.alsoIn = append(a.alsoIn, s)
		}
	}
}
