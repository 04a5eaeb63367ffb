package manifest

import (
	"cmp"
	"slices"

	"github.com/turnstone-run/turnstone/internal/schema"
)

// sortFaults orders faults by place, name and message: the validator walks maps, and of several faults of a field the first is reported.
func sortFaults(faults []schema.Fault) []schema.Fault {
	slices.SortStableFunc(faults, func(a, b schema.Fault) int {
		return cmp.Or(slices.Compare(a.Tokens, b.Tokens), cmp.Compare(a.Name, b.Name), cmp.Compare(a.Message(), b.Message()))
	})
	return faults
}

// checkSchema adds the faults that the schema finds and marks their values. valid is false if the schema refuses the document, even when
// no fault was added.
func (c *checker) checkSchema(s *documentSchema) (valid bool) {
	found, valid := s.Faults(c.root.value(), s.wording())
	for _, f := range sortFaults(found) {
		n, path := c.root.route(f.Tokens)
		if n == nil || n.bad || c.known[path] {
			continue
		}
		if f.Name == "" {
			c.addFaultAt(n.where(), path, f.Message())
			n.bad = n != c.root
			continue
		}
		path = child(path, f.Name)
		field := n.member(f.Name)
		switch {
		case field == nil:
			c.addFaultAt(n.where(), path, f.Message())
		case f.Unknown && !field.bad:
			c.addFaultAt(field.key, path, secretHint(c.kind, f.Name, f.Message()))
			field.bad = true
		}
	}
	return valid
}
