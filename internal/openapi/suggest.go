package openapi

import (
	"cmp"
	"slices"
	"strings"
	"unicode"

	"github.com/turnstone-run/turnstone/internal/clip"
)

// maxNear is how many names an error suggests; maxCompared bounds a name that is compared letter by letter.
const (
	maxNear     = 10
	maxCompared = 100
)

// near lists the names that are most like a wrong one, the best first: those with few letters between them, then those that share words.
func near(name string, known []string) []string {
	type scored struct {
		name  string
		score int
	}
	var all []scored
	wanted := words(name)
	for _, candidate := range known {
		shared := 0
		for _, w := range words(candidate) {
			if slices.Contains(wanted, w) {
				shared++
			}
		}
		steps := distance(plain(name), plain(candidate))
		if steps <= 1+len(name)/4 || shared > 0 {
			all = append(all, scored{candidate, 4*shared - steps})
		}
	}
	slices.SortStableFunc(all, func(a, b scored) int {
		return cmp.Or(cmp.Compare(b.score, a.score), strings.Compare(a.name, b.name))
	})
	names := make([]string, 0, maxNear)
	for _, s := range all[:min(maxNear, len(all))] {
		names = append(names, clip.Bytes(s.name, maxCompared))
	}
	return names
}

// words splits a name where letters change case and at what is no letter or digit.
func words(name string) []string {
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

func plain(name string) string { return strings.Join(words(name), "") }

// distance counts the characters to add, remove or replace.
func distance(a, b string) int {
	s, t := []rune(a), []rune(b)
	row := make([]int, len(t)+1)
	for j := range row {
		row[j] = j
	}
	for i := range s {
		diagonal := row[0]
		row[0] = i + 1
		for j := range t {
			cost := diagonal
			if s[i] != t[j] {
				cost++
			}
			diagonal = row[j+1]
			row[j+1] = min(row[j]+1, row[j+1]+1, cost)
		}
	}
	return row[len(t)]
}

// didYouMean ends an error with a suggestion, if there is one.
func didYouMean(names []string) string {
	if len(names) == 0 {
		return ""
	}
	return "; did you mean " + quoted(names) + "?"
}

func quoted(names []string) string {
	all := make([]string, len(names))
	for i, n := range names {
		all[i] = `"` + n + `"`
	}
	return strings.Join(all, ", ")
}
