package research

import (
	"slices"
	"strings"
)

// work is a publication, a trial or a page that a source has found. Unknown fields are empty.
type work struct {
	source  string // its name, such as pubmed
	also    []string
	kind    string // a type of CSL
	genre   string // within the kind, for people: Preprint
	title   string
	authors []person
	issued  date
	journal string // or the book, the preprint server
	short   string // the journal's abbreviation
	volume  string
	issue   string
	pages   string
	publish string // the publisher, or the sponsor of a trial
	seen    date   // when a page was looked at

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

// details are fields of some sources. They are in answers, not in the bibliography.
type details struct {
	Type          string   `json:"type,omitempty"` // preprint or paper, of Europe PMC
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
	PublishedPMID string   `json:"published_pmid,omitempty"` // of a preprint that has become an article
}

// person is an author: family and perhaps given name, or only the literal name of a group.
type person struct {
	family  string
	given   string
	literal string
}

// display returns the name as people write it.
func (p person) display() string {
	if p.literal != "" {
		return p.literal
	}
	return strings.TrimSpace(p.given + " " + p.family)
}

// keys returns the key of a work and then its aliases. Equal works of different sources share at least one.
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

// link returns the address at which a work can be read.
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

// weight returns how much is known of a work. Of two reports of one work the heavier is better.
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
		n -= 5 // a page about a work knows less of it than any catalogue
	}
	return n
}

// mergeWork copies into a the fields of b that a lacks.
func mergeWork(a, b *work) {
	for _, pair := range []struct{ to, from *string }{
		{&a.title, &b.title},
		{&a.genre, &b.genre},
		{&a.journal, &b.journal},
		{&a.short, &b.short},
		{&a.volume, &b.volume},
		{&a.issue, &b.issue},
		{&a.pages, &b.pages},
		{&a.publish, &b.publish},
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
	for _, s := range append([]string{b.source}, b.also...) {
		if s != a.source && !slices.Contains(a.also, s) {
			a.also = append(a.also, s)
		}
	}
}
