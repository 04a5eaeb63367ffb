package offline

import "encoding/json"

// intent is what a prompt asks for. Without a source it is about the rows that the conversation has.
type intent struct {
	say    int  // words to say
	slowly bool // 50 ms for each

	from    source
	assumed bool // no route was given; it is the example's
	lost    bool // a source is named that means nothing here: do not take the earlier rows for it
	show    bool // the rows as they are
	twice   bool

	stages []stage // in order; the first one has no shape

	ignored []string // words that mean nothing to the parser
}

// source is where rows come from: an address, a list of the sample API, a reference, or a result of the conversation.
type source struct {
	url    string
	post   bool
	params map[string]json.RawMessage

	api          string // apiFlights, apiAirlines or apiBookings
	origin, dest string // of flights
	count        int    // of flights; 0: as many as there are
	format       string // csv or ndjson; empty: JSON

	ref  string
	pick *pick
}

// The lists of the sample API.
const (
	apiFlights  = "flights"
	apiAirlines = "airlines"
	apiBookings = "bookings"
)

// pick is one of the results that the conversation has.
type pick struct {
	node string // what a node of the workflow left
	nth  int    // from the oldest, 1 is the first; 0 is the latest, -1 the one before
}

// fetches reports whether the rows have to be requested.
func (s *source) fetches() bool { return s.url != "" || s.api != "" }

func (s *source) given() bool { return s.fetches() || s.ref != "" || s.pick != nil }

// stage is at most one step that makes other rows, and what is done with the rows it makes, in this order.
type stage struct {
	group   *grouping
	join    *joining
	jq      string
	extract *extraction
	date    *dating

	tests  []clause // filters, all of which must hold
	sort   []sortKey
	top    int
	fields []column // select
	rename []column // all other fields stay
	drop   []string
}

type sortKey struct {
	field string
	desc  bool
}

// column is a field of the result; as is empty for its own name.
type column struct{ field, as string }

type grouping struct {
	aggs []aggregate
	by   []string // none: all rows are one group
}

// aggregate is a column that a grouping makes; the field is empty for a count of rows.
type aggregate struct{ fn, field string }

func (a aggregate) name() string {
	if a.field == "" {
		return a.fn
	}
	return a.fn + "_" + a.field
}

type joining struct {
	left bool
	from *source // nil: the rows so far
	with source
	on   [2]string // of the rows so far, of the others; both empty where the prompt does not say
}

type extraction struct{ pattern, field string }

type dating struct{ field, format string }

// clause is one node of a filter, in the form that table_filter takes.
type clause struct {
	And   []clause        `json:"and,omitempty"`
	Or    []clause        `json:"or,omitempty"`
	Not   *clause         `json:"not,omitempty"`
	Field string          `json:"field,omitempty"`
	Op    string          `json:"op,omitempty"`
	Value json.RawMessage `json:"value,omitempty"`
}

// each calls f with every test of the tree.
func (c *clause) each(f func(*clause)) {
	for i := range c.And {
		c.And[i].each(f)
	}
	for i := range c.Or {
		c.Or[i].each(f)
	}
	if c.Not != nil {
		c.Not.each(f)
	}
	if c.Field != "" {
		f(c)
	}
}

// understood reports whether the prompt asks for something that can be done.
func (in *intent) understood() bool {
	return in.say > 0 || in.from.fetches() || (in.refines() || in.show) && !in.lost
}

// refines reports whether the prompt says what to do with rows.
func (in *intent) refines() bool {
	for i := range in.stages {
		s := &in.stages[i]
		if s.shaped() || len(s.tests)+len(s.sort)+s.top+len(s.fields)+len(s.rename)+len(s.drop) > 0 {
			return true
		}
	}
	return false
}

func (s *stage) shaped() bool {
	return s.group != nil || s.join != nil || s.jq != "" || s.extract != nil || s.date != nil
}
