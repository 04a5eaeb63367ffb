package manifest

import (
	"slices"
	"strings"

	"github.com/turnstone-run/turnstone/agent"
)

// suggestion names the field that an unknown one is a slip of, "" when none is near.
func suggestion(name string, fields map[string]any) string {
	plain := func(s string) string {
		return strings.NewReplacer("_", "", "-", "", " ", "").Replace(strings.ToLower(s))
	}
	best, least := "", 1+min(2, len(name)/3)
	known := make([]string, 0, len(fields))
	for field := range fields {
		known = append(known, field)
	}
	slices.Sort(known)
	for _, field := range known {
		steps := distance(plain(name), plain(field))
		if steps < least || steps == least && best != "" && off(field, name) < off(best, name) {
			best, least = field, steps
		}
	}
	if best == "" {
		return ""
	}
	return "; did you mean \"" + best + "\"?"
}

// off is how much longer or shorter one name is than another.
func off(a, b string) int { return max(len(a)-len(b), len(b)-len(a)) }

// distance counts the characters to add, remove, replace or swap with their neighbour. Names are short: they are bounded when read.
func distance(a, b string) int {
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

// hint says where a secret belongs that stands in a field of its own invention.
func hint(kind agent.Kind, name, message string) string {
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
