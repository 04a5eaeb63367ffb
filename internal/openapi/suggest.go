package openapi

import (
	"cmp"
	"slices"
	"strings"
	"unicode"

	"github.com/turnstone-run/turnstone/internal/clip"
	"github.com/turnstone-run/turnstone/internal/schema"
)

const (
	maxSuggestions = 10  // names in an error
	maxCompared    = 100 // bytes of a name that are compared
)

// similarNames returns the names that are most similar to a wrong name, best first: those that share words with it or differ in few letters.
func similarNames(name string, names []string) []string {
	type candidate struct {
		name  string
		score int
	}
	var all []candidate
	nameWords := splitWords(name)
	for _, other := range names {
		words, shared := splitWords(other), 0
		for _, w := range words {
			if slices.Contains(nameWords, w) {
				shared++
			}
		}
		edits := schema.EditDistance(strings.Join(nameWords, ""), strings.Join(words, ""))
		if edits <= 1+len(name)/4 || shared > 0 {
			all = append(all, candidate{other, 4*shared - edits})
		}
	}
	slices.SortStableFunc(all, func(a, b candidate) int {
		return cmp.Or(cmp.Compare(b.score, a.score), strings.Compare(a.name, b.name))
	})
	var best []string
	for _, c := range all[:min(maxSuggestions, len(all))] {
		best = append(best, clip.Bytes(c.name, maxCompared))
	}
	return best
}

// splitWords splits a name at characters other than letters and digits, and where a lower-case letter precedes an upper-case one.
func splitWords(name string) []string {
	var b strings.Builder
	previous := ' '
	for _, c := range clip.Bytes(name, maxCompared) {
		switch {
		case !unicode.IsLetter(c) && !unicode.IsDigit(c):
			c = ' '
		case unicode.IsUpper(c) && unicode.IsLower(previous):
			b.WriteByte(' ')
		}
		b.WriteRune(unicode.ToLower(c))
		previous = c
	}
	return strings.Fields(b.String())
}

// didYouMean returns the end of an error that suggests similar names, "" if there are none.
func didYouMean(name string, names []string) string {
	similar := similarNames(name, names)
	if len(similar) == 0 {
		return ""
	}
	return "; did you mean " + quoteNames(similar) + "?"
}

// quoteNames returns the quoted names, separated by commas.
func quoteNames(names []string) string {
	if len(names) == 0 {
		return ""
	}
	return `"` + strings.Join(names, `", "`) + `"`
}
