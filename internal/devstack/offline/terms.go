package offline

import (
	"slices"
	"strings"
	"unicode"
)

// maxTerms bounds what is read of one text.
const maxTerms = 20_000

// splitWords are the words of a text, in lower case.
func splitWords(text string) []string {
	words := strings.FieldsFunc(strings.ToLower(text), func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) && r != '\'' && r != '’' })
	out := words[:0]
	for _, w := range words {
		w = strings.Trim(w, "'’")
		for _, possessive := range []string{"'s", "’s"} {
			w = strings.TrimSuffix(w, possessive)
		}
		if w != "" && len(out) < maxTerms {
			out = append(out, w)
		}
	}
	return out
}

// terms are the words that tell what a text is about, each once, in order, as [stem] has them.
func terms(text string) []string {
	var out []string
	seen := map[string]bool{}
	for _, w := range splitWords(text) {
		if t := stem(w); !stopWord(w) && !seen[t] {
			seen[t] = true
			out = append(out, t)
		}
	}
	return out
}

// stem takes the commonest English endings off, so that "served" and "serves" are one word. It need not be a word.
func stem(w string) string {
	const least = 3 // bytes that stay
	cut := func(suffix, instead string) bool {
		rest, ok := strings.CutSuffix(w, suffix)
		if !ok || len(rest) < least {
			return false
		}
		w = rest + instead
		return true
	}
	switch {
	case cut("ies", "y"), strings.HasSuffix(w, "ss"), cut("ing", ""), cut("ed", ""), cut("es", ""), cut("s", ""):
	}
	if n := len(w); n > least && w[n-1] == w[n-2] && !slices.Contains([]byte("lsz"), w[n-1]) && w[n-1] < 0x80 && unicode.IsLetter(rune(w[n-1])) {
		w = w[:n-1] // running, run
	}
	cut("e", "")
	return w
}
