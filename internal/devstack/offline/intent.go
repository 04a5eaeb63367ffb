package offline

import "encoding/json"

// intent is what a prompt asks for. Without a source it is about the rows that the conversation has.
type intent struct {
	say    int  // words to say
	slowly bool // 50 ms for each

	url          string // fetch this
	origin, dest string // fetch flights
	flights      bool   // fetch flights, wherever
	assumed      bool   // no route was given; it is the example's
	lost         bool   // a source is named that means nothing here: do not take the earlier rows for it

	tests  []clause // filters, all of which must hold
	sort   string
	desc   bool
	top    int
	fields []string
	twice  bool

	ignored []string // words that mean nothing to the parser
}

// clause is one node of a filter, in the form that table_filter takes.
type clause struct {
	And   []clause        `json:"and,omitempty"`
	Or    []clause        `json:"or,omitempty"`
	Not   *clause         `json:"not,omitempty"`
	Field string          `json:"field,omitempty"`
	Op    string          `json:"op,omitempty"`
	Value json.RawMessage `json:"value,omitempty"`
}

// understood reports whether the prompt asks for something that can be done.
func (in *intent) understood() bool {
	return in.say > 0 || in.url != "" || in.origin != "" || in.refines() && !in.lost
}

// refines reports whether the prompt says what to do with rows.
func (in *intent) refines() bool {
	return len(in.tests) > 0 || in.sort != "" || in.top > 0 || len(in.fields) > 0
}
