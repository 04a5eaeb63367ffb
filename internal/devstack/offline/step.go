package offline

import (
	"encoding/json"
	"slices"
	"strings"
)

// step is one step of execute_pipeline, its fields in the order that reads best.
type step struct {
	Step      string                     `json:"step"`
	URL       string                     `json:"url,omitempty"`
	Method    string                     `json:"method,omitempty"`
	Params    map[string]json.RawMessage `json:"params,omitempty"`
	Condition *clause                    `json:"condition,omitempty"`
	By        *[]string                  `json:"by,omitempty"`
	Agg       string                     `json:"agg,omitempty"`
	Pattern   string                     `json:"pattern,omitempty"`
	Field     string                     `json:"field,omitempty"`
	Order     string                     `json:"order,omitempty"`
	K         int                        `json:"k,omitempty"`
	Fields    []string                   `json:"fields,omitempty"`
	Left      string                     `json:"left,omitempty"`
	Right     string                     `json:"right,omitempty"`
	On        string                     `json:"on,omitempty"`
	How       string                     `json:"how,omitempty"`
	Query     string                     `json:"query,omitempty"`
	Format    string                     `json:"format,omitempty"`
}

// program makes steps, and knows which columns the rows have behind the last one; nil: not known.
type program struct {
	steps   []step
	columns []string
}

func (p *program) column(word string) string { return columnOf(word, p.columns) }

func (p *program) add(s step) { p.steps = append(p.steps, s) }

// stage adds what is done with the rows: the three cheapest nonstop flights are the three cheapest of the nonstop ones.
func (p *program) stage(s *stage) {
	p.shape(s)
	if len(s.tests) > 0 {
		condition := p.condition(join(s.tests))
		p.add(step{Step: "table_filter", Condition: &condition})
	}
	p.sort(s.sort)
	if s.top > 0 {
		p.add(step{Step: "top_k", K: s.top})
	}
	p.pick(s)
}

// shape adds the step that makes other rows; joins are the planner's.
func (p *program) shape(s *stage) {
	switch {
	case s.group != nil:
		p.group(s.group)
	case s.jq != "":
		p.add(step{Step: "jq_transform", Query: s.jq})
		p.columns = nil
	case s.extract != nil:
		field := p.column(s.extract.field)
		p.add(step{Step: "regex_extract", Pattern: s.extract.pattern, Field: field})
		if p.columns != nil {
			p.columns = append(slices.Clone(p.columns), groupNames(s.extract.pattern, field)...)
		}
	case s.date != nil:
		p.add(step{Step: "parse_date", Field: p.column(s.date.field), Format: s.date.format})
	}
}

func (p *program) group(g *grouping) {
	by := []string{}
	for _, b := range g.by {
		by = append(by, p.column(b))
	}
	aggs := slices.Clone(g.aggs)
	mixed := false
	for i := range aggs {
		if aggs[i].field != "" {
			aggs[i].field = p.column(aggs[i].field)
		}
		mixed = mixed || aggs[i].fn != aggs[0].fn
	}
	s := step{Step: "groupby", By: &by, Agg: aggs[0].fn}
	columns := slices.Clone(by)
	for _, a := range aggs {
		columns = append(columns, a.name())
		switch {
		case mixed:
			s.Agg = ""
			s.Fields = append(s.Fields, a.fn+"("+a.field+")")
		case len(aggs) > 1:
			s.Fields = append(s.Fields, a.field)
		default:
			s.Field = a.field
		}
	}
	p.add(s)
	p.columns = columns
}

// groupNames are the columns that regex_extract adds: those of a pattern without named groups have names of the field.
func groupNames(pattern, field string) []string {
	var names []string
	for rest := pattern; ; {
		at := strings.Index(rest, "(?P<")
		if at < 0 {
			break
		}
		rest = rest[at+len("(?P<"):]
		name, _, _ := strings.Cut(rest, ">")
		names = append(names, name)
	}
	if len(names) == 0 {
		names = []string{field + "_match"}
	}
	return names
}

// condition names the columns of a filter as they are.
func (p *program) condition(c clause) clause {
	c = cloneClause(c)
	c.each(func(t *clause) { t.Field = p.column(t.Field) })
	return c
}

func cloneClause(c clause) clause {
	list := func(in []clause) []clause {
		var out []clause
		for _, part := range in {
			out = append(out, cloneClause(part))
		}
		return out
	}
	c.And, c.Or = list(c.And), list(c.Or)
	if c.Not != nil {
		not := cloneClause(*c.Not)
		c.Not = &not
	}
	return c
}

// sort adds as few steps as there are changes of direction: a step has one for all its keys, and keeps the order of equal rows, so that
// the last keys go first.
func (p *program) sort(keys []sortKey) {
	var runs [][]sortKey
	for i, k := range keys {
		k.field = p.column(k.field)
		if i == 0 || keys[i-1].desc != k.desc {
			runs = append(runs, nil)
		}
		last := &runs[len(runs)-1]
		if !slices.Contains(*last, k) {
			*last = append(*last, k)
		}
	}
	for _, run := range slices.Backward(runs) {
		s := step{Step: "table_sort", Order: "asc"}
		if run[0].desc {
			s.Order = "desc"
		}
		if len(run) == 1 {
			s.Field = run[0].field
		} else {
			for _, k := range run {
				s.Fields = append(s.Fields, k.field)
			}
		}
		p.add(s)
	}
}

// pick adds table_select. To rename or to drop a field takes a list of all others: where it is not known, what is renamed alone is kept.
func (p *program) pick(s *stage) {
	var list []column
	for _, c := range s.fields {
		list = append(list, column{p.column(c.field), c.as})
	}
	if len(list) == 0 && len(s.rename)+len(s.drop) > 0 {
		for _, c := range p.columns {
			list = append(list, column{field: c})
		}
	}
	for _, r := range s.rename {
		field := p.column(r.field)
		if i := slices.IndexFunc(list, func(c column) bool { return c.field == field }); i >= 0 {
			list[i].as = r.as
		} else {
			list = append(list, column{field, r.as})
		}
	}
	for _, d := range s.drop {
		field := p.column(d)
		list = slices.DeleteFunc(list, func(c column) bool { return c.field == field })
	}
	if len(list) == 0 {
		return
	}
	out := step{Step: "table_select"}
	p.columns = nil
	for _, c := range list {
		name, text := c.field, c.field
		if c.as != "" && c.as != c.field {
			name, text = c.as, c.field+" as "+c.as
		}
		if !slices.Contains(p.columns, name) {
			out.Fields = append(out.Fields, text)
			p.columns = append(p.columns, name)
		}
	}
	p.add(out)
}
