package openapi

import (
	"cmp"
	"slices"
	"strings"
	"unicode"

	"github.com/turnstone-run/turnstone/internal/clip"
	"github.com/turnstone-run/turnstone/internal/schema"
)

// maxSuggestions is how many names an error suggests; maxCompared is the number of bytes of a name that are compared.
const (
	maxSuggestions = 10
	maxCompared    = 100
)

// similarNames returns the names that are most like a wrong one, the best first: those that share words with it or differ in few letters.
func similarNames(name string, known []string) []string {
	type candidate struct {
		name  string
		score int
	}
	var all []candidate
	wanted := splitWords(name)
	for _, other := range known {
		words, shared := splitWords(other), 0
		for _, w := range words {
			if slices.Contains(wanted, w) {
				shared++
			}
		}
		steps := schema.EditDistance(strings.Join(wanted, ""), strings.Join(words, ""))
		if steps <= 1+len(name)/4 || shared > 0 {
			all = append(all, candidate{other, 4*shared - steps})
		}
	}
	slices.SortStableFunc(all, func(a, b candidate) int {
		return cmp.Or(cmp.Compare(b.score, a.score), strings.Compare(a.name, b.name))
	})
	names := make([]string, 0, maxSuggestions)
	for _, c := range all[:min(maxSuggestions, len(all))] {
		names = append(names, clip.Bytes(c.name, maxCompared))
	}
	return names
}

// splitWords splits a name where letters change case and at what is no letter or digit.
func splitWords(name string) []string {
	var b strings.Builder
	before := ' '
	for _, c := range clip.Bytes(name, maxCompared) {
		switch {
		case !unicode.IsLetter(c) && !unicode.IsDigit(c):
			c = ' '
		case unicode.IsUpper(c) && unicode.IsLower(before):
			b.WriteByte(' ')
		}
		b.WriteRune(unicode.ToLower(c))
		before = c
	}
	return strings.Fields(b.String())
}

// didYouMean returns the end of an error that suggests the names most like a wrong one, "" if none is.
func didYouMean(name string, known []string) string {
	names := similarNames(name, known)
	if len(names) == 0 {
		return ""
	}
	return "; did you mean " + quoteNames(names) + "?"
}

func quoteNames(names []string) string {
	if len(names) == 0 {
		return ""
	}
	return `"` + strings.Join(names, `", "`) + `"`
}
