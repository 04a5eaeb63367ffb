package manifest

import (
	"maps"
	"slices"
	"strings"

	"github.com/turnstone-run/turnstone/agent"
)

// suggestField returns a question about the field that was probably meant, empty if no name is similar.
func suggestField(name string, fields map[string]any) string {
	plain := func(s string) string {
		return strings.NewReplacer("_", "", "-", "", " ", "").Replace(strings.ToLower(s))
	}
	best, bestEdits := "", 1+min(2, len(name)/3)
	for _, field := range slices.Sorted(maps.Keys(fields)) {
		edits := editDistance(plain(name), plain(field))
		if edits < bestEdits || edits == bestEdits && best != "" && lengthDifference(field, name) < lengthDifference(best, name) {
			best, bestEdits = field, edits
		}
	}
	if best == "" {
		return ""
	}
	return "; did you mean \"" + best + "\"?"
}

func lengthDifference(a, b string) int { return max(len(a)-len(b), len(b)-len(a)) }

// editDistance returns how many characters must be added, removed, replaced or swapped with their neighbour. Names are short.
func editDistance(a, b string) int {
	s, t := []rune(a), []rune(b)
	var before, previous []int
	current := make([]int, len(t)+1)
	for j := range current {
		current[j] = j
	}
	for i := range s {
		before, previous, current = previous, current, make([]int, len(t)+1)
		current[0] = i + 1
		for j := range t {
			replaced := previous[j]
			if s[i] != t[j] {
				replaced++
			}
			current[j+1] = min(previous[j+1]+1, current[j]+1, replaced)
			if i > 0 && j > 0 && s[i] == t[j-1] && s[i-1] == t[j] {
				current[j+1] = min(current[j+1], before[j-1]+1)
			}
		}
	}
	return current[len(t)]
}

// secretHint returns message, or where a secret belongs if the unknown field is named like one.
func secretHint(kind agent.Kind, name, message string) string {
	switch strings.NewReplacer("_", "", "-", "").Replace(strings.ToLower(name)) {
	case "apikey", "key", "token", "accesstoken", "bearer", "bearertoken", "secret", "password", "passwd", "credentials", "clientsecret":
	default:
		return message
	}
	switch kind {
	case agent.KindAuth:
		return "unknown field; give a reference to the secret in secret, password or client_secret: env:NAME or file:/path"
	case agent.KindModel, agent.KindBinding:
		return "unknown field; a secret belongs in an AuthProfile as env:NAME or file:/path, and its name in auth"
	default:
		return "unknown field; a secret belongs in an AuthProfile as env:NAME or file:/path"
	}
}
