package manifest

import (
	"cmp"
	"slices"

	"github.com/turnstone-run/turnstone/internal/schema"
)

// sortFaults sorts faults by path, name and message, because the validator walks maps in random order and only the first fault of a field is
// reported.
func sortFaults(faults []schema.Fault) []schema.Fault {
	slices.SortStableFunc(faults, func(a, b schema.Fault) int {
		return cmp.Or(slices.Compare(a.Tokens, b.Tokens), cmp.Compare(a.Name, b.Name), cmp.Compare(a.Message(), b.Message()))
	})
	return faults
}

// checkSchema adds the faults that the schema finds and marks the faulty values. valid is false if the schema refuses the document, even
// if no fault was added.
func (c *checker) checkSchema(s *documentSchema) (valid bool) {
	found, valid := s.Faults(c.root.value(), s.wording())
	for _, f := range sortFaults(found) {
		n, path := c.root.findTokens(f.Tokens)
		if n == nil || n.hasFault || c.reported[path] {
			continue
		}
		if f.Name == "" {
			c.addFaultAt(n.faultPosition(), path, f.Message())
			n.hasFault = n != c.root
			continue
		}
		path = child(path, f.Name)
		field := n.member(f.Name)
		switch {
		case field == nil:
			c.addFaultAt(n.faultPosition(), path, f.Message())
		case f.Unknown && !field.hasFault:
			c.addFaultAt(field.keyPos, path, secretHint(c.kind, f.Name, f.Message()))
			field.hasFault = true
		}
	}
	return valid
}
